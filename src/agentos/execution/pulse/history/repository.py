from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.contracts.events import Event
from agentos.execution.pulse.journal import (
    STEP_COLUMNS,
    Session,
    Step,
    event_columns,
    numbered,
    step_columns,
    step_of,
    unnest_events,
    unnest_steps,
)
from agentos.kernel.database import Transaction
from agentos.tenancy.ledger.periods import WHOLE_LIFE


async def tip(tx: Transaction, tenant_id: UUID, session_id: UUID) -> int | None:
    """The newest step of a session; None if the tenant has no such session."""
    seq: int | None = await tx.value(
        "select seq from sessions where tenant_id = $1 and id = $2", tenant_id, session_id
    )
    return seq


async def timeline(
    tx: Transaction,
    tenant_id: UUID,
    session_id: UUID,
    *,
    kind: str | None,
    after: int,
    most: int,
    limit: int,
) -> list[asyncpg.Record]:
    """Steps in order; of inputs and outputs at most `most` characters, and how many bytes there are."""
    return await tx.fetch(
        """select seq, parent, kind, name, status, key,
               left(input::text, $5) as input, octet_length(input::text) as input_bytes,
               coalesce(length(input::text) > $5, false) as input_cut,
               left(output::text, $5) as output, octet_length(output::text) as output_bytes,
               coalesce(length(output::text) > $5, false) as output_cut,
               input_object is not null or output_object is not null as elsewhere,
               snapshot_id is not null as has_files,
               input_tokens, output_tokens, cost_micros, duration_ms, at
           from steps where tenant_id = $1 and session_id = $2 and seq > $3
             and ($4::text is null or kind = $4)
           order by seq limit $6""",
        tenant_id,
        session_id,
        after,
        kind,
        most,
        limit,
    )


async def step(tx: Transaction, tenant_id: UUID, session_id: UUID, seq: int) -> Step | None:
    row = await tx.row(
        f"""select {STEP_COLUMNS} from steps
            where tenant_id = $1 and session_id = $2 and seq = $3""",
        tenant_id,
        session_id,
        seq,
    )
    return None if row is None else step_of(row)


async def snapshot_at(
    tx: Transaction, tenant_id: UUID, session_id: UUID, ranges: Sequence[tuple[int, int]]
) -> UUID | None:
    """The files after the last of these steps; None if there were none."""
    snapshot: UUID | None = await tx.value(
        """select n.snapshot_id from unnest($3::integer[], $4::integer[]) as r (low, high)
           join steps n on n.tenant_id = $1 and n.session_id = $2 and n.seq between r.low and r.high
           where n.snapshot_id is not null order by n.seq desc limit 1""",
        tenant_id,
        session_id,
        [low for low, _ in ranges],
        [high for _, high in ranges],
    )
    return snapshot


async def first_checkpoint(
    tx: Transaction, tenant_id: UUID, session_id: UUID, name: str
) -> asyncpg.Record | None:
    """The first checkpoint of a name: its step."""
    return await tx.row(
        """select seq from checkpoints where tenant_id = $1 and session_id = $2 and name = $3
           order by seq limit 1""",
        tenant_id,
        session_id,
        name,
    )


async def append(
    tx: Transaction, session: Session, now: datetime, steps: Sequence[Step], events: Sequence[Event]
) -> list[Step]:
    """Adds steps to a locked session that change nothing else about it; its worker takes them in."""
    rows = numbered(steps, session.seq)
    await tx.execute(
        _APPEND,
        session.tenant_id,
        session.id,
        len(rows),
        now,
        *step_columns(rows),
        *event_columns(events),
    )
    return rows


_APPEND = f"""
with s as (
    update sessions set seq = seq + $3, updated_at = $4 where tenant_id = $1 and id = $2
    returning fence
), j as (
    insert into steps (tenant_id, session_id, fence, {STEP_COLUMNS})
    select $1, $2, s.fence, n.* from s cross join {unnest_steps(5)}
)
insert into outbox (tenant_id, id, type, data, at)
select $1, e.id, e.type, e.data, $4 from s cross join {unnest_events(22)}
"""


async def begin_anew(tx: Transaction, session: Session) -> None:
    """Lets the limits of a session count from here on, and forgets what it was at and came to."""
    await tx.execute(
        """update sessions set turns = 0, ran_ms = 0, losses = 0, result = null, doing = null
           where tenant_id = $1 and id = $2""",
        session.tenant_id,
        session.id,
    )


async def leave_behind(tx: Transaction, session: Session) -> None:
    """Forgets what a session was at and came to: its journal has it."""
    await tx.execute(
        "update sessions set result = null, doing = null where tenant_id = $1 and id = $2",
        session.tenant_id,
        session.id,
    )


async def insert_checkpoints(
    tx: Transaction, tenant_id: UUID, session_id: UUID, rows: Sequence[tuple[UUID, Step]]
) -> None:
    """A row for each checkpoint, under its id."""
    await tx.execute(
        """insert into checkpoints (tenant_id, session_id, id, seq, name, snapshot_id, created_at)
           select $1, $2, * from unnest($3::uuid[], $4::integer[], $5::text[], $6::uuid[],
               $7::timestamptz[])""",
        tenant_id,
        session_id,
        [checkpoint_id for checkpoint_id, _ in rows],
        [made.seq for _, made in rows],
        [made.name for _, made in rows],
        [made.snapshot_id for _, made in rows],
        [made.at for _, made in rows],
    )


async def checkpoints(
    tx: Transaction, tenant_id: UUID, session_id: UUID, after: int, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select id, session_id, seq, name, snapshot_id is not null as has_files, created_at
           from checkpoints where tenant_id = $1 and session_id = $2 and seq > $3
           order by seq limit $4""",
        tenant_id,
        session_id,
        after,
        limit,
    )


async def checkpoint(
    tx: Transaction, tenant_id: UUID, checkpoint_id: UUID
) -> asyncpg.Record | None:
    return await tx.row(
        "select session_id, seq, name from checkpoints where tenant_id = $1 and id = $2",
        tenant_id,
        checkpoint_id,
    )


async def waiting_approvals(tx: Transaction, tenant_id: UUID, session_id: UUID) -> int:
    count: int = await tx.value(
        """select count(*) from approvals
           where tenant_id = $1 and session_id = $2 and state = 'waiting'""",
        tenant_id,
        session_id,
    )
    return count


# Cost -----------------------------------------------------------------------------------------

_SUMS = ", ".join(
    f"coalesce(sum({name}), 0)::bigint as {name}"
    for name in (
        "calls",
        "failed_calls",
        "unpriced_calls",
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cost_micros",
        "rated_micros",
    )
)
# A session and all that it started, directly or not.
_FAMILY = """
with recursive family(id) as (
    select $2::uuid
    union
    select s.id from sessions s join family f on s.tenant_id = $1 and s.parent_id = f.id
)
"""


async def model_costs(tx: Transaction, tenant_id: UUID, session_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select provider, model, {_SUMS} from usage_days
            where tenant_id = $1 and session_id = $2
            group by provider, model order by sum(cost_micros) desc, provider, model""",
        tenant_id,
        session_id,
    )


async def family_costs(tx: Transaction, tenant_id: UUID, session_id: UUID) -> asyncpg.Record | None:
    """What the model calls of all sub-agents add up to, and theirs."""
    return await tx.row(
        f"""{_FAMILY}
            select (select count(*) from family) - 1 as sessions, {_SUMS}
            from usage_days where tenant_id = $1 and session_id in (select id from family)
              and session_id <> $2""",
        tenant_id,
        session_id,
    )


async def running_times(
    tx: Transaction, tenant_id: UUID, session_id: UUID
) -> list[tuple[UUID, int]]:
    """Milliseconds that a session and its sub-agents ran, each time they were at work anew."""
    rows = await tx.fetch(
        f"""{_FAMILY}
            select s.id, s.ran_ms + case when s.running_since is null then 0 else greatest(0,
                (extract(epoch from clock_timestamp() - s.running_since) * 1000)::bigint) end as ran_ms
            from family f join sessions s on s.tenant_id = $1 and s.id = f.id
            union all
            select n.session_id, (n.input ->> 'ran_ms')::bigint
            from family f join steps n on n.tenant_id = $1 and n.session_id = f.id
            where n.kind = 'state' and n.name = 'QUEUED' and n.input ->> 'ran_ms' is not null""",
        tenant_id,
        session_id,
    )
    return [(row["id"], row["ran_ms"]) for row in rows]


async def step_costs(
    tx: Transaction, tenant_id: UUID, session_id: UUID
) -> list[tuple[int, int, int]]:
    """The steps that took tokens: their number, cost and tokens."""
    rows = await tx.fetch(
        """select seq, coalesce(cost_micros, 0) as cost, input_tokens + output_tokens as tokens
           from steps where tenant_id = $1 and session_id = $2
             and (cost_micros > 0 or input_tokens + output_tokens > 0)""",
        tenant_id,
        session_id,
    )
    return [(row["seq"], row["cost"], row["tokens"]) for row in rows]


async def budget(tx: Transaction, tenant_id: UUID, session_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select b.cap_micros, coalesce(a.spent_micros, 0) as spent_micros,
                greatest(0, b.cap_micros - coalesce(a.spent_micros, 0)) as left_micros
            from budgets b left join accounts a on (a.tenant_id, a.scope, a.subject_id, a.period)
                = (b.tenant_id, b.scope, b.subject_id, date '{WHOLE_LIFE}')
            where b.tenant_id = $1 and b.scope = 'session' and b.subject_id = $2""",
        tenant_id,
        session_id,
    )
