"""The built-in model behind the interface of any provider: it answers in the wires' own bytes."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Literal

import msgspec

from agentos.integrations.models.conversation import Broken, Started, StreamEvent
from agentos.integrations.models.demo.model import DemoModel
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.folding import fold
from agentos.integrations.models.providers.demo import MODEL, SCHEME
from agentos.integrations.models.upstream import Upstream, UpstreamAnswer
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedRequest,
    Translating,
    Wire,
    WireName,
)
from agentos.integrations.models.wires.registry import TRANSLATING, WIRES

_STATUS = {
    ErrorClass.OVERLOAD: 503,
    ErrorClass.RATE_LIMIT: 429,
    ErrorClass.AUTH: 401,
    ErrorClass.TIMEOUT: 504,
    ErrorClass.CONTEXT_LENGTH: 400,
    ErrorClass.NOT_FOUND: 404,
    ErrorClass.INVALID: 400,
}


_MODEL = DemoModel()


class DemoUpstream:
    """Answers calls of the built-in model here, and passes all others on."""

    def __init__(self, others: Upstream):
        self._others = others

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        if url.startswith(SCHEME):
            return _answering(WireName(url.removeprefix(SCHEME)), body or b"")
        return self._others.send(method, url, headers=headers, body=body, timeout=timeout)

    async def close(self) -> None:
        await self._others.close()


class _DemoAnswer:
    """An answer made here: whole, or as it is being said."""

    def __init__(self, status: int, source: bytes | AsyncIterator[bytes]):
        self.status = status
        self._source = source

    def header(self, name: str) -> str | None:  # noqa: ARG002 - it has none
        return None

    async def body(self, most: int) -> bytes:  # noqa: ARG002 - it is short
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        if isinstance(self._source, bytes):
            yield self._source
            return
        async for chunk in self._source:
            yield chunk


@asynccontextmanager
async def _answering(name: WireName, body: bytes) -> AsyncGenerator[UpstreamAnswer]:
    wire = WIRES[name]
    try:
        if name in _AT_ONCE:
            yield _DemoAnswer(200, _AT_ONCE[name](body))
            return
        conversation = TRANSLATING[name].read_request(body)
    except MalformedRequest as error:
        yield _error(wire, ErrorClass.INVALID, error.message)
        return
    async with aclosing(_MODEL.play(conversation)) as events:
        yield await _said(TRANSLATING[name], wire.glance(body), events)


async def _said(
    wire: Translating, glance: Glance, events: AsyncGenerator[StreamEvent]
) -> _DemoAnswer:
    # An error before the first word is an error answer, as with any provider.
    opening = [event async for event in _until_content(events)]
    if isinstance(opening[-1], Broken):
        return _error(wire, opening[-1].kind, opening[-1].message)
    if glance.stream:
        return _DemoAnswer(200, _stream(wire, glance, opening, events))
    whole = opening + [event async for event in events]
    if isinstance(whole[-1], Broken):
        return _error(wire, whole[-1].kind, whole[-1].message)
    return _DemoAnswer(200, wire.write_answer(fold(whole)))


async def _until_content(events: AsyncGenerator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    async for event in events:
        yield event
        if not isinstance(event, Started):
            return


async def _stream(
    wire: Translating,
    glance: Glance,
    opening: list[StreamEvent],
    events: AsyncGenerator[StreamEvent],
) -> AsyncIterator[bytes]:
    writer = wire.writer(glance)
    for event in opening:
        yield writer.write(event)
    async for event in events:
        yield writer.write(event)


def _error(wire: Wire, kind: str, message: str) -> _DemoAnswer:
    error_class = ErrorClass(kind)
    status = _STATUS[error_class]
    return _DemoAnswer(status, wire.error(status, error_class, error_class, message))


# What is answered at once


class _EmbeddingsRequest(msgspec.Struct):
    input: str | list[str | int | list[int]]
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"


def _embeddings(body: bytes) -> bytes:
    try:
        request = msgspec.json.decode(body, type=_EmbeddingsRequest)
    except msgspec.DecodeError as error:
        raise MalformedRequest(f"This is not an embeddings request: {error}.") from None
    if request.dimensions is not None and not 1 <= request.dimensions <= 4096:
        raise MalformedRequest("dimensions must be between 1 and 4096.")
    texts = _texts(request.input)
    vectors = _MODEL.embed(texts, request.dimensions)
    tokens = sum(len(text.encode()) // 4 + 1 for text in texts)
    return msgspec.json.encode(
        {
            "object": "list",
            "model": MODEL,
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _encoded(vector, request.encoding_format),
                }
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


def _texts(given: str | list[Any]) -> list[str]:
    if isinstance(given, str):
        return [given]
    if given and isinstance(given[0], int):
        return [" ".join(map(str, given))]
    return [each if isinstance(each, str) else " ".join(map(str, each)) for each in given]


def _encoded(vector: list[float], encoding: str) -> list[float] | str:
    if encoding == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _tokens(body: bytes) -> bytes:
    # The same request as for messages, but for the limit on an answer that is not asked for.
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields["max_tokens"] = msgspec.Raw(b"1")
    conversation = TRANSLATING[WireName.MESSAGES].read_request(msgspec.json.encode(fields))
    return msgspec.json.encode({"input_tokens": _MODEL.count_tokens(conversation)})


_AT_ONCE: dict[WireName, Callable[[bytes], bytes]] = {
    WireName.EMBEDDINGS: _embeddings,
    WireName.COUNT_TOKENS: _tokens,
}
