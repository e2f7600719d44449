"""The live events of one tenant in this process: in order, each once, whatever the bus does."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from uuid import UUID

import asyncpg
import msgspec

from agentos.contracts.events import subject, subject_roots
from agentos.gateway.events import frames
from agentos.gateway.events.filters import EVERYTHING
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.history import PAGE, History
from agentos.gateway.events.mailbox import Mailbox
from agentos.kernel.bus import Bus, Message, Subscription
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# Subscriptions of different event roots are drained one after the other, so neighbours may change
# places by a few milliseconds. A gap that lasts longer than this is a loss.
_PATIENCE_SECONDS = 0.02
_MOST_AHEAD = 2000
# The newest events are kept, so that a client can change over from history while others arrive.
_RECENT_EVENTS = 512
_RECENT_BYTES = 512 * 1024


class Channel:
    """Takes a tenant's events from the bus, fills what is missing from history, hands them out.

    Everything that touches `last`, `_ahead`, `_recent` or the clients runs between two awaits, so
    none of it needs a lock.
    """

    def __init__(self, tenant_id: UUID, bus: Bus, history: History):
        self.tenant_id = tenant_id
        self.history = history
        self.last = 0
        self.clients: set[Mailbox] = set()
        self._bus = bus
        self._started = False
        self._subscriptions: list[Subscription] = []
        self._ahead: dict[int, Frame] = {}
        self._recent: deque[Frame] = deque()
        self._recent_bytes = 0
        self._filling: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listens first and reads the position second, so that nothing falls between."""
        for root in subject_roots():
            self._subscriptions.append(
                await self._bus.subscribe(f"{subject(self.tenant_id, root)}.>", self._receive)
            )
        if self._bus.is_connected:
            with suppress(Unavailable):  # then the next check against history finds what is missing
                await self._bus.flush(timeout=1)
        self.last = await self.history.last_seq()
        self._started = True
        self._drain()

    async def close(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.unsubscribe()
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)

    def join(self, mailbox: Mailbox, position: int) -> bool:
        """Puts a client that has everything up to `position` on the live stream.

        False if events are missing between: the client has to read on in history.
        """
        oldest = self._recent[0].seq if self._recent else None
        reach = self.last if oldest is None else oldest - 1
        if position < reach:
            return False
        mailbox.after = position
        if position < self.last:
            for frame in self._recent:
                mailbox.offer(frame)
        self.clients.add(mailbox)
        return True

    def leave(self, mailbox: Mailbox) -> None:
        self.clients.discard(mailbox)

    def check(self, delay: float = 0) -> None:
        """Compares with history soon and delivers what the bus did not bring."""
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill(delay))

    async def _receive(self, message: Message) -> None:
        try:
            frame = frames.parse(message.data)
        except msgspec.DecodeError:
            log.warning("not an event", subject=message.subject)
            return
        seq = frame.seq
        assert seq is not None, "the parser demands it"
        if self._started and seq == self.last + 1:
            self._deliver(frame)
            if self._ahead:
                self._drain()
        elif seq > self.last or not self._started:
            if len(self._ahead) < _MOST_AHEAD:
                self._ahead[seq] = frame
            if self._started:
                self.check(_PATIENCE_SECONDS)

    def _deliver(self, frame: Frame) -> None:
        assert frame.seq is not None
        self.last = frame.seq
        self._remember(frame)
        ended: list[Mailbox] = []
        now = asyncio.get_running_loop().time()
        for mailbox in self.clients:
            mailbox.offer(frame, now)
            if mailbox.ending is not None:
                ended.append(mailbox)
        self.clients.difference_update(ended)

    def _remember(self, frame: Frame) -> None:
        self._recent.append(frame)
        self._recent_bytes += len(frame.data)
        while len(self._recent) > _RECENT_EVENTS or self._recent_bytes > _RECENT_BYTES:
            self._recent_bytes -= len(self._recent.popleft().data)

    def _drain(self) -> None:
        """Delivers what arrived early, as far as it now follows without a gap."""
        while (frame := self._ahead.pop(self.last + 1, None)) is not None:
            self._deliver(frame)
        if self._ahead:
            self._ahead = {seq: frame for seq, frame in self._ahead.items() if seq > self.last}
        if self._ahead:
            self.check(_PATIENCE_SECONDS)

    async def _fill(self, delay: float) -> None:
        try:
            if delay:
                await asyncio.sleep(delay)
                if not self._ahead:
                    return  # only a change of places
            while True:
                page, position = await self.history.page(self.last, EVERYTHING)
                for frame in page:
                    assert frame.seq is not None
                    if frame.seq > self.last:
                        self._deliver(frame)
                # A number that history does not hold any more will not come from anywhere else.
                self.last = max(self.last, position)
                if len(page) < PAGE:
                    break
        except (AgentOSError, asyncpg.PostgresError, OSError) as error:
            log.warning("events wait for history", error=repr(error))
            return
        finally:
            # From here on a new gap may ask again: this task does not look back any more.
            self._filling = None
        self._drain()
