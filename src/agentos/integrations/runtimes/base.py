"""What a runtime is: the place where a team's sidecar and its agent CLI run, apart from all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import UUID

from agentos.kernel.errors import AgentOSError, Kind

# Where a sidecar finds things, in each runtime alike.
WORKSPACE = "/workspace"
# Holds `bus.sock`, `gateway.sock`, `egress.sock`, `spec.json` and `credentials.json`.
RUN_DIRECTORY = "/run/agentos"
# The agent CLIs, and the sidecar with what it needs.
AGENTS_DIRECTORY = "/opt/agents"
SIDECAR_DIRECTORY = "/opt/sidecar"


class RuntimeMissing(AgentOSError):
    """This machine cannot run teams in this way."""

    code = "runtime_missing"
    kind = Kind.SETUP


class StartFailed(AgentOSError):
    """The team's place could not be started."""

    code = "start_failed"
    kind = Kind.TRANSIENT


@dataclass(frozen=True, slots=True)
class Resources:
    """What one team may take, by its tenant's plan."""

    memory_bytes: int
    cpu_percent: int
    processes: int


@dataclass(frozen=True, slots=True)
class Place:
    """All that a runtime needs to know to start one team."""

    tenant_id: UUID
    team_id: UUID
    # The files that survive; owned by `uid`, or by this process's account if that is None.
    workspace: Path
    uid: int | None
    # Seen inside as RUN_DIRECTORY.
    run_directory: Path
    # Seen inside as AGENTS_DIRECTORY and SIDECAR_DIRECTORY, read-only.
    agents: Path
    sidecar: Path
    argv: Sequence[str]
    resources: Resources
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a place ended: by itself, or because it was stopped."""

    exit_code: int | None
    reason: str
    # The last lines that were printed.
    output: str


class Running(Protocol):
    """A team that was started."""

    async def ended(self) -> Ended:
        """Waits for the end. May be awaited more than once, and be cancelled without harm."""
        ...

    async def stop(self, seconds: float) -> None:
        """Ends all of its processes: politely, and after so many seconds not. Harmless twice."""
        ...

    async def memory_bytes(self) -> int | None:
        """What it takes now; None where nobody can tell."""
        ...


class Runtime(Protocol):
    """A kind of place. One conformance suite holds for all: tests/integrations/runtimes."""

    @property
    def name(self) -> str: ...

    async def check(self) -> None:
        """Raises RuntimeMissing, with what would mend it, if no team can run here."""
        ...

    async def start(self, place: Place) -> Running:
        """Starts a team; what is left of an earlier start of it is removed first. Raises
        RuntimeMissing, StartFailed."""
        ...

    async def sweep(self, kept: frozenset[UUID]) -> None:
        """Removes what teams of this installation left behind on this machine, but for those kept."""
        ...
