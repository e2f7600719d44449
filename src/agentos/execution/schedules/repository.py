from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.runs.repository import last_run_of
from agentos.execution.schedules.errors import ScheduleNameTaken
from agentos.kernel.database import Transaction

READ = """id, name, team_id, prompt, session, kind, cron, timezone, every_seconds, at, missed, enabled,
    next_at, created_by, created_at, updated_at"""
_SHOWN = f"{READ}, {last_run_of('schedules')}"


async def insert(tx: Transaction, tenant_id: UUID, values: dict[str, Any]) -> None:
    names = ["tenant_id", *values]
    places = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    try:
        await tx.execute(
            f"insert into schedules ({', '.join(names)}) values ({places})",
            tenant_id,
            *values.values(),
        )
    except asyncpg.UniqueViolationError:
        raise ScheduleNameTaken() from None


async def update(
    tx: Transaction, tenant_id: UUID, schedule_id: UUID, values: dict[str, Any]
) -> None:
    places = ", ".join(f"{name} = ${n}" for n, name in enumerate(values, 3))
    try:
        await tx.execute(
            f"update schedules set {places} where tenant_id = $1 and id = $2",
            tenant_id,
            schedule_id,
            *values.values(),
        )
    except asyncpg.UniqueViolationError:
        raise ScheduleNameTaken() from None


async def find(
    tx: Transaction, tenant_id: UUID, schedule_id: UUID, *, lock: bool = False
) -> asyncpg.Record | None:
    """One schedule; locked it is there to be changed, not to be shown, and comes without its runs."""
    return await tx.row(
        f"select {READ} from schedules where tenant_id = $1 and id = $2 for update"
        if lock
        else f"select {_SHOWN} from schedules where tenant_id = $1 and id = $2",
        tenant_id,
        schedule_id,
    )


async def page(
    tx: Transaction, tenant_id: UUID, team_id: UUID | None, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_SHOWN} from schedules where tenant_id = $1 and id > $2
              and ($3::uuid is null or team_id = $3) order by id limit $4""",
        tenant_id,
        after,
        team_id,
        limit,
    )


async def delete(tx: Transaction, tenant_id: UUID, schedule_id: UUID) -> None:
    await tx.execute(
        "delete from schedules where tenant_id = $1 and id = $2", tenant_id, schedule_id
    )


# Across tenants, as the platform ----------------------------------------------------------------


async def due(tx: Transaction, now: datetime, limit: int) -> list[asyncpg.Record]:
    """Schedules whose moment has come, for whoever comes first."""
    return await tx.fetch(
        f"""select tenant_id, {READ} from schedules where enabled and next_at <= $1
            order by next_at limit $2 for update skip locked""",
        now,
        limit,
    )


async def set_next(
    tx: Transaction, tenant_id: UUID, schedule_id: UUID, next_at: datetime | None
) -> None:
    await tx.execute(
        "update schedules set next_at = $3 where tenant_id = $1 and id = $2",
        tenant_id,
        schedule_id,
        next_at,
    )
