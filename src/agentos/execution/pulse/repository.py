from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import Event
from agentos.execution.pulse.journal import (
    COLUMNS,
    STEP_COLUMNS,
    Session,
    Step,
    event_columns,
    numbered,
    session_of,
    step_columns,
    unnest_events,
    unnest_steps,
)
from agentos.execution.pulse.schemas import SessionFilter, WaitingFor
from agentos.execution.pulse.states import ENDED, State
from agentos.kernel.database import Transaction

# What lists show. The cost is the ledger's: the journal has only what became a step.
_SHOWN = """s.id, s.title, s.state, s.waiting_for, s.queued_at is not null as queued,
    s.config ->> 'model' as model, s.priority, s.team_id, s.turns, s.seq as steps,
    coalesce(a.spent_micros, 0) as cost_micros, coalesce(a.spent_tokens, 0) as tokens,
    s.ran_ms + case when s.running_since is null then 0 else greatest(0,
        (extract(epoch from clock_timestamp() - s.running_since) * 1000)::bigint) end as ran_ms,
    s.error, s.error_code, s.parent_id, s.forked_from, s.forked_seq, s.chain_id, s.chain_node,
    s.created_by, s.created_at, s.started_at, s.finished_at, s.updated_at"""
_FROM = """from sessions s left join accounts a on a.tenant_id = s.tenant_id
    and a.scope = 'session' and a.subject_id = s.id and a.period = '1970-01-01'"""

_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    session_id: UUID,
    *,
    state: State,
    title: str,
    config: dict[str, Any],
    priority: int,
    team_id: UUID | None,
    principal: tuple[str, str, str],
    now: datetime,
    snapshot_id: UUID | None = None,
    parent: tuple[UUID, str] | None = None,
    forked: tuple[UUID, int] | None = None,
    chain: tuple[UUID, str] | None = None,
    steps: Sequence[Step],
    events: Sequence[Event],
) -> None:
    """A new session with its first steps, in the queue if its state is QUEUED."""
    rows = numbered(steps, 0)
    kind, principal_id, name = principal
    await tx.execute(
        _INSERT,
        tenant_id,
        session_id,
        state,
        title,
        config,
        priority,
        team_id,
        name,
        kind,
        principal_id,
        now,
        state == State.QUEUED,
        len(rows),
        snapshot_id,
        *(parent or (None, None)),
        *(forked or (None, None)),
        *(chain or (None, None)),
        *step_columns(rows),
        *event_columns(events),
    )


_INSERT = f"""
with s as (
    insert into sessions (tenant_id, id, state, title, config, priority, team_id, workspace_id,
        created_by, principal_kind, principal_id, created_at, updated_at, queued_at, seq,
        snapshot_id, parent_id, parent_call, forked_from, forked_seq, chain_id, chain_node)
    values ($1, $2, $3, $4, $5, $6, $7, $2, $8, $9, $10, $11, $11,
        case when $12 then clock_timestamp() end, $13, $14, $15, $16, $17, $18, $19, $20)
    returning fence
), j as (
    insert into steps (tenant_id, session_id, fence, {STEP_COLUMNS})
    select $1, $2, s.fence, n.* from s cross join {unnest_steps(21)}
)
insert into outbox (tenant_id, id, type, data, at)
select $1, e.id, e.type, e.data, $11 from s cross join {unnest_events(38)}
"""


async def page(
    tx: Transaction, tenant_id: UUID, wanted: SessionFilter, before: UUID, limit: int
) -> list[asyncpg.Record]:
    """Sessions before `before`, newest first.

    Words in titles have no index: the search walks what the other filters leave, newest first,
    and ends when the page is full. One that finds nothing reads every session of the tenant, and
    of no other.
    """
    args: list[Any] = [tenant_id, before, limit]
    where = ""
    # Only what is asked for, so that each combination is planned with the index it has.
    for condition, value in (
        ("s.state = any({}::text[])", wanted.states),
        ("s.team_id = {}", wanted.team_id),
        ("s.parent_id = {}", wanted.parent_id),
        ("s.chain_id = {}", wanted.chain_id),
        ("s.title ilike all({}::text[])", [_containing(word) for word in wanted.words]),
    ):
        if value:
            args.append(value)
            where += " and " + condition.format(f"${len(args)}")
    return await tx.fetch(
        f"""select {_SHOWN} {_FROM}
            where s.tenant_id = $1 and s.id < $2{where} order by s.id desc limit $3""",
        *args,
    )


def _containing(word: str) -> str:
    """The pattern of texts that hold a word; nothing in it is special."""
    return "%" + word.translate(_ESCAPED) + "%"


async def find(tx: Transaction, tenant_id: UUID, session_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_SHOWN}, s.config, s.result, s.allowed_tools,
                case when s.queued_at is not null then (
                    select count(*) + 1 from sessions q
                    where q.tenant_id = s.tenant_id and q.queued_at is not null
                      and (-q.priority, q.queued_at, q.id) < (-s.priority, s.queued_at, s.id)
                ) end as position
            {_FROM} where s.tenant_id = $1 and s.id = $2""",
        tenant_id,
        session_id,
    )


async def lock(tx: Transaction, tenant_id: UUID, session_id: UUID) -> Session | None:
    """The session, which nobody else changes until the transaction ends."""
    row = await tx.row(
        f"select {COLUMNS} from sessions s where s.tenant_id = $1 and s.id = $2 for update",
        tenant_id,
        session_id,
    )
    return None if row is None else session_of(row)


async def change(
    tx: Transaction,
    session: Session,
    now: datetime,
    *,
    state: State | None = None,
    steps: Sequence[Step] = (),
    events: Sequence[Event] = (),
    queue: bool = False,
    dequeue: bool = False,
    seize: bool = False,
    pause_requested: bool | None = None,
    waiting_for: WaitingFor | None = None,
    error: str | None = None,
    error_code: str | None = None,
    snapshot_id: UUID | None = None,
    config: dict[str, Any] | None = None,
) -> int:
    """Changes a locked session from outside its run; returns its running time in milliseconds.

    `seize` takes it away from its worker, whose next write is refused, and out of the queue.
    `steps` may be added while it runs: its worker takes them in.
    """
    rows = numbered(steps, session.seq)
    after = state or session.state
    ran_ms: int = await tx.value(
        _CHANGE,
        session.tenant_id,
        session.id,
        after,
        len(rows),
        queue,
        seize,
        dequeue,
        pause_requested,
        waiting_for,
        error,
        error_code,
        snapshot_id,
        config,
        now,
        after in ENDED,
        *step_columns(rows),
        *event_columns(events),
    )
    return ran_ms


_CHANGE = f"""
with s as (
    update sessions set
        state = $3, seq = seq + $4,
        queued_at = case when $5 then clock_timestamp() when $6 or $7 then null else queued_at end,
        fence = fence + case when $6 then 1 else 0 end,
        owner = case when $6 then null else owner end,
        running_since = case when $6 then null else running_since end,
        ran_ms = ran_ms + case when $6 and running_since is not null then greatest(0,
            (extract(epoch from clock_timestamp() - running_since) * 1000)::bigint) else 0 end,
        doing = case when $6 then null else doing end,
        pause_requested = coalesce($8, pause_requested),
        waiting_for = $9, wake_at = case when $5 or $6 then null else wake_at end,
        error = $10, error_code = $11, snapshot_id = $12, config = coalesce($13, config),
        updated_at = $14::timestamptz, finished_at = case when $15 then $14::timestamptz end
    where tenant_id = $1 and id = $2
    returning fence, ran_ms
), j as (
    insert into steps (tenant_id, session_id, fence, {STEP_COLUMNS})
    select $1, $2, s.fence, n.* from s cross join {unnest_steps(16)}
), o as (
    insert into outbox (tenant_id, id, type, data, at)
    select $1, e.id, e.type, e.data, $14 from s cross join {unnest_events(33)}
)
select ran_ms from s
"""


async def open_children(tx: Transaction, tenant_id: UUID, parent_id: UUID) -> list[UUID]:
    """Sub-agents of a session that have not ended."""
    rows = await tx.fetch(
        """select id from sessions where tenant_id = $1 and parent_id = $2
           and state <> all($3::text[]) order by id""",
        tenant_id,
        parent_id,
        sorted(ENDED),
    )
    return [row["id"] for row in rows]


async def steps(
    tx: Transaction, tenant_id: UUID, session_id: UUID, after: int, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {STEP_COLUMNS} from steps
            where tenant_id = $1 and session_id = $2 and seq > $3 order by seq limit $4""",
        tenant_id,
        session_id,
        after,
        limit,
    )


async def rollbacks(tx: Transaction, tenant_id: UUID, session_id: UUID) -> list[tuple[int, int]]:
    """The rollbacks of a session, each with the step it went back to."""
    rows = await tx.fetch(
        """select seq, parent from steps
           where tenant_id = $1 and session_id = $2 and kind = 'rollback' order by seq""",
        tenant_id,
        session_id,
    )
    return [(row["seq"], row["parent"]) for row in rows]


async def missing(tx: Transaction, session: Session) -> str | None:
    """What a session still waits for that resuming it cannot give it; None if nothing."""
    if session.waiting_for == "approval":
        waiting: int = await tx.value(
            """select count(*) from approvals
               where tenant_id = $1 and session_id = $2 and state = 'waiting'""",
            session.tenant_id,
            session.id,
        )
        return f"{waiting} approvals" if waiting else None
    if session.waiting_for == "children":
        children = await open_children(tx, session.tenant_id, session.id)
        return f"{len(children)} sub-agents" if children else None
    return None
