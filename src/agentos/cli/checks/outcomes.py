"""How `agentos doctor` reports: outcomes of checks, and the installation under examination."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentos.kernel.installation import Addresses, DatabaseAddresses
    from agentos.kernel.settings import Settings


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What a check found, and how to mend it."""

    part: str
    state: State
    detail: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A finding before it knows which part it is about."""

    state: State
    detail: str
    fix: str | None = None


def ok(detail: str) -> Outcome:
    return Outcome(State.OK, detail)


def warning(detail: str, fix: str | None = None) -> Outcome:
    return Outcome(State.WARNING, detail, fix)


def problem(detail: str, fix: str | None = None) -> Outcome:
    return Outcome(State.PROBLEM, detail, fix)


def skipped(detail: str) -> Outcome:
    return Outcome(State.SKIPPED, detail)


class PartDown(Exception):
    """Something a check needs is not there; another check has said so."""


@dataclass(frozen=True)
class Site:
    """The installation under examination."""

    settings: Settings
    key: bytes | None
    database: DatabaseAddresses | None
    nats: Addresses | None

    @property
    def runtime_dsn(self) -> str | None:
        return None if self.database is None else self.database.runtime

    @property
    def platform_dsn(self) -> str | None:
        return None if self.database is None else self.database.platform

    @property
    def owner_dsn(self) -> str | None:
        """The owner's, or where migrating is somebody else's job the runtime role's."""
        return None if self.database is None else self.database.owner or self.database.runtime


Check = Callable[[Site], Awaitable[Outcome]]
