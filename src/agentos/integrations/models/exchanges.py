"""One exchange with a provider, and what its failures mean."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from agentos.integrations.models.failures import ErrorClass, Failure
from agentos.integrations.models.providers.asking import masked
from agentos.integrations.models.upstream import UpstreamAnswer, UpstreamLost, UpstreamTimeout
from agentos.integrations.models.wires.base import MalformedAnswer, Wire

_MOST_ERROR = 64 * 1024


class Exchange:
    """An upstream exchange that is closed once, by whoever comes first."""

    __slots__ = ("_context",)

    def __init__(self, context: AbstractAsyncContextManager[UpstreamAnswer]):
        self._context: AbstractAsyncContextManager[UpstreamAnswer] | None = context

    async def open(self) -> UpstreamAnswer:
        assert self._context is not None
        return await self._context.__aenter__()

    async def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)


async def refusal(wire: Wire, answer: UpstreamAnswer, key: str | None) -> Failure:
    """What an answer that is not 200 means."""
    body = await answer.body(_MOST_ERROR)
    error_class, message = wire.error_class(answer.status, body)
    told = _seconds(answer.header("retry-after"))
    return Failure(
        error_class,
        masked(message, key),
        status=answer.status,
        retry_after=wire.retry_after(body) if told is None else told,
    )


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, is as good as none to us."""
    if text is None or not text.replace(".", "", 1).isdecimal():
        return None
    return float(text)


def failure_of(error: UpstreamTimeout | UpstreamLost | MalformedAnswer) -> Failure:
    if isinstance(error, UpstreamTimeout):
        return Failure(ErrorClass.TIMEOUT, "it stayed silent for too long")
    if isinstance(error, MalformedAnswer):
        return Failure(ErrorClass.OVERLOAD, "it answered something that is not its own format")
    return Failure(ErrorClass.OVERLOAD, f"the connection failed ({error})")


def class_of(kind: str) -> ErrorClass:
    try:
        return ErrorClass(kind)
    except ValueError:
        return ErrorClass.OVERLOAD


def check_json(data: bytes) -> None:
    """Raises MalformedAnswer."""
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise MalformedAnswer("not JSON") from None
