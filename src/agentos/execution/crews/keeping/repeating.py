"""Having an agent say again what it has said, for those who begin to watch while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# However many join, an agent repeats itself no more often than this.
_PAUSE_SECONDS = 0.25


class Repeating:
    """Calls `repeat` for whoever asks: at once, or after a pause together with all who ask meanwhile."""

    def __init__(self, repeat: Callable[[], Awaitable[None]]):
        self._repeat = repeat
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        # Said first: clients may swallow a cancellation while they flush.
        self._asked = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while self._asked:
            self._asked = False
            await self._repeat()
            await asyncio.sleep(_PAUSE_SECONDS)
