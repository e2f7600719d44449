"""What teams say while they answer, for the watchers of this gateway. Nothing of it is kept.

Each team that is watched here is one subscription, however many watch it, and each piece is read
and written once for all of them. What comes over the bus may come from a sandbox: what is no piece
of a chat is dropped, and nothing is passed on as it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import msgspec

from agentos.contracts.crew import BadFrame, Chat, Chunk, chat_subject, decode_chat
from agentos.execution.crews.hints import ended_subject
from agentos.execution.pulse.live import WATCHED_SECONDS, WATCHED_SUBJECT
from agentos.gateway.events.frames import Frame
from agentos.kernel.bus import Bus, Message, Subscription
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError

Hear = Callable[["Piece"], None]

# Of one piece; the rest of a longer one is in the answer.
_MOST_BYTES = 64 * 1024


class Piece:
    """Something that was said or done, as it goes to watchers."""

    # Of the event that it tells of; None: it tells of none.
    event_id: UUID | None = None

    def __init__(self, team_id: UUID, chat: Chat):
        kind = "chunk" if isinstance(chat, Chunk) else "activity"
        body = {**msgspec.to_builtins(chat), "team_id": str(team_id)}
        # Beside the events of a tenant it needs the same kind of name as they have.
        body["type"] = f"message.{kind}"
        self.frame = Frame(None, body["type"], msgspec.json.encode(body))
        self.sse = b"event: %b\ndata: %b\n\n" % (kind.encode(), self.frame.data)


class Early(Piece):
    """An event about a message, as its keeper tells it: before the relay, after the commit."""

    def __init__(self, data: bytes):
        """Raises msgspec.DecodeError."""
        head = _head.decode(data)
        self.event_id = head.id
        self.frame = Frame(None, head.type, data)
        self.sse = self.frame.sse


class _Head(msgspec.Struct):
    id: UUID
    type: str


_head = msgspec.json.Decoder(_Head)


class _Room:
    """One team's chat, and who listens to it."""

    def __init__(self, team_id: UUID):
        self.team_id = team_id
        self.listeners: dict[object, Hear] = {}
        self.opening: asyncio.Task[list[Subscription]] | None = None

    async def hear(self, message: Message) -> None:
        if len(message.data) > _MOST_BYTES:
            return
        try:
            chat = decode_chat(message.data)
        except BadFrame:
            return
        self._tell(Piece(self.team_id, chat))

    async def hear_end(self, message: Message) -> None:
        with suppress(msgspec.DecodeError):
            self._tell(Early(message.data))

    def _tell(self, piece: Piece) -> None:
        for hear in list(self.listeners.values()):
            hear(piece)


class Chats:
    def __init__(self, db: Database, bus: Bus):
        self._db = db
        self._bus = bus
        self._rooms: dict[tuple[UUID, UUID], _Room] = {}
        self._asking: asyncio.Task[None] | None = None

    async def exists(self, tenant_id: UUID, team_id: UUID) -> bool:
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            found: bool = await tx.value(
                "select exists (select from teams where tenant_id = $1 and id = $2)",
                tenant_id,
                team_id,
            )
        return found

    @asynccontextmanager
    async def listening(self, tenant_id: UUID, team_id: UUID, hear: Hear) -> AsyncIterator[None]:
        """Calls `hear`, which must not wait, with each piece while the block lasts."""
        place, mark = (tenant_id, team_id), object()
        room = self._rooms.setdefault(place, _Room(team_id))
        room.listeners[mark] = hear
        if room.opening is None:
            room.opening = asyncio.create_task(self._open(tenant_id, room))
        try:
            # Shielded: whoever came first may leave while others still wait for it.
            await asyncio.shield(room.opening)
            await self._ask_now(team_id)
            yield
        finally:
            del room.listeners[mark]
            if not room.listeners and self._rooms.get(place) is room:
                del self._rooms[place]
                await _close(room)

    async def _open(self, tenant_id: UUID, room: _Room) -> list[Subscription]:
        opened: list[Subscription] = []
        try:
            for subject, hear in (
                (chat_subject(tenant_id, room.team_id), room.hear),
                (ended_subject(room.team_id), room.hear_end),
            ):
                opened.append(await self._bus.subscribe(subject, hear))
        except BaseException:
            await _unsubscribe(opened)
            raise
        return opened

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask_now(self, team_id: UUID) -> None:
        """Tells workers that somebody watches: of this team at once, of all again and again."""
        await self._ask(team_id)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._keep_asking())

    async def _keep_asking(self) -> None:
        while self._rooms:
            await asyncio.sleep(WATCHED_SECONDS)
            for _, team_id in list(self._rooms):
                await self._ask(team_id)

    async def _ask(self, team_id: UUID) -> None:
        if self._bus.is_connected:
            with suppress(AgentOSError):
                await self._bus.publish(WATCHED_SUBJECT, team_id.bytes)


async def _close(room: _Room) -> None:
    assert room.opening is not None, "somebody has listened"
    room.opening.cancel()
    (opened,) = await asyncio.gather(room.opening, return_exceptions=True)
    if isinstance(opened, list):
        await _unsubscribe(opened)


async def _unsubscribe(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions:
        with suppress(AgentOSError):
            await subscription.unsubscribe()
