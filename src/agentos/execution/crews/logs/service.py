"""The log of a team: what it lived through, and what its agent CLI printed."""

from __future__ import annotations

from uuid import UUID

from agentos.execution.crews import repository as teams
from agentos.execution.crews.errors import TeamNotFound
from agentos.execution.crews.logs import repository
from agentos.execution.crews.logs.schemas import Level, LogRead
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_LAST = UUID(int=2**128 - 1)


async def list_logs(
    work: Work, team_id: UUID, page: PageRequest, *, level: Level = "info"
) -> RowPage[LogRead]:
    """The log of a team, newest first: lines of this level or worse."""
    work.require(Scope.TEAMS_READ)
    if not await teams.exists(work.tx, work.tenant_id, team_id):
        raise TeamNotFound()
    rows = await repository.page(
        work.tx,
        work.tenant_id,
        team_id,
        level=level,
        before=page.after_id if page.after is not None else _LAST,
        limit=page.limit + 1,
    )
    return page.of(LogRead, rows)
