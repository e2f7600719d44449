"""What a schedule or a webhook is for, checked when it is made or changed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.crews import repository as teams
from agentos.execution.crews.errors import TeamNotFound
from agentos.execution.pulse.configs import checked_config
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.schemas import SessionCreate
from agentos.execution.runs.errors import BadTarget
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_STAYS = "Change its prompt, or make another one for the session."


def changed_target(
    row: asyncpg.Record, prompt: str | None, session: SessionCreate | None
) -> tuple[str | None, SessionCreate | None]:
    """What it asks its team, or starts, with what is given. Raises BadTarget.

    A prompt for one that starts a session is that session's; all else of it stays.
    """
    if row["session"] is None:
        if session is not None:
            raise BadTarget("It asks a team, and does not start a session.", hint=_STAYS)
        return row["prompt"] if prompt is None else prompt, None
    if session is None:
        return None, SessionCreate.model_validate({**row["session"], "prompt": prompt})
    if prompt is not None:
        raise BadTarget("The prompt is part of the session.", hint="Give one of them.")
    return None, session


async def checked_target(
    work: Work,
    front: PulseFront,
    *,
    team_id: UUID | None,
    prompt: str | None,
    session: SessionCreate | None,
) -> dict[str, Any] | None:
    """The session as it is stored, if it is one. Raises BadTarget, TeamNotFound, BadConfig, …

    Who makes it needs the right to do by hand what it will do.
    """
    if team_id is not None and prompt is not None and session is None:
        work.require(Scope.MESSAGES_WRITE)
        if not await teams.exists(work.tx, work.tenant_id, team_id):
            raise TeamNotFound()
        return None
    if session is None or team_id is not None or prompt is not None:
        raise BadTarget()
    work.require(Scope.SESSIONS_WRITE)
    await checked_config(work, front, session)
    return session.model_dump(mode="json")
