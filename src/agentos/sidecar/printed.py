"""What an agent CLI prints on its error stream, on its way to the keeper."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agentos.contracts.crew import Log
from agentos.sidecar.texts import clean

# Lines that come close together go out together: so many at most, the newest of them.
_PAUSE = 0.5
_MOST_LINES = 100
# The keeper keeps less of a line, once it has masked secrets.
_MOST_CHARACTERS = 4_000
# Of all the lines in a frame, which shares the bus with the conversation.
_MOST_TOGETHER = 256_000


class Printed:
    """Collects lines, and tells them about twice a second."""

    def __init__(self, tell: Callable[[Log], None]) -> None:
        self._tell = tell
        self._lines: deque[str] = deque()
        self._characters = 0
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, line: str) -> None:
        line = clean(line[:_MOST_CHARACTERS])
        self._lines.append(line)
        self._characters += len(line)
        while len(self._lines) >= _MOST_LINES or self._characters > _MOST_TOGETHER:
            self._characters -= len(self._lines.popleft())
            self._left_out += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self.flush)

    def flush(self) -> None:
        """Tells at once what waits, if something does."""
        if self._timer is None:
            return
        self._timer.cancel()
        missing = (f"({self._left_out} lines left out)",) if self._left_out else ()
        lines = (*missing, *self._lines)
        self._timer = None
        self._lines.clear()
        self._characters = self._left_out = 0
        self._tell(Log(lines=lines))
