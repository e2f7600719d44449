"""What a sandbox is: the only way in which anything an agent wrote is ever run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from agentos.kernel.errors import AgentOSError, Kind

_MIB = 1024 * 1024
# For what runs until somebody ends it.
UNLIMITED = math.inf


class SandboxMissing(AgentOSError):
    """This machine cannot isolate commands, so none is run."""

    code = "sandbox_missing"
    kind = Kind.SETUP
    hint = "Install bubblewrap: apt-get install bubblewrap"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may take. Its seconds may be UNLIMITED."""

    seconds: float = 120
    cpu_seconds: float = 120
    # Of one processor, so that 200 are two; None: what is free. Needs control groups.
    cpu_percent: int | None = None
    memory_bytes: int = 1024 * _MIB
    # Whether a process alone may not ask for more than that either. Programs that bring a compiler
    # of their own ask for far more than they use; where control groups count, they need not obey.
    memory_by_process: bool = True
    processes: int = 128
    # The largest single file it may write.
    file_bytes: int = 512 * _MIB
    # What it may print; the rest is thrown away, and that is said.
    output_bytes: int = 8 * _MIB
    # The size of /tmp, which is memory; only where the command has one of its own.
    tmp_bytes: int = 64 * _MIB


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of this machine that a command sees at another place."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run in a workspace."""

    argv: tuple[str, ...]
    workspace: Path
    # The account that owns the workspace's files; None: that of this process.
    uid: int | None = None
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    # A unix socket of the egress proxy; None: no way out at all.
    egress: Path | None = None
    # More than the system and the workspace; a sandbox that cannot show them refuses.
    mounts: tuple[Mount, ...] = ()
    # Told what it prints, as it comes, also beyond what is kept of it.
    on_output: Callable[[bytes], None] | None = None


Ending = Literal["exited", "timed_out", "out_of_memory", "killed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `output` is what it printed on both streams, in order."""

    ending: Ending
    exit_code: int | None
    output: bytes
    dropped_bytes: int
    seconds: float


class Inside(Protocol):
    """A command that is running, for those who keep it."""

    def terminate(self) -> None:
        """Asks the command to end. What it does about that is its own affair."""
        ...

    def memory_bytes(self) -> int | None:
        """What it and all it started take now; None where nobody can tell."""
        ...


class Sandbox(Protocol):
    """Runs commands apart from the machine. Cancelling `run` ends the command and all it started."""

    @property
    def name(self) -> str: ...

    async def run(self, command: Command) -> Outcome:
        """Raises SandboxMissing rather than running anything without isolation."""
        ...
