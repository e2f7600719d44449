"""How a run ends: with its message, with its session, or before it could start."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from agentos.contracts.events import Event, RunFinished
from agentos.execution.runs import repository
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7

_OF_MESSAGE = {"answered": "succeeded"}
_MOST_RESULT = 100_000


async def message_finished(
    tx: Transaction,
    tenant_id: UUID,
    run_id: UUID,
    *,
    state: str,
    answer: str,
    error: str | None,
    error_code: str | None,
    now: datetime,
) -> list[Event]:
    """Ends the run that a message was sent for; returns what to announce."""
    return await end_run(
        tx,
        tenant_id,
        run_id,
        state=_OF_MESSAGE.get(state, state),
        result=answer or None,
        error=error,
        error_code=error_code,
        now=now,
    )


async def end_run(
    tx: Transaction,
    tenant_id: UUID,
    run_id: UUID,
    *,
    state: str,
    result: str | None,
    error: str | None,
    error_code: str | None,
    now: datetime,
) -> list[Event]:
    """Ends a run once, and lines up its post-actions; returns what to announce."""
    row = await repository.finish(
        tx,
        tenant_id,
        run_id,
        state=state,
        result=None if result is None else result[:_MOST_RESULT],
        error=error,
        error_code=error_code,
        now=now,
    )
    if row is None:
        return []
    await _line_up(tx, tenant_id, run_id, state == "succeeded", now)
    return [
        RunFinished(
            run_id=run_id,
            schedule_id=row["schedule_id"],
            webhook_id=row["webhook_id"],
            state=state,
            error=error,
        )
    ]


async def _line_up(
    tx: Transaction, tenant_id: UUID, run_id: UUID, succeeded: bool, now: datetime
) -> None:
    rows = await tx.fetch(
        """select a.id from post_actions a join runs r on r.tenant_id = a.tenant_id
               and (r.schedule_id = a.schedule_id or r.webhook_id = a.webhook_id)
           where r.tenant_id = $1 and r.id = $2 and a.enabled and a.after in ('any', $3)
           order by a.id""",
        tenant_id,
        run_id,
        "success" if succeeded else "failure",
    )
    for row in rows:
        await tx.execute(
            """insert into deliveries (tenant_id, id, post_action_id, run_id, next_at, created_at)
               values ($1, $2, $3, $4, $5, $5) on conflict do nothing""",
            tenant_id,
            uuid7(),
            row["id"],
            run_id,
            now,
        )
