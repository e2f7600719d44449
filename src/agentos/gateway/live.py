"""A session's words as they come: server-sent events beside the journal. See docs/sessions.md."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agentos.execution.pulse.errors import SessionNotFound
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events.endpoints import Streams, credential_of
from agentos.gateway.events.words import SessionWords, Words
from agentos.gateway.parts import Parts
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import TenantId
from agentos.tenancy.principals import Principal, Scope

router = APIRouter(prefix="/api/sessions", tags=["sessions"])

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
# A watcher that is so many pieces behind is let go: what it missed is in the journal.
_MOST_WAITING = 1000
# How often it is looked whether the session has ended.
_LOOK_SECONDS = 4.0
_END = b"event: ended\ndata: {}\n\n"


class Watchers:
    """The live streams of this gateway, so that it can end them before it stops."""

    def __init__(self) -> None:
        self._open: set[LiveStream] = set()

    @contextmanager
    def joined(self, stream: LiveStream) -> Iterator[None]:
        self._open.add(stream)
        try:
            yield
        finally:
            self._open.discard(stream)

    def close(self) -> None:
        for stream in self._open:
            stream.end()


class LiveStream(Response):
    media_type = "text/event-stream"

    def __init__(
        self,
        parts: Parts,
        words: SessionWords,
        watchers: Watchers,
        watch: CredentialWatch,
        tenant_id: TenantId,
        session_id: UUID,
        credential: str,
    ):
        super().__init__()
        self._parts = parts
        self._words = words
        self._watchers = watchers
        self._watch = watch
        self._tenant_id = tenant_id
        self._session_id = session_id
        self._credential = credential
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _body(send, b"retry: 1000\n\n")
        async with self._words.listening(self._tenant_id, self._session_id, self._hear):
            tasks = [
                asyncio.create_task(work)
                for work in (self._write(send), self._await_end(), _until_gone(receive))
            ]
            try:
                with (
                    self._watchers.joined(self),
                    self._watch.watching(
                        self._credential, Scope.SESSIONS_READ, lambda _: self.end()
                    ),
                ):
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def end(self) -> None:
        """Closes the stream once what waits has been written."""
        self._waiting.put_nowait(None)

    def _hear(self, words: Words) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put_nowait(words.sse)
        else:
            self.end()

    async def _write(self, send: Send) -> None:
        with suppress(OSError):
            while (piece := await self._waiting.get()) is not None:
                await _body(send, piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _await_end(self) -> None:
        """Ends the stream once the session has ended."""
        while True:
            with suppress(AgentOSError):
                if await has_ended(self._parts, self._tenant_id, self._session_id):
                    break
            await asyncio.sleep(_LOOK_SECONDS)
            # So that a connection that is dead is found out.
            self._waiting.put_nowait(b":\n\n")
        self._waiting.put_nowait(_END)
        self.end()
        await asyncio.Event().wait()


async def _body(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def has_ended(parts: Parts, tenant_id: TenantId, session_id: UUID) -> bool | None:
    """None if there is no such session."""
    async with parts.db.transaction(tenant_id=tenant_id) as tx:
        ended: bool | None = await tx.value(
            "select finished_at is not null from sessions where tenant_id = $1 and id = $2",
            tenant_id,
            session_id,
        )
    return ended


@router.get(
    "/{session_id}/live",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events; each `data` is `{seq, text, done, reset}`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def watch_session(session_id: UUID, request: Request) -> LiveStream:
    """The model's words as they come, until the session ends. What they were is in its steps.

    Of an answer that is being streamed already, the words so far come first.
    """
    principal: Principal = request.state.principal
    principal.require(Scope.SESSIONS_READ)
    parts: Parts = request.app.state.parts
    streams: Streams = request.app.state.event_streams
    if await has_ended(parts, principal.tenant_id, session_id) is None:
        raise SessionNotFound()
    return LiveStream(
        parts,
        streams.hub.words,
        request.app.state.watchers,
        streams.watch,
        principal.tenant_id,
        session_id,
        credential_of(request),
    )
