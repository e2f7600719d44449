"""What the use-cases of sessions need beside their work: the gateway's side of Pulse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request

from agentos.execution.crews.hints import CHANGED_SUBJECT
from agentos.execution.pulse.parts import SIGNAL_SUBJECT, WAKE_SUBJECT
from agentos.execution.pulse.payloads import Payloads
from agentos.integrations.models.directory import Directory
from agentos.integrations.models.hosts import Hosts
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.bus import Bus
from agentos.kernel.ids import TenantId


@dataclass(frozen=True)
class Hints:
    """Tells workers that something has changed. Only hints: they look by themselves, too."""

    bus: Bus

    async def queued(self) -> None:
        if self.bus.is_connected:
            await self.bus.publish(WAKE_SUBJECT, b"")

    async def changed(self, session_id: UUID) -> None:
        if self.bus.is_connected:
            await self.bus.publish(SIGNAL_SUBJECT, session_id.bytes)

    async def team_changed(self, team_id: UUID) -> None:
        if self.bus.is_connected:
            await self.bus.publish(CHANGED_SUBJECT, team_id.bytes)


@dataclass(frozen=True)
class PulseFront:
    hints: Hints
    directory: Directory
    workspaces: Workspaces
    payloads: Payloads
    hosts: Hosts
    # Takes the word that a session or a message, given with its tenant, has no budget.
    no_budget: Callable[[TenantId, UUID], None]


async def _front(request: Request) -> PulseFront:
    return cast(PulseFront, request.app.state.pulse)


CurrentPulse = Annotated[PulseFront, Depends(_front)]
