"""What was read lately: believed for a while, and read by one when many ask at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    def __init__(
        self,
        read: Callable[[K], Awaitable[V]],
        *,
        seconds: Callable[[V], float],
        most: int,
        now: Callable[[], float] = time.monotonic,
    ):
        """`seconds` says how long a value is believed, `most` how many are kept."""
        self._read = read
        self._seconds = seconds
        self._most = most
        self._now = now
        self._known: dict[K, tuple[float, V]] = {}
        self._reading: dict[K, asyncio.Task[V]] = {}
        self._forgotten = 0

    async def of(self, key: K) -> V:
        known = self._known.get(key)
        if known is not None and known[0] > self._now():
            return known[1]
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read_and_keep(key))
            reading.add_done_callback(_seen)
        # Shielded: one who gives up must not take the answer from the others.
        return await asyncio.shield(reading)

    async def of_reader(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """As `of`, but what has to be read is read by the caller, who waits for nobody else."""
        known = self._known.get(key)
        if known is not None and known[0] > self._now():
            return known[1]
        before = self._forgotten
        value = await read()
        if self._forgotten == before:
            self._keep(key, value)
        return value

    def forget(self, key: K) -> None:
        """The next who asks reads anew, also if somebody is reading right now."""
        self._forgotten += 1
        self._known.pop(key, None)
        self._reading.pop(key, None)

    async def _read_and_keep(self, key: K) -> V:
        task = asyncio.current_task()
        try:
            value = await self._read(key)
            # What was forgotten while it was read may be old already.
            if self._reading.get(key) is task:
                self._keep(key, value)
            return value
        finally:
            if self._reading.get(key) is task:
                del self._reading[key]

    def _keep(self, key: K, value: V) -> None:
        self._known.pop(key, None)
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._now() + self._seconds(value), value)


def _seen(task: asyncio.Task[V]) -> None:
    """An error nobody waited for any more is no news for the log."""
    if not task.cancelled():
        task.exception()
