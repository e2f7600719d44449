"""One hub per gateway process: who listens to which tenant, and what keeps them up to date."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from agentos.gateway.events import frames
from agentos.gateway.events.channel import Channel
from agentos.gateway.events.chats import chats
from agentos.gateway.events.errors import RESTARTING, Ending, ShuttingDown, TooManyStreams
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.history import History
from agentos.gateway.events.mailbox import Ended, Limits, Mailbox, in_writes
from agentos.gateway.events.words import session_words
from agentos.kernel import metrics
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database

_TICK_SECONDS = 0.5
_HISTORY_READERS = 6


class Feed:
    """One client's way through a tenant's events: history at its own pace, then live."""

    def __init__(self, channel: Channel, wanted: TypeFilter, after: int | None, limits: Limits):
        self._channel = channel
        self._limits = limits
        self._asked = after
        self._position = channel.last if after is None else after
        self._joined = False
        self._waiting: deque[list[Frame]] = deque()
        self.mailbox = Mailbox(wanted, limits)
        self.sent = self._position

    async def take(self, patience: float | None = None) -> list[Frame]:
        """What to write next, in one piece; nothing if nothing came within `patience` seconds.

        Raises Ended when the stream is over.
        """
        if self.mailbox.ending is not None:
            raise Ended(self.mailbox.ending)
        if self._waiting:
            return self._waiting.popleft()
        if self._joined:
            return await self.mailbox.take(patience)
        if self._asked is not None:
            notice = await self._place(self._asked)
            self._asked = None
            if notice is not None:
                return [notice]
        return await self._catch_up()

    def delivered(self, written: list[Frame]) -> None:
        """Notes what the client has been sent: where it goes on after a drop."""
        for frame in reversed(written):
            if frame.seq is not None:
                self.sent = frame.seq
                return

    def write_directly(self, write: Callable[[bytes], bool]) -> None:
        """Lets live events go out through `write`, which says whether the client took one."""

        def write_now(frame: Frame) -> bool:
            if not write(frame.framed):
                return False
            self.delivered([frame])
            return True

        self.mailbox.write_now = write_now

    def end(self, ending: Ending) -> None:
        self.mailbox.end(ending)

    async def _place(self, after: int) -> Frame | None:
        """Finds where to begin; a place outside of history is moved, which the client is told."""
        if after <= self._channel.last and self._channel.join(self.mailbox, after):
            self._joined = True
            return frames.live(after)
        oldest, newest = await self._channel.history.bounds()
        if after > newest:
            # Numbers that were never given: the database was restored, or the client made them up.
            self._position = newest
            return frames.truncated(newest + 1)
        if after < oldest - 1:
            self._position = oldest - 1
            return frames.truncated(oldest)
        return None

    async def _catch_up(self) -> list[Frame]:
        while not self._channel.join(self.mailbox, self._position):
            page, self._position = await self._channel.history.page(
                self._position, self.mailbox.wanted
            )
            if page:
                self._waiting.extend(in_writes(page, self._limits.write_bytes))
                return self._waiting.popleft()
        self._joined = True
        return [frames.live(self._position)]


class _Entry:
    """A channel, who uses it, and since when nobody does."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.opening = asyncio.create_task(channel.open())
        self.feeds: set[Feed] = set()
        self.users = 0
        self.unused_since = 0.0


class EventHub:
    def __init__(
        self,
        db: Database,
        bus: Bus,
        *,
        limits: Limits | None = None,
        linger_seconds: float = 5.0,
        check_seconds: float = 3.0,
        clients_per_tenant: int = 10_000,
    ):
        self._db = db
        self._bus = bus
        self._limits = limits or Limits()
        self._linger = linger_seconds
        self._check = check_seconds
        self._most_clients = clients_per_tenant
        self._entries: dict[UUID, _Entry] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._gate = asyncio.Semaphore(_HISTORY_READERS)
        self._closed = False
        # What teams and sessions say meanwhile: beside history, and without a place in it.
        self.chats = chats(db, bus)
        self.words = session_words(db, bus)

    @asynccontextmanager
    async def attach(
        self, tenant_id: UUID, *, after: int | None, wanted: TypeFilter
    ) -> AsyncIterator[Feed]:
        """A feed that holds everything after `after`, or from now on; it ends with the block."""
        entry = self._enter(tenant_id)
        try:
            await self._opened(entry)
            feed = Feed(entry.channel, wanted, after, self._limits)
            entry.feeds.add(feed)
            metrics.event_sockets.inc()
            try:
                if self._closed:
                    raise ShuttingDown()
                yield feed
            finally:
                entry.feeds.discard(feed)
                entry.channel.leave(feed.mailbox)
                metrics.event_sockets.dec()
                if feed.mailbox.ending is not None:
                    metrics.event_sockets_dropped.labels(feed.mailbox.ending.reason).inc()
        finally:
            entry.users -= 1
            entry.unused_since = _now()
            if _failed(entry.opening) and self._entries.get(tenant_id) is entry:
                # The next client tries again with a new one.
                del self._entries[tenant_id]
                await _close(entry)

    def bus_state_changed(self, state: str) -> None:
        """Hand this to `Bus.connect(on_state=…)`: after a reconnect, history is asked at once."""
        if state == "connected":
            self._check_all()

    def tenants(self) -> frozenset[UUID]:
        """The tenants this process listens for."""
        return frozenset(self._entries)

    async def close(self) -> None:
        """Ends every stream with "restarting", stops listening, and refuses newcomers.

        Call it as soon as the server is told to stop: the server waits for its streams to end
        before it tells the application to shut down.
        """
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            for feed in list(entry.feeds):
                feed.end(RESTARTING)
        for entry in entries:
            await _close(entry)
        await self.chats.close()
        await self.words.close()

    def _enter(self, tenant_id: UUID) -> _Entry:
        if self._closed:
            raise ShuttingDown()
        entry = self._entries.get(tenant_id)
        if entry is None:
            entry = _Entry(Channel(tenant_id, self._bus, History(self._db, tenant_id, self._gate)))
            self._entries[tenant_id] = entry
        if entry.users >= self._most_clients:
            raise TooManyStreams(limit=self._most_clients)
        entry.users += 1
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep())
        return entry

    async def _opened(self, entry: _Entry) -> None:
        try:
            # Shielded: whoever came first may leave while the others still wait for it.
            await asyncio.shield(entry.opening)
        except asyncio.CancelledError:
            if self._closed:
                raise ShuttingDown() from None
            raise

    async def _keep(self) -> None:
        """Asks history in case the bus lost something, and lets go of what nobody uses."""
        checked = _now()
        while self._entries:
            await asyncio.sleep(min(_TICK_SECONDS, self._check, self._linger or _TICK_SECONDS))
            # Without the bus, history is the only source: then look twice a second.
            if _now() - checked >= self._check or not self._bus.is_connected:
                checked = _now()
                self._check_all()
            for tenant_id, entry in list(self._entries.items()):
                if entry.users == 0 and _now() - entry.unused_since >= self._linger:
                    del self._entries[tenant_id]
                    await _close(entry)

    def _check_all(self) -> None:
        for entry in self._entries.values():
            if entry.channel.clients:
                entry.channel.check()


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _close(entry: _Entry) -> None:
    entry.opening.cancel()
    await asyncio.gather(entry.opening, return_exceptions=True)
    await entry.channel.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
