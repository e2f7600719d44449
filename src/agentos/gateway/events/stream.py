"""Server-sent events: the same stream for clients that want plain HTTP. See docs/events.md."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events import frames
from agentos.gateway.events.errors import credential_ended
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.hub import EventHub, Feed
from agentos.gateway.events.streaming import pump
from agentos.kernel.ids import TenantId
from agentos.tenancy.principals import Scope

_HEARTBEAT_SECONDS = 15.0
_CLOSE_SECONDS = 2.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that collect answers before passing them on would hold back every event.
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """An answer that goes on until one side has had enough."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: EventHub,
        watch: CredentialWatch,
        *,
        tenant_id: TenantId,
        credential: str,
        after: int | None,
        wanted: TypeFilter,
    ):
        super().__init__()
        self._hub = hub
        self._watch = watch
        self._tenant_id = tenant_id
        self._credential = credential
        self._after = after
        self._wanted = wanted

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        async with self._hub.attach(
            self._tenant_id, after=self._after, wanted=self._wanted
        ) as feed:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _body(send, b"retry: 1000\n\n")
            with self._watch.watching(
                self._credential,
                Scope.EVENTS_READ,
                lambda error: feed.end(credential_ended(error)),
            ):
                await _serve(feed, receive, send)


async def _serve(feed: Feed, receive: Receive, send: Send) -> None:
    ending = await pump(
        feed,
        write=lambda batch: _body(send, _encode(batch)),
        listen=_until_gone(receive),
        idle=_HEARTBEAT_SECONDS,
    )
    if ending is None:
        return
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            last = frames.dropped(ending.reason, feed.sent)
            await _body(send, last.sse)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _encode(batch: list[Frame]) -> bytes:
    return b"".join([frame.sse for frame in batch]) if batch else b":\n\n"


async def _body(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
