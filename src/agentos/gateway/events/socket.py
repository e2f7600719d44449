"""The event socket: a WebSocket as a plain ASGI application. See docs/events.md."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from urllib.parse import parse_qs

from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events.credentials import Doorkeeper
from agentos.gateway.events.errors import BadPosition, Ending, credential_ended
from agentos.gateway.events.filters import parse_types
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.hub import EventHub, Feed
from agentos.gateway.events.protocol import WRITE_NOW, framed
from agentos.gateway.events.streaming import pump
from agentos.gateway.events.watching import Watching
from agentos.gateway.problems import problem
from agentos.kernel.errors import AgentOSError, Kind
from agentos.tenancy.principals import Scope

_CLOSE_SECONDS = 2.0
_MOST_REASON_BYTES = 123  # what a close frame holds


class EventSocket:
    def __init__(self, hub: EventHub, doorkeeper: Doorkeeper, watch: CredentialWatch):
        self._hub = hub
        self._doorkeeper = doorkeeper
        self._watch = watch

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        query = {
            name: values[-1]
            for name, values in parse_qs(scope["query_string"].decode("latin-1"), True).items()
        }
        async with AsyncExitStack() as stack:
            try:
                credential, identity = await self._doorkeeper.admit(scope, query.get("ticket"))
                feed = await stack.enter_async_context(
                    self._hub.attach(
                        identity.principal.tenant_id,
                        after=parse_position(query.get("after")),
                        wanted=parse_types(query.get("types")),
                    )
                )
            except AgentOSError as error:
                await _refuse(scope, send, error)
                return
            stack.enter_context(
                self._watch.watching(
                    credential, Scope.EVENTS_READ, lambda error: feed.end(credential_ended(error))
                )
            )
            with suppress(OSError):  # the client left while it was being let in
                await send({"type": "websocket.accept"})
                write = scope["extensions"][WRITE_NOW]["write"]
                feed.write_directly(write)
                watching = Watching(self._hub, self._watch, credential, identity, write)
                stack.push_async_callback(watching.close)
                await _serve(feed, watching, receive, send)


def parse_position(text: str | None) -> int | None:
    if text is None:
        return None
    # 18 digits fit the database's bigint.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadPosition()
    return int(text)


async def _serve(feed: Feed, watching: Watching, receive: Receive, send: Send) -> None:
    ending = await pump(
        feed,
        write=lambda frames: send({"type": "websocket.send", "frame": _framed(frames)}),
        listen=_listen(watching, receive, send),
    )
    if ending is not None:
        await _close(send, ending, feed.sent)


def _framed(frames: list[Frame]) -> bytes:
    if len(frames) == 1:
        return frames[0].framed
    return framed(b"\n".join([frame.data for frame in frames]))


async def _listen(watching: Watching, receive: Receive, send: Send) -> None:
    """Answers pings and does what the client wants to watch, until it goes; ignores all else."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text == "ping":
            await send({"type": "websocket.send", "text": "pong"})
        elif text:
            await watching.obey(text)


async def _close(send: Send, ending: Ending, after: int) -> None:
    reason = f"{ending.message}: reconnect with ?after={after}"
    # A client that does not read does not see why, either.
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await send(
                {
                    "type": "websocket.close",
                    "code": ending.code,
                    "reason": reason[:_MOST_REASON_BYTES],
                }
            )


async def _refuse(scope: AsgiScope, send: Send, error: AgentOSError) -> None:
    """Answers the handshake with a problem document, or else with a close code."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        code = {Kind.UNAUTHENTICATED: 4401, Kind.FORBIDDEN: 4403}.get(error.kind, 1008)
        await send({"type": "websocket.close", "code": code, "reason": error.code})
        return
    answer = problem(error, scope.get("state", {}).get("request_id"))
    await send(
        {
            "type": "websocket.http.response.start",
            "status": answer.status_code,
            "headers": answer.raw_headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": answer.body})
