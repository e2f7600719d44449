"""Dispatch: which worker takes which session, and what becomes of the sessions of dead workers.

Done as the platform role, for all tenants at once. Time here is the database's, which all
workers share: a worker whose own clock jumps loses nothing.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

import asyncpg

from agentos.execution.pulse.aftermath import session_ended
from agentos.execution.pulse.journal import COLUMNS, Session, session_of
from agentos.execution.pulse.states import State
from agentos.kernel.database import Database, Transaction, reporting_loss
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger import meters
from agentos.tenancy.plans import PLANS

CLAIM_LOCK = 0x70756C7365  # "pulse"
# A worker that was not seen for this long is taken for dead; one that could not speak to the
# database for a little less stops by itself, so that there is never a moment with two owners.
DEAD_SECONDS = 10.0
SELF_FENCE_SECONDS = 8.0
# A session that takes its worker down this often in a row is not given to another one.
MOST_LOSSES = 3


@dataclass(frozen=True)
class WorkerIdentity:
    """Who a worker is, so that others on its machine can tell whether it lives."""

    id: UUID
    place: str
    pid: int
    pid_started: int


@dataclass(frozen=True, slots=True)
class Claimed:
    session: Session
    # Seconds it may still run, by the plan; None: as long as it likes.
    seconds_left: float | None
    has_budget: bool


def identify(worker_id: UUID) -> WorkerIdentity:
    pid = os.getpid()
    started = process_started(pid)
    assert started is not None, "this process lives"
    return WorkerIdentity(worker_id, _place(), pid, started)


def process_started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if there is none, or a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _place() -> str:
    """Where pids mean the same: this boot of this machine, this pid namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"


async def register(db: Database, worker: WorkerIdentity, capacity: int) -> None:
    async with db.transaction() as tx:
        await tx.execute(
            """insert into workers (id, place, pid, pid_started, capacity)
               values ($1, $2, $3, $4, $5)""",
            worker.id,
            worker.place,
            worker.pid,
            worker.pid_started,
            capacity,
        )


async def unregister(db: Database, worker: WorkerIdentity) -> None:
    """Says goodbye. What the worker still owns goes back to the queue with the next `reap`."""
    async with db.transaction() as tx:
        # It was cut off, not lost: that must not count as what the session does to its workers.
        await tx.execute("update sessions set losses = losses - 1 where owner = $1", worker.id)
        await tx.execute("delete from workers where id = $1", worker.id)


@dataclass(frozen=True, slots=True)
class Glance:
    """What there is to do for a worker. Only that: whoever does it looks again."""

    # False: the worker was taken for dead, and owns nothing any more.
    alive: bool
    queued: bool
    # The time of a session that waits has come.
    due: bool
    # A session waits for its budget.
    broke: bool
    # A worker is gone, or sessions have none that should.
    lost: bool


async def beat(
    db: Database, worker: WorkerIdentity, now: datetime, *, says: bool, draining: bool
) -> Glance:
    """Looks what there is to do and, if it `says` so, notes that the worker lives.

    One statement: this is all that an idle worker does, all day long.
    """
    async with db.connection() as connection:
        with reporting_loss:
            row = await connection.fetchrow(
                _BEAT, worker.id, worker.place, says, draining, now, DEAD_SECONDS
            )
    assert row is not None, "it has no condition"
    gone = any(process_started(pid) != started for pid, started in row["neighbours"])
    return Glance(
        alive=row["alive"],
        queued=row["queued"],
        due=row["due"],
        broke=row["broke"],
        lost=gone or row["silent"] or row["orphans"],
    )


_HAS_ORPHANS = """select exists (select from sessions s where s.owner is not null
    and not exists (select from workers w where w.id = s.owner))"""

# In order, so that the planner takes the indexes, however long ago it counted what is in them.
_BEAT = f"""
with said as (
    update workers set seen_at = clock_timestamp(), draining = $4 where id = $1 and $3)
select exists (select from workers where id = $1) as alive,
    (select true from sessions where queued_at is not null
        order by tenant_id limit 1) is not null as queued,
    (select true from sessions where wake_at <= $5 and state = 'PAUSED' and not pause_requested
        and queued_at is null order by wake_at limit 1) is not null as due,
    (select true from sessions where waiting_for = 'budget' and state = 'PAUSED'
        and not pause_requested and queued_at is null and wake_at is null
        order by tenant_id limit 1) is not null as broke,
    ({_HAS_ORPHANS}) as orphans,
    exists (select from workers where id <> $1
        and seen_at < clock_timestamp() - $6 * interval '1 second') as silent,
    array(select array[pid, pid_started] from workers where id <> $1 and place = $2) as neighbours
"""  # noqa: S608 - only names written in this file are interpolated


@dataclass(frozen=True, slots=True)
class Owned:
    tenant_id: UUID
    id: UUID
    fence: int
    pause_requested: bool


async def owned(db: Database, worker: WorkerIdentity) -> list[Owned]:
    """What the worker owns, as the database sees it."""
    async with db.transaction() as tx:
        rows = await tx.fetch(
            "select tenant_id, id, fence, pause_requested from sessions where owner = $1", worker.id
        )
    return [Owned(**row) for row in rows]


async def claim(
    db: Database, worker: WorkerIdentity, capacity: int, now: datetime
) -> list[Claimed]:
    """Takes at most `capacity` sessions from the queue, within every tenant's limit.

    Tenants take turns: who has fewer running goes first, then who waits longer.
    """
    async with db.transaction() as tx:
        # A statement of its own: the claim has to see what the claim before it has done.
        await tx.execute("select pg_advisory_xact_lock($1)", CLAIM_LOCK)
        rows = await tx.fetch(
            _CLAIM,
            worker.id,
            capacity,
            {name: plan.concurrent_sessions for name, plan in PLANS.items()},
            {name: plan.session_minutes for name, plan in PLANS.items()},
            now,
        )
    return [Claimed(session_of(row), _seconds_left(row), row["has_budget"]) for row in rows]


def _seconds_left(row: asyncpg.Record) -> float | None:
    minutes = row["session_minutes"]
    return None if minutes is None else max(0.0, minutes * 60 - row["ran_ms"] / 1000)


def _limit(name: str, parameter: int) -> str:
    """A plan's limit, unless another was agreed with the tenant."""
    return (
        f"(case when t.limits ? '{name}' then t.limits ->> '{name}' "
        f"else (${parameter}::jsonb) ->> t.plan end)::integer"
    )


# A loose index scan finds the tenants that have something queued; for each the queue's index gives
# as many sessions as it has slots free. Nothing here grows with how many sessions wait. The update
# looks at the queue again: somebody may have paused or cancelled what was picked a moment before.
_CLAIM = f"""
with recursive waiting(tenant_id) as (
    (select tenant_id from sessions where queued_at is not null order by tenant_id limit 1)
    union all
    select (select s.tenant_id from sessions s
            where s.queued_at is not null and s.tenant_id > w.tenant_id
            order by s.tenant_id limit 1)
    from waiting w where w.tenant_id is not null
), free as materialized (
    select t.id as tenant_id, r.running, {_limit("session_minutes", 4)} as session_minutes,
        least($2, coalesce({_limit("concurrent_sessions", 3)} - r.running, $2)) as slots
    from waiting w join tenants t on t.id = w.tenant_id
    cross join lateral (
        select count(*) as running from sessions s
        where s.tenant_id = w.tenant_id and s.owner is not null) r
), picked as materialized (
    select f.tenant_id, q.id, q.state, q.started_at, q.queued_at, f.session_minutes
    from free f cross join lateral (
        select s.id, s.state, s.started_at, s.queued_at,
            row_number() over (order by s.priority desc, s.queued_at, s.id) as nth
        from sessions s where s.tenant_id = f.tenant_id and s.queued_at is not null
        order by s.priority desc, s.queued_at, s.id limit greatest(f.slots, 0)) q
    order by f.running + q.nth, q.queued_at limit $2
), s as (
    update sessions s set
        owner = $1, fence = s.fence + 1, queued_at = null, wake_at = null, waiting_for = null,
        running_since = clock_timestamp(), started_at = coalesce(s.started_at, $5), updated_at = $5,
        state = case when s.state in ('QUEUED', 'PAUSED') then 'RUNNING' else s.state end,
        seq = s.seq + case when s.state in ('QUEUED', 'PAUSED') then 1 else 0 end
    from picked p where s.tenant_id = p.tenant_id and s.id = p.id
        and s.queued_at = p.queued_at
    returning {COLUMNS}, p.state as state_before, p.started_at as started_before, p.session_minutes
), j as (
    insert into steps (tenant_id, session_id, seq, parent, kind, name, status, input, output, fence, at)
    select tenant_id, id, seq, seq - 1, 'state', 'RUNNING', 'done',
        json_build_object('from', state_before), '{{"reason":null}}', fence, $5
    from s where state_before in ('QUEUED', 'PAUSED')
), o as (
    insert into outbox (tenant_id, id, type, data, at)
    select tenant_id, gen_random_uuid(),
        case when started_before is null then 'session.started' else 'session.resumed' end,
        jsonb_build_object('session_id', id), $5
    from s where state_before in ('QUEUED', 'PAUSED')
)
select s.*, exists (select from budgets b where b.tenant_id = s.tenant_id
    and b.scope = 'session' and b.subject_id = s.id) as has_budget from s
"""  # noqa: S608 - only names written in this file are interpolated


async def reap(db: Database, worker: WorkerIdentity, now: datetime) -> int:
    """Gives the sessions of dead workers back to the queue; returns how many workers were dead."""
    async with db.transaction() as tx:
        if not await tx.value("select pg_try_advisory_xact_lock($1)", CLAIM_LOCK + 1):
            return 0  # somebody else is at it
        dead = await _dead(tx, worker)
        if not dead and not await tx.value(_HAS_ORPHANS):
            return 0
        await tx.execute(_BURY, dead)
        await tx.execute(_LOCK_ORPHANS)
        lost = await tx.fetch(_REAP, MOST_LOSSES, now)
        for row in lost:
            if row["hopeless"]:
                await _announce_end(tx, row, now)
            await charge_compute(tx, row["tenant_id"], now, row["before_ms"], row["ran_ms"])
    return len(dead)


async def _dead(tx: Transaction, worker: WorkerIdentity) -> list[UUID]:
    rows = await tx.fetch(
        """select id, place, pid, pid_started,
               seen_at < clock_timestamp() - $1 * interval '1 second' as silent from workers""",
        DEAD_SECONDS,
    )
    return [
        row["id"]
        for row in rows
        if row["silent"]
        or (row["place"] == worker.place and process_started(row["pid"]) != row["pid_started"])
    ]


async def _announce_end(tx: Transaction, row: asyncpg.Record, now: datetime) -> None:
    events = await session_ended(
        tx,
        row["tenant_id"],
        row["id"],
        now,
        parent_id=row["parent_id"],
        chain_id=row["chain_id"],
    )
    # The relay polls; nobody has to be woken.
    await Outbox(lambda: None).announce(tx, row["tenant_id"], now, *events)


# Here and below with skip locked: a worker that was stopped in a transaction of its own holds
# what it was at until the database ends that. Only what it was at waits for it.
_BURY = """delete from workers where id in (
    select id from workers where id = any($1) for update skip locked)"""

# Rows of a family are locked from the ancestors down (see aftermath); their ids rise.
_LOCK_ORPHANS = """
select from sessions where (tenant_id, id) in (
    select o.tenant_id, unnest(array[o.id, o.parent_id]) from sessions o
    where o.owner is not null and not exists (select from workers w where w.id = o.owner))
order by id for update
"""

# What a worker was at when it died goes back to the queue in the state it was in: its journal says
# how to go on. One that has cost too many workers fails.
_REAP = """
with o as materialized (
    select tenant_id, id, state, ran_ms, losses + 1 >= $1 as hopeless from sessions s
    where s.owner is not null and not exists (select from workers w where w.id = s.owner)
    for update skip locked
), s as (
    update sessions s set
        owner = null, fence = s.fence + 1, losses = s.losses + 1, running_since = null,
        ran_ms = s.ran_ms + greatest(0,
            (extract(epoch from clock_timestamp() - s.running_since) * 1000)::bigint),
        queued_at = case when o.hopeless then null else clock_timestamp() end,
        state = case when o.hopeless then 'FAILED' else s.state end,
        seq = s.seq + case when o.hopeless then 1 else 0 end,
        error = case when o.hopeless then 'Its worker was lost ' || (s.losses + 1) || ' times in a row.' end,
        error_code = case when o.hopeless then 'worker_lost' end,
        finished_at = case when o.hopeless then $2::timestamptz end, updated_at = $2
    from o where s.tenant_id = o.tenant_id and s.id = o.id
    returning s.tenant_id, s.id, s.seq, s.fence, s.error, o.state as state_before, o.hopeless,
        o.ran_ms as before_ms, s.ran_ms, s.parent_id, s.chain_id
), j as (
    insert into steps (tenant_id, session_id, seq, parent, kind, name, status, input, output, fence, at)
    select tenant_id, id, seq, seq - 1, 'state', 'FAILED', 'failed',
        json_build_object('from', state_before), json_build_object('reason', error), fence, $2
    from s where hopeless
), e as (
    insert into outbox (tenant_id, id, type, data, at)
    select tenant_id, gen_random_uuid(), 'session.failed',
        jsonb_build_object('session_id', id, 'error', error), $2
    from s where hopeless
)
select tenant_id, id, before_ms, ran_ms, hopeless, parent_id, chain_id from s
"""


async def charge_compute(
    tx: Transaction, tenant_id: UUID, now: datetime, before_ms: int, after_ms: int
) -> None:
    """Counts the compute seconds between two readings of a session's running time."""
    seconds = -(-after_ms // 1000) - -(-before_ms // 1000)
    if seconds > 0:
        await meters.add(tx, tenant_id, now.date(), "compute_seconds", seconds)


async def wake_due(db: Database, now: datetime) -> int:
    """Queues what has waited until its time; returns how many sessions."""
    async with db.transaction() as tx:
        return await tx.execute(_WAKE_DUE, now, State.PAUSED)


# With skip locked: what somebody else is just changing is looked at again in a moment.
_WAKE_DUE = """
update sessions s set queued_at = clock_timestamp(), wake_at = null, updated_at = $1
from (select tenant_id, id from sessions where wake_at <= $1 and state = $2 and not pause_requested
      order by wake_at limit 500 for update skip locked) d
where s.tenant_id = d.tenant_id and s.id = d.id and s.queued_at is null
"""


async def wake_with_budget(db: Database, now: datetime) -> int:
    """Queues what was paused by a budget that has room again; returns how many sessions."""
    async with db.transaction() as tx:
        return await tx.execute(_WAKE_WITH_BUDGET, now)


_WAKE_WITH_BUDGET = """
update sessions s set queued_at = clock_timestamp(), wake_at = null, updated_at = $1
from (select tenant_id, id from sessions p where waiting_for = 'budget' and queued_at is null
        and state = 'PAUSED' and not pause_requested and wake_at is null
        and not exists (select from accounts a where a.tenant_id = p.tenant_id
            and a.exhausted_at is not null
            and ((a.scope = 'tenant' and a.period = date_trunc('month', $1 at time zone 'utc')::date)
              or (a.scope = 'session' and a.subject_id = p.id)
              or (a.scope = 'team' and a.subject_id = p.team_id
                  and a.period = date_trunc('month', $1 at time zone 'utc')::date)))
      limit 500 for update skip locked) d
where s.tenant_id = d.tenant_id and s.id = d.id
"""
