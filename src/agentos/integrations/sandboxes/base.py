"""What a sandbox is: the only way in which anything an agent wrote is ever run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from agentos.kernel.errors import AgentOSError, Kind

_MIB = 1024 * 1024


class SandboxMissing(AgentOSError):
    """This machine cannot isolate commands, so none is run."""

    code = "sandbox_missing"
    kind = Kind.SETUP
    hint = "Install bubblewrap: apt-get install bubblewrap"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may take."""

    seconds: float = 120
    cpu_seconds: int = 120
    memory_bytes: int = 1024 * _MIB
    processes: int = 128
    # The largest single file it may write.
    file_bytes: int = 512 * _MIB
    # What it may print; the rest is thrown away, and that is said.
    output_bytes: int = 8 * _MIB


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


Ending = Literal["exited", "timed_out", "out_of_memory", "killed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `output` is what it printed on both streams, in order."""

    ending: Ending
    exit_code: int | None
    output: bytes
    dropped_bytes: int
    seconds: float


class Sandbox(Protocol):
    """Runs commands apart from the machine. Cancelling `run` ends the command and all it started."""

    @property
    def name(self) -> str: ...

    async def run(self, command: Command) -> Outcome:
        """Raises SandboxMissing rather than running anything without isolation."""
        ...
