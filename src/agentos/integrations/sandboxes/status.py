"""What a sandbox's own process says about the command: lines of JSON in a pipe, as bubblewrap does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from agentos.integrations.sandboxes.base import Ending, Outcome
from agentos.integrations.sandboxes.running import Ended, SandboxFailed

_SIGNALLED = 128


@dataclass
class Status:
    read_end: int
    write_end: int
    _text: bytes = b""

    @classmethod
    def open(cls, files: ExitStack) -> Status:
        ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for end in ends:
            files.callback(os.close, end)
        return cls(*ends)

    def told(self, key: str) -> Any:
        """What was said under this key by now; None: nothing."""
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self.read_end, 65536)
        for line in self._text.splitlines(keepends=True):
            if line.endswith(b"\n") and key in (said := json.loads(line)):
                return said[key]
        return None


def outcome(ended: Ended, status: Status, *, memory_ran_out: bool) -> Outcome:
    """How the command ended. Raises SandboxFailed if it never began."""
    # Of a command that we ended, the code says nothing.
    exit_code: int | None = None if ended.timed_out else status.told("exit-code")
    ending: Ending = "exited"
    if ended.timed_out or exit_code == _SIGNALLED + signal.SIGXCPU:
        ending = "timed_out"
    elif memory_ran_out and exit_code != 0:
        ending = "out_of_memory"
    elif exit_code is None and ended.status < 0:
        ending = "killed"
    elif exit_code is None or status.told("failed"):
        lines = ended.output.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "no reason given"
        raise SandboxFailed(f"The sandbox could not be set up: {reason}")
    return Outcome(ending, exit_code, ended.output, ended.dropped_bytes, ended.seconds)
