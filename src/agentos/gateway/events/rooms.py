"""What is said live, for those who watch it at this gateway. Nothing of it is kept.

Each session or team that is watched here is subscribed to once, however many watch it, and each piece
is read and written once for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, Literal, TypeVar
from uuid import UUID

from agentos.execution.pulse.live import JOINED_SUBJECT, WATCHED_SECONDS, WATCHED_SUBJECT
from agentos.kernel.bus import Bus, Message, Subscription
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError

P = TypeVar("P")

Subject = Callable[[UUID, UUID], str]
"""Tenant, session or team → where it is heard."""
Read = Callable[[UUID, bytes], P | None]
"""Session or team, what came → a piece for those who listen; None: it is no such thing."""


Source = tuple[Subject, Read[P]]


class _Room(Generic[P]):
    """One session or team, and who listens to it."""

    def __init__(self, thing_id: UUID):
        self.thing_id = thing_id
        self.listeners: dict[object, Callable[[P], None]] = {}
        self.opening: asyncio.Task[list[Subscription]] | None = None

    def hearing(self, read: Read[P]) -> Callable[[Message], Awaitable[None]]:
        async def hear(message: Message) -> None:
            piece = read(self.thing_id, message.data)
            if piece is not None:
                for tell in list(self.listeners.values()):
                    tell(piece)

        return hear


class Rooms(Generic[P]):
    """All sessions, or all teams, that somebody listens to here."""

    def __init__(
        self,
        db: Database,
        bus: Bus,
        table: Literal["sessions", "teams"],
        *sources: Source[P],
    ):
        self._db = db
        self._bus = bus
        self._table = table
        self._sources = sources
        self._rooms: dict[tuple[UUID, UUID], _Room[P]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def exists(self, tenant_id: UUID, thing_id: UUID) -> bool:
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            found: bool = await tx.value(
                f"select exists (select from {self._table} where tenant_id = $1 and id = $2)",  # noqa: S608 - one of two names
                tenant_id,
                thing_id,
            )
        return found

    @asynccontextmanager
    async def listening(
        self, tenant_id: UUID, thing_id: UUID, hear: Callable[[P], None]
    ) -> AsyncIterator[None]:
        """Calls `hear`, which must not wait, with each piece while the block lasts."""
        place, mark = (tenant_id, thing_id), object()
        room = self._rooms.setdefault(place, _Room(thing_id))
        room.listeners[mark] = hear
        if room.opening is None:
            room.opening = asyncio.create_task(self._opened(tenant_id, room))
        try:
            # Shielded: whoever came first may leave while others still wait for it.
            await asyncio.shield(room.opening)
            await self._ask_now(thing_id)
            yield
        finally:
            del room.listeners[mark]
            if not room.listeners and self._rooms.get(place) is room:
                del self._rooms[place]
                await _close(room)

    async def _opened(self, tenant_id: UUID, room: _Room[P]) -> list[Subscription]:
        opened: list[Subscription] = []
        try:
            for subject, read in self._sources:
                place = subject(tenant_id, room.thing_id)
                opened.append(await self._bus.subscribe(place, room.hearing(read)))
        except BaseException:
            await _unsubscribe(opened)
            raise
        return opened

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask_now(self, thing_id: UUID) -> None:
        """Tells workers that somebody watches: this one at once, all again and again."""
        await self._tell(WATCHED_SUBJECT, thing_id)
        await self._tell(JOINED_SUBJECT, thing_id)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._keep_asking())

    async def _keep_asking(self) -> None:
        while self._rooms:
            await asyncio.sleep(WATCHED_SECONDS)
            for _, thing_id in list(self._rooms):
                await self._tell(WATCHED_SUBJECT, thing_id)

    async def _tell(self, subject: str, thing_id: UUID) -> None:
        if self._bus.is_connected:
            with suppress(AgentOSError):
                await self._bus.publish(subject, thing_id.bytes)


async def _close(room: _Room[P]) -> None:
    assert room.opening is not None, "somebody has listened"
    room.opening.cancel()
    (opened,) = await asyncio.gather(room.opening, return_exceptions=True)
    if isinstance(opened, list):
        await _unsubscribe(opened)


async def _unsubscribe(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions:
        with suppress(AgentOSError):
            await subscription.unsubscribe()
