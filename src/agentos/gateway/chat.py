"""The chat of a team as server-sent events, and waiting for one answer. See docs/teams.md."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack, suppress
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agentos.execution.crews.errors import TeamNotFound
from agentos.execution.crews.messages import repository as messages
from agentos.execution.crews.messages.errors import MessageNotFound
from agentos.execution.crews.messages.schemas import MessageRead
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events.chats import Piece
from agentos.gateway.events.endpoints import Streams, credential_of
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.hub import EventHub, Feed
from agentos.gateway.events.mailbox import Ended
from agentos.gateway.parts import Parts
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.tenancy.principals import Principal, Scope

router = APIRouter(prefix="/api/teams/{team_id}", tags=["messages"])

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that collect answers before passing them on would hold back every piece.
    (b"x-accel-buffering", b"no"),
]
_HEARTBEAT_SECONDS = 15.0
# A watcher that is so many pieces behind is let go: what it missed is in the messages.
_MOST_WAITING = 1000
_STATES = TypeFilter(prefixes=("message.",))
_END = "message.finished"
_FINISHED = TypeFilter(exact=frozenset({_END}))
_MOST_ENDS = 100
# A row is looked at this often in any case: an event may be late.
_LOOK_SECONDS = 2.0


class _Data(msgspec.Struct):
    team_id: UUID
    message_id: UUID


class _About(msgspec.Struct):
    """What an event about a message says of where it belongs."""

    id: UUID
    data: _Data


_about = msgspec.json.Decoder(_About)


class ChatStream(Response):
    """First what is known now, then words, deeds and changes as they come."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: EventHub,
        db: Database,
        watch: CredentialWatch,
        *,
        tenant_id: TenantId,
        team_id: UUID,
        credential: str,
    ):
        super().__init__()
        self._hub = hub
        self._db = db
        self._watch = watch
        self._tenant_id = tenant_id
        self._team_id = team_id
        self._credential = credential
        # None: it is over.
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        # The last ends that were told: each comes from the team's keeper, and from the relay.
        self._ends: deque[UUID] = deque(maxlen=_MOST_ENDS)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        async with AsyncExitStack() as stack:
            feed = await stack.enter_async_context(
                self._hub.attach(self._tenant_id, after=None, wanted=_STATES)
            )
            await stack.enter_async_context(
                self._hub.chats.listening(self._tenant_id, self._team_id, self._hear)
            )
            stack.enter_context(
                self._watch.watching(self._credential, Scope.MESSAGES_READ, lambda _: self._end())
            )
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _body(send, b"retry: 1000\n\n" + await self._snapshot())
            await self._serve(feed, receive, send)

    async def _snapshot(self) -> bytes:
        async with self._db.transaction(tenant_id=self._tenant_id) as tx:
            rows = await messages.open_of(tx, self._tenant_id, self._team_id)
        body = {
            "running": next((row["id"] for row in rows if row["state"] == "running"), None),
            "queued": [row["id"] for row in rows if row["state"] == "queued"],
        }
        return b"event: snapshot\ndata: %b\n\n" % msgspec.json.encode(body)

    async def _serve(self, feed: Feed, receive: Receive, send: Send) -> None:
        tasks = [
            asyncio.create_task(work)
            for work in (self._write(send), self._follow(feed), _until_gone(receive))
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _hear(self, piece: Piece) -> None:
        if piece.event_id is None or self._is_news(piece.event_id):
            self._put(piece.sse)

    def _is_news(self, event_id: UUID) -> bool:
        if event_id in self._ends:
            return False
        self._ends.append(event_id)
        return True

    def _put(self, data: bytes) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put_nowait(data)
        else:
            self._end()

    def _end(self) -> None:
        """Closes the stream once what waits has been written."""
        self._waiting.put_nowait(None)

    async def _follow(self, feed: Feed) -> None:
        """Passes on what becomes of this team's messages, and lets the connection be seen to live."""
        with suppress(Ended):
            while True:
                frames = await feed.take(_HEARTBEAT_SECONDS)
                feed.delivered(frames)
                if not frames:
                    self._put(b":\n\n")
                for frame in frames:
                    about = _about_of(frame)
                    if about is None or about.data.team_id != self._team_id:
                        continue
                    if frame.type != _END or self._is_news(about.id):
                        self._put(frame.sse)
        self._end()
        await asyncio.Event().wait()  # until what waits is written

    async def _write(self, send: Send) -> None:
        with suppress(OSError):
            while (data := await self._waiting.get()) is not None:
                await _body(send, data)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _about_of(frame: Frame) -> _About | None:
    """Of which message an event tells; None if it is no event, but about the stream."""
    return _about.decode(frame.data) if frame.type.startswith("message.") else None


async def _body(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get(
    "/chat",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `snapshot` first, then `chunk`, `activity` and "
            "`message.*` as they come.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def watch_chat(team_id: UUID, request: Request) -> ChatStream:
    """What the team says and does while it answers, from the beginning of the answer at hand. Earlier
    ones are in its messages."""
    principal, parts, streams = _around(request)
    if not await streams.hub.chats.exists(principal.tenant_id, team_id):
        raise TeamNotFound()
    return ChatStream(
        streams.hub,
        parts.db,
        streams.watch,
        tenant_id=principal.tenant_id,
        team_id=team_id,
        credential=credential_of(request),
    )


@router.get("/messages/{message_id}/wait", response_model=MessageRead)
async def wait_for_answer(
    team_id: UUID,
    message_id: UUID,
    request: Request,
    seconds: Annotated[float, Query(ge=0, le=60, description="How long to wait at most.")] = 30,
) -> Response:
    """The message once it has ended, or as it is when the time is over."""
    principal, parts, streams = _around(request)
    tenant_id = principal.tenant_id

    async def read() -> MessageRead:
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            row = await messages.find(tx, tenant_id, team_id, message_id)
        if row is None:
            raise MessageNotFound()
        return MessageRead(**row)

    message = await read()
    if message.finished_at is None and seconds > 0:
        async with streams.hub.attach(tenant_id, after=None, wanted=_FINISHED) as feed:
            with suppress(TimeoutError, Ended):
                async with asyncio.timeout(seconds):
                    while (message := await read()).finished_at is None:
                        await _finished(feed, message_id)
    return JSONResponse(message.model_dump(mode="json"))


async def _finished(feed: Feed, message_id: UUID) -> None:
    """Waits until a message seems to have ended."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_SECONDS):
            while True:
                for frame in await feed.take():
                    about = _about_of(frame)
                    if about is not None and about.data.message_id == message_id:
                        return


def _around(request: Request) -> tuple[Principal, Parts, Streams]:
    principal: Principal = request.state.principal
    principal.require(Scope.MESSAGES_READ)
    return principal, request.app.state.parts, request.app.state.event_streams
