"""What the use-cases of teams need beside their work: the gateway's side of Crews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol, cast
from uuid import UUID

import msgspec
from fastapi import Depends, Request

from agentos.execution.crews.hints import (
    CHANGED_SUBJECT,
    REVOKED_SUBJECT,
    Handed,
    handed_subject,
)
from agentos.integrations.models.directory import Directory
from agentos.integrations.models.hosts import Hosts
from agentos.kernel.bus import Bus
from agentos.tenancy.work import Work


@dataclass(frozen=True)
class CrewHints:
    """Tells the keepers of teams that something has changed. Only hints: they look by themselves, too."""

    bus: Bus

    async def changed(self, team_id: UUID) -> None:
        if self.bus.is_connected:
            await self.bus.publish(CHANGED_SUBJECT, team_id.bytes)

    async def revoked(self) -> None:
        """Tells workers that the bus is to be told whose credentials are void."""
        if self.bus.is_connected:
            await self.bus.publish(REVOKED_SUBJECT, b"")

    async def handed(self, team_id: UUID, handed: Handed) -> None:
        """Gives a team's keeper a message that is its to answer from here on."""
        if self.bus.is_connected:
            await self.bus.hand(handed_subject(team_id), msgspec.json.encode(handed))


class NativeTeams(Protocol):
    """What happens to the conversation of a native team when people start and stop it.

    Called within the transaction that changes the team, whose row it has locked; and before it the
    session of its conversation, if there is one.
    """

    async def deployed(self, work: Work, team_id: UUID) -> None:
        """The team may answer: takes up the first message that waits."""
        ...

    async def stopped(self, work: Work, team_id: UUID) -> None:
        """The team may not answer any more: ends what it is at. Harmless if that is nothing."""
        ...


@dataclass(frozen=True)
class CrewFront:
    hints: CrewHints
    native: NativeTeams
    directory: Directory
    hosts: Hosts


async def _front(request: Request) -> CrewFront:
    return cast(CrewFront, request.app.state.crew)


CurrentCrew = Annotated[CrewFront, Depends(_front)]
