"""What waits for one client: bounded, and handed over in as few pieces as possible."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentos.gateway.events.errors import TOO_SLOW, Ending
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame


@dataclass(frozen=True, slots=True)
class Limits:
    """Far above what a burst from the bus brings at once, far below what would hurt.

    Frames are shared between clients, so a full mailbox costs references rather than copies.
    """

    events: int = 4096
    bytes: int = 4 * 1024 * 1024
    # One write: most WebSocket clients refuse messages above 1 MiB.
    write_bytes: int = 256 * 1024


# Events closer together than this are a burst, which is cheaper to write in one piece.
_BURST_SECONDS = 0.002


class Ended(Exception):
    """The stream is over, for the reason given."""

    def __init__(self, ending: Ending):
        super().__init__(ending.message)
        self.ending = ending


class Mailbox:
    def __init__(self, wanted: TypeFilter, limits: Limits):
        self.wanted = wanted
        self._limits = limits
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._on_end: Callable[[], object] | None = None
        # Writes a frame at once if the client can take it. Waking a task for each costs more
        # than the write; a client that lags gets its events through the queue, several at a time.
        self.write_now: Callable[[Frame], bool] | None = None
        self._writer_waits = False
        self._written_at = 0.0
        self.after = 0
        self.ending: Ending | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def offer(self, frame: Frame, now: float = 0.0) -> None:
        """Takes an event that is wanted and new; the one that does not fit ends the stream.

        `now` is the loop's time, if the event may be written at once.
        """
        seq = frame.seq
        assert seq is not None, "events have a place"
        if seq <= self.after or self.ending is not None:
            return
        self.after = seq
        if not self.wanted.wants(frame.type) or self._write_now(frame, now):
            return
        size = len(frame.data)
        limits = self._limits
        # An empty mailbox takes anything: no event is too large to be delivered at all.
        if self._frames and (
            len(self._frames) >= limits.events or self._bytes + size > limits.bytes
        ):
            self.end(TOO_SLOW)
            return
        self._frames.append(frame)
        self._bytes += size
        self._arrived.set()

    def _write_now(self, frame: Frame, now: float) -> bool:
        if self.write_now is None or self._frames or not self._writer_waits:
            return False
        if now - self._written_at < _BURST_SECONDS or not self.write_now(frame):
            return False
        self._written_at = now
        return True

    async def take(self, patience: float | None) -> list[Frame]:
        """What waits, as much as fits one write; nothing if nothing came within `patience`."""
        if self.ending is None and not self._frames:
            self._arrived.clear()
            self._writer_waits = True
            try:
                if not await self._something(patience):
                    return []
            finally:
                self._writer_waits = False
        if self.ending is not None:
            raise Ended(self.ending)
        return self._one_write()

    async def _something(self, patience: float | None) -> bool:
        if patience is None:
            return await self._arrived.wait()
        try:
            async with asyncio.timeout(patience):
                return await self._arrived.wait()
        except TimeoutError:
            return False

    def _one_write(self) -> list[Frame]:
        frames = self._frames
        if self._bytes <= self._limits.write_bytes:
            taken = list(frames)
            frames.clear()
            self._bytes = 0
            return taken
        taken = [frames.popleft()]
        size = len(taken[0].data)
        while frames and size + len(frames[0].data) <= self._limits.write_bytes:
            size += len(frames[0].data)
            taken.append(frames.popleft())
        self._bytes -= size
        return taken

    def end(self, ending: Ending) -> None:
        """Ends the stream once; what waits is given up, the client asks for it again."""
        if self.ending is not None:
            return
        self.ending = ending
        self._frames.clear()
        self._bytes = 0
        self._arrived.set()
        if self._on_end is not None:
            self._on_end()

    def when_ended(self, interrupt: Callable[[], object]) -> None:
        """Calls `interrupt` at the end, to free a writer whose client does not read."""
        self._on_end = interrupt
        if self.ending is not None:
            interrupt()


def in_writes(frames: Iterable[Frame], limit: int) -> Iterable[list[Frame]]:
    """Cuts frames into lists that each fit one write."""
    part: list[Frame] = []
    size = 0
    for frame in frames:
        if part and size + len(frame.data) > limit:
            yield part
            part, size = [], 0
        part.append(frame)
        size += len(frame.data)
    if part:
        yield part
