from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.execution.crews.logs.lines import Line
from agentos.execution.crews.logs.schemas import Level
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7

# Of one team.
MOST_LINES = 1_000

_AT_LEAST: dict[Level, list[Level]] = {
    "info": ["info", "warning", "error"],
    "warning": ["warning", "error"],
    "error": ["error"],
}
# The new lines are not among those that the statement sees.
_WRITE = """
with written as (
    insert into team_logs (tenant_id, team_id, id, at, level, source, text)
    select $1, $2, n.id, $3, n.level, n.source, n.text
    from unnest($4::uuid[], $5::text[], $6::text[], $7::text[]) as n (id, level, source, text))
delete from team_logs where tenant_id = $1 and team_id = $2 and id <= (
    select id from team_logs where tenant_id = $1 and team_id = $2
    order by id desc offset greatest(0, $8::int - cardinality($4::uuid[])) limit 1)
"""


async def write(
    tx: Transaction, tenant_id: UUID, team_id: UUID, now: datetime, *lines: Line
) -> None:
    """Adds lines to the log of a team, and removes the oldest beyond what is kept.

    The caller has locked the team: two that write at once would remove the same lines.
    """
    if not lines:
        return
    lines = lines[-MOST_LINES:]
    await tx.execute(
        _WRITE,
        tenant_id,
        team_id,
        now,
        [uuid7() for _ in lines],
        [line.level for line in lines],
        [line.source for line in lines],
        [line.text for line in lines],
        MOST_LINES,
    )


async def page(
    tx: Transaction,
    tenant_id: UUID,
    team_id: UUID,
    *,
    level: Level,
    before: UUID,
    limit: int,
) -> Sequence[asyncpg.Record]:
    """The newest lines before one, of a level or worse."""
    return await tx.fetch(
        """select id, at, level, source, text from team_logs
           where tenant_id = $1 and team_id = $2 and id < $3 and level = any($4::text[])
           order by id desc limit $5""",
        tenant_id,
        team_id,
        before,
        _AT_LEAST[level],
        limit,
    )
