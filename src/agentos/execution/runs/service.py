"""Runs: what schedules and webhooks have started, and what came of it."""

from __future__ import annotations

from uuid import UUID

from agentos.execution.runs import repository
from agentos.execution.runs.errors import RunNotFound
from agentos.execution.runs.schemas import DeliveryRead, RunRead
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work


async def read_run(work: Work, run_id: UUID) -> RunRead:
    """One run, for whoever may see what started it."""
    if Scope.WEBHOOKS_READ not in work.principal.scopes:
        # Without any right to see it, it is the same whether it is there, and of what.
        work.require(Scope.SCHEDULES_READ)
    row = await repository.find(work.tx, work.tenant_id, run_id)
    if row is None:
        raise RunNotFound()
    work.require(Scope.SCHEDULES_READ if row["schedule_id"] is not None else Scope.WEBHOOKS_READ)
    return RunRead(**row)


async def runs_of(
    work: Work,
    page: PageRequest,
    *,
    schedule_id: UUID | None = None,
    webhook_id: UUID | None = None,
) -> RowPage[RunRead]:
    """The runs of a schedule or a webhook that is there, newest first."""
    rows = await repository.page(
        work.tx,
        work.tenant_id,
        schedule_id=schedule_id,
        webhook_id=webhook_id,
        before=page.after_id if page.after is not None else None,
        limit=page.limit + 1,
    )
    return page.of(RunRead, rows)


async def deliveries_of(work: Work, run_id: UUID) -> list[DeliveryRead]:
    """What became of a run's post-actions."""
    await read_run(work, run_id)
    rows = await repository.deliveries(work.tx, work.tenant_id, run_id)
    return [DeliveryRead(**row) for row in rows]
