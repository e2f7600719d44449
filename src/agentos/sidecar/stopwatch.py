"""A deadline that does not count the time in which a person is waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Runs from the start; stands still while at least one has stopped it."""

    def __init__(self) -> None:
        self._counted = 0.0
        self._since = time.monotonic()
        self._stops = 0
        self._runs = asyncio.Event()
        self._runs.set()

    @property
    def seconds(self) -> float:
        running = 0.0 if self._stops else time.monotonic() - self._since
        return self._counted + running

    @contextmanager
    def stopped(self) -> Iterator[None]:
        if not self._stops:
            self._counted = self.seconds
            self._runs.clear()
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self._since = time.monotonic()
                self._runs.set()

    async def reached(self, seconds: float) -> None:
        """Returns when so many seconds were counted."""
        while (left := seconds - self.seconds) > 0:
            await self._runs.wait()
            await asyncio.sleep(left)
        await self._runs.wait()
