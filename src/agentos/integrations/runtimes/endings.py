"""How a place ended, in words for people, and the last that was heard of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agentos.integrations.runtimes.base import Ended

# What is kept of the output.
TAIL_LINES = 50
_TAIL_BYTES = 16 * 1024
_SIGNALLED = 128
_MIB = 1024 * 1024


class Tail:
    """The last lines of what was printed."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        self._kept += chunk[-_TAIL_BYTES:]
        if len(self._kept) > 2 * _TAIL_BYTES:
            del self._kept[:-_TAIL_BYTES]

    def text(self) -> str:
        kept = bytes(self._kept[-_TAIL_BYTES:]).decode(errors="replace")
        # Whatever stores it may not take this one.
        lines = kept.replace("\0", "\ufffd").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known about the end of a place."""

    exit_code: int | None
    # Whether the kernel killed something of it for want of memory, now or earlier.
    memory_ran_out: bool
    memory_bytes: int
    stopped: bool

    def told(self, output: str) -> Ended:
        return Ended(self.exit_code, self._reason(), output)

    def _reason(self) -> str:
        if self.stopped:
            return "It was stopped."
        killed = self.exit_code in (None, _SIGNALLED + signal.SIGKILL)
        if self.memory_ran_out and killed:
            return f"It ran out of memory: it may take {self.memory_bytes // _MIB} MiB."
        return f"It ended by itself{self._with()}."

    def _with(self) -> str:
        if self.exit_code is None:
            return ""
        number = self.exit_code - _SIGNALLED
        if number in list(signal.Signals):
            return f", by {signal.Signals(number).name}"
        return f" with exit code {self.exit_code}"
