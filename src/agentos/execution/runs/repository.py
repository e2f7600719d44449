from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

# Runs from before they were stored with their session's prompt have it only there.
READ = """id, schedule_id, webhook_id, due_at, manual, state,
    coalesce(prompt, session ->> 'prompt') as prompt, message_id, session_id, result, error,
    error_code, created_at, started_at, finished_at"""
_LAST = UUID(int=2**128 - 1)


def last_run_of(table: Literal["schedules", "webhooks"]) -> str:
    """A column for each row of the table: its newest run, or null.

    One step into the index runs_of_schedule or runs_of_webhook, from its end, however many runs
    there are; of a page it is looked up for the rows that are shown.
    """
    column = f"r.{table.removesuffix('s')}_id"
    # Not `=`: by that the order of the primary key would do as well, and where nearly all runs are
    # of one of them, all would be read through to find that another has none.
    return f"""(select jsonb_build_object('id', r.id, 'state', r.state, 'due_at', r.due_at,
            'finished_at', r.finished_at, 'error', r.error)
        from runs r where r.tenant_id = {table}.tenant_id
            and {column} between {table}.id and {table}.id
        order by {column} desc, r.id desc limit 1) as last_run"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that somebody has locked."""

    tenant_id: UUID
    id: UUID
    schedule_id: UUID | None
    webhook_id: UUID | None
    state: str
    due_at: datetime
    prompt: str | None
    session: dict[str, Any] | None


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    run_id: UUID,
    *,
    schedule_id: UUID | None = None,
    webhook_id: UUID | None = None,
    due_at: datetime,
    manual: bool,
    state: str,
    prompt: str | None,
    session: dict[str, Any] | None,
    now: datetime,
    error: str | None = None,
) -> bool:
    """A new run; False if the schedule has one for that moment.

    That of a session keeps its prompt beside it: nobody who lists runs reads whole sessions.
    """
    return bool(
        await tx.execute(
            """insert into runs (tenant_id, id, schedule_id, webhook_id, due_at, manual, state,
                   prompt, session, created_at, error, finished_at)
               values ($1, $2, $3, $4, $5, $6, $7, coalesce($8, $9::jsonb ->> 'prompt'), $9, $10, $11,
                   case when $7 = 'skipped' then $10::timestamptz end)
               on conflict (tenant_id, schedule_id, due_at)
                   where schedule_id is not null and not manual do nothing""",
            tenant_id,
            run_id,
            schedule_id,
            webhook_id,
            due_at,
            manual,
            state,
            prompt,
            session,
            now,
            error,
        )
    )


async def lock(tx: Transaction, tenant_id: UUID, run_id: UUID) -> Run | None:
    row = await tx.row(
        """select tenant_id, id, schedule_id, webhook_id, state, due_at, prompt, session from runs
           where tenant_id = $1 and id = $2 for update""",
        tenant_id,
        run_id,
    )
    return None if row is None else Run(**row)


async def started(
    tx: Transaction,
    tenant_id: UUID,
    run_id: UUID,
    message_id: UUID | None,
    session_id: UUID | None,
    now: datetime,
) -> None:
    await tx.execute(
        """update runs set state = 'running', message_id = $3, session_id = $4, started_at = $5
           where tenant_id = $1 and id = $2""",
        tenant_id,
        run_id,
        message_id,
        session_id,
        now,
    )


async def finish(
    tx: Transaction,
    tenant_id: UUID,
    run_id: UUID,
    *,
    state: str,
    result: str | None,
    error: str | None,
    error_code: str | None,
    now: datetime,
) -> asyncpg.Record | None:
    """Ends a run that has not ended; None if it has, and nothing is changed."""
    return await tx.row(
        """update runs set state = $3, result = $4, error = $5, error_code = $6, finished_at = $7
           where tenant_id = $1 and id = $2 and state in ('queued', 'running')
           returning id, schedule_id, webhook_id""",
        tenant_id,
        run_id,
        state,
        result,
        error,
        error_code,
        now,
    )


async def find(tx: Transaction, tenant_id: UUID, run_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"select {READ} from runs where tenant_id = $1 and id = $2", tenant_id, run_id
    )


async def page(
    tx: Transaction,
    tenant_id: UUID,
    *,
    schedule_id: UUID | None,
    webhook_id: UUID | None,
    before: UUID | None,
    limit: int,
) -> list[asyncpg.Record]:
    """The runs of a schedule or a webhook, newest first."""
    column = "schedule_id" if schedule_id is not None else "webhook_id"
    return await tx.fetch(
        f"""select {READ} from runs where tenant_id = $1 and {column} = $2 and id < $3
            order by id desc limit $4""",
        tenant_id,
        schedule_id or webhook_id,
        before or _LAST,
        limit,
    )


async def unfinished(tx: Transaction, tenant_id: UUID, webhook_id: UUID) -> int:
    count: int = await tx.value(
        """select count(*) from runs where tenant_id = $1 and webhook_id = $2
           and state in ('queued', 'running')""",
        tenant_id,
        webhook_id,
    )
    return count


async def deliveries(tx: Transaction, tenant_id: UUID, run_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select id, post_action_id, run_id, state, attempts, next_at, status, error, created_at,
               finished_at
           from deliveries where tenant_id = $1 and run_id = $2 order by id""",
        tenant_id,
        run_id,
    )
