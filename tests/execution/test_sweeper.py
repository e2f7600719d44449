"""The sweeper removes what has had its time, all of it, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from agentos.execution import sweeper
from agentos.execution.sweeper import Retention, Sweeper
from agentos.kernel.clock import Clock, MovableClock
from agentos.kernel.database import Database
from agentos.kernel.errors import Unavailable
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger import meters

RETENTION = Retention(
    events=timedelta(days=30),
    idempotency_keys=timedelta(hours=24),
    sessions=timedelta(days=90),
    runs=timedelta(days=60),
)
MOMENT = timedelta(seconds=1)
OUTBOX = Outbox(lambda: None)


@dataclass(frozen=True)
class Rule:
    """One kind of row, how to make it, and how old it may become."""

    table: str
    insert: str
    life: timedelta


# $1 tenant, $2 a number that makes the row unique, $3 the time that decides.
RULES = [
    Rule(
        "events",
        """insert into events (tenant_id, seq, id, type, data, at)
           values ($1, $2, gen_random_uuid(), 'session.started', '{}', $3)""",
        RETENTION.events,
    ),
    Rule(
        "idempotency_keys",
        """insert into idempotency_keys (tenant_id, key, fingerprint, created_at)
           values ($1, int4send($2), '', $3)""",
        RETENTION.idempotency_keys,
    ),
    Rule(
        "runs",
        """with w as (
               insert into webhooks (tenant_id, id, name, session, token_hash, token_hint,
                   created_by, principal_kind, principal_id, created_at, updated_at)
               values ($1, gen_random_uuid(), $2::int::text, '{}', '', '', '', '', '', $3, $3)
               returning tenant_id, id)
           insert into runs (tenant_id, id, webhook_id, due_at, state, created_at, finished_at)
           select tenant_id, gen_random_uuid(), id, $3, 'failed', $3, $3 from w""",
        RETENTION.runs,
    ),
    Rule(
        "socket_tickets",
        """insert into socket_tickets (tenant_id, token_hash, credential, expires_at)
           values ($1, int4send($2), '', $3)""",
        timedelta(minutes=5),
    ),
    Rule(
        "invitations",
        """insert into invitations (tenant_id, id, email, role, token_hash, invited_by, expires_at)
           values ($1, gen_random_uuid(), 'a' || $2::int::text || '@b.example', 'member', '', 'x', $3)""",
        timedelta(days=7),
    ),
    Rule(
        "rate_buckets",
        """insert into rate_buckets (key, tokens, at) values ($1::uuid::text || ':' || $2::int::text, 1, $3)""",
        timedelta(hours=1),
    ),
]


@dataclass
class Rig:
    sweeper: Sweeper
    store: ObjectStore
    clock: MovableClock
    superuser: asyncpg.Connection[Any]
    platform_db: Database
    tenant_id: TenantId

    async def put(self, rule: Rule, number: int, at: datetime) -> None:
        await self.superuser.execute(rule.insert, self.tenant_id, number, at)

    async def count(self, table: str) -> int:
        number: int = await self.superuser.fetchval(f"select count(*) from {table}")
        return number

    async def published(self, position: int = 10**9) -> None:
        await self.superuser.execute("update relay_cursor set published = $1", position)

    async def login(self, expires_at: datetime, revoked_at: datetime | None = None) -> UUID:
        user_id = uuid7()
        await self.superuser.execute(
            "insert into users (id, email, name, password_hash) values ($1, $2, 'n', 'none')",
            user_id,
            f"{user_id.hex}@test.example",
        )
        await self.superuser.execute(
            "insert into logins (user_id, id, expires_at, revoked_at) values ($1, $2, $3, $4)",
            user_id,
            uuid7(),
            expires_at,
            revoked_at,
        )
        return user_id


@pytest.fixture
async def rig(
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    clock: MovableClock,
    tmp_path: Path,
) -> Rig:
    tenant_id = TenantId(uuid7())
    await superuser.execute(
        "insert into tenants (id, name, slug) values ($1, 'T', $2)", tenant_id, f"t-{tenant_id.hex}"
    )
    store = ObjectStore.open(None, tmp_path)
    return Rig(
        Sweeper(platform_db, store, OUTBOX, clock, RETENTION),
        store,
        clock,
        superuser,
        platform_db,
        tenant_id,
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.table)
async def test_exactly_the_expired_goes(rig: Rig, rule: Rule) -> None:
    await rig.published()
    limit = rig.clock.now() - rule.life
    for number, at in enumerate((limit - timedelta(days=400), limit - MOMENT), start=1):
        await rig.put(rule, number, at)
    for number, at in enumerate((limit + MOMENT, rig.clock.now()), start=3):
        await rig.put(rule, number, at)
    await rig.sweeper.sweep()
    assert await rig.count(rule.table) == 2
    rig.clock.advance(MOMENT * 2)
    await rig.sweeper.sweep()
    assert await rig.count(rule.table) == 1
    await rig.sweeper.sweep()
    assert await rig.count(rule.table) == 1


async def test_sign_ins_go_a_week_after_they_ended(rig: Rig) -> None:
    now, week = rig.clock.now(), timedelta(days=7)
    await rig.login(now - week - MOMENT)
    await rig.login(now + week, revoked_at=now - week - MOMENT)
    kept = {
        await rig.login(now + week),
        await rig.login(now - week + MOMENT),
        await rig.login(now + week, revoked_at=now - week + MOMENT),
    }
    await rig.sweeper.sweep()
    rows = await rig.superuser.fetch("select user_id from logins")
    assert {row["user_id"] for row in rows} == kept


async def test_what_the_bus_has_not_heard_stays_however_old(rig: Rig) -> None:
    long_ago = rig.clock.now() - timedelta(days=1000)
    for seq in range(1, 11):
        await rig.put(RULES[0], seq, long_ago)
    positions = [
        row["position"]
        for row in await rig.superuser.fetch("select position from events order by 1")
    ]
    await rig.published(0)
    await rig.sweeper.sweep()
    assert await rig.count("events") == 10
    await rig.published(positions[5])
    await rig.sweeper.sweep()
    rows = await rig.superuser.fetch("select seq from events order by seq")
    assert [row["seq"] for row in rows] == [7, 8, 9, 10]


async def test_what_waits_in_the_outbox_is_never_touched(rig: Rig) -> None:
    await rig.published()
    await rig.superuser.execute(
        """insert into outbox (tenant_id, id, type, data, at)
           values ($1, gen_random_uuid(), 'session.started', '{}', $2)""",
        rig.tenant_id,
        rig.clock.now() - timedelta(days=1000),
    )
    await rig.sweeper.sweep()
    assert await rig.count("outbox") == 1


async def test_the_count_goes_on_after_old_events_are_gone(rig: Rig) -> None:
    await rig.published()
    await rig.superuser.execute("insert into event_counters values ($1, 3)", rig.tenant_id)
    for seq in range(1, 4):
        await rig.put(RULES[0], seq, rig.clock.now() - timedelta(days=31))
    await rig.sweeper.sweep()
    assert await rig.count("events") == 0
    assert await rig.superuser.fetchval("select last_seq from event_counters") == 3


async def test_discarded_bytes_go_after_a_while_and_used_ones_stay(rig: Rig) -> None:
    files = rig.store.for_tenant(rig.tenant_id)
    old, fresh, used = uuid7(), uuid7(), uuid7()
    for object_id in (old, fresh, used):
        await files.put(str(object_id), b"bytes")
    for object_id, age in ((old, timedelta(hours=7)), (fresh, timedelta(hours=5))):
        await rig.superuser.execute(
            "insert into discarded_objects values ($1, $2, now() - $3::interval)",
            rig.tenant_id,
            object_id,
            age,
        )
    await rig.sweeper.sweep()
    assert await rig.superuser.fetchval("select id from discarded_objects") == fresh
    assert not await files.exists(str(old))
    assert await files.exists(str(fresh))
    assert await files.exists(str(used))


@pytest.fixture
async def backlog(rig: Rig) -> Rig:
    """3,500 expired events, 3,500 expired keys, and ten of each that are not."""
    await rig.published()
    for statement in (
        """insert into events (tenant_id, seq, id, type, data, at)
           select $1, n, gen_random_uuid(), 'session.started', '{}',
                  case when n <= 3500 then $2::timestamptz else $3::timestamptz end
           from generate_series(1, 3510) n""",
        """insert into idempotency_keys (tenant_id, key, fingerprint, created_at)
           select $1, int4send(n), '',
                  case when n <= 3500 then $2::timestamptz else $3::timestamptz end
           from generate_series(1, 3510) n""",
    ):
        await rig.superuser.execute(
            statement, rig.tenant_id, rig.clock.now() - timedelta(days=31), rig.clock.now()
        )
    return rig


async def test_a_backlog_goes_in_batches(backlog: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "_BATCH", 1000)
    # What one transaction removed, so that none holds its locks for long.
    await backlog.superuser.execute(
        """create table swept (deleted bigint);
           create function note() returns trigger language plpgsql security definer as $$
           begin insert into public.swept select count(*) from gone; return null; end $$;
           create trigger note after delete on events referencing old table as gone
           for each statement execute function note()"""
    )
    await backlog.sweeper.sweep()
    rows = await backlog.superuser.fetch("select deleted from swept")
    assert [row["deleted"] for row in rows] == [1000, 1000, 1000, 500]
    assert await backlog.count("events") == 10
    assert await backlog.count("idempotency_keys") == 10


async def test_two_at_once_do_the_work_once(backlog: Rig) -> None:
    second = Sweeper(backlog.platform_db, backlog.store, OUTBOX, backlog.clock, RETENTION)
    await asyncio.gather(backlog.sweeper.sweep(), second.sweep())
    assert await backlog.count("events") == 10
    assert await backlog.count("idempotency_keys") == 10


async def test_an_interrupted_sweep_is_tried_again(
    backlog: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "_EVERY_SECONDS", 0.05)
    sweep, attempts = backlog.sweeper.sweep, 0

    async def faltering() -> None:
        nonlocal attempts
        attempts += 1
        match attempts:
            case 1:
                raise Unavailable
            case 2:
                raise ConnectionResetError
            case 3:
                raise asyncpg.DeadlockDetectedError
        await sweep()

    monkeypatch.setattr(backlog.sweeper, "sweep", faltering)
    task = asyncio.create_task(backlog.sweeper.run())
    async with asyncio.timeout(20):
        while await backlog.count("events") > 10:  # noqa: ASYNC110 -- the database does not tell
            await asyncio.sleep(0.02)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_storage_is_sampled_once_an_hour(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = 0
    sample = meters.sample_storage

    async def counted(db: Database, clock: Clock) -> int:
        nonlocal samples
        samples += 1
        return await sample(db, clock)

    monkeypatch.setattr(meters, "sample_storage", counted)
    await rig.superuser.execute(
        "insert into storage_usage (tenant_id, bytes, objects) values ($1, 7, 1)",
        rig.tenant_id,
    )
    rig.clock.advance(timedelta(days=1, minutes=-rig.clock.now().minute))
    hours = 24 - rig.clock.now().hour
    for _ in range(3):
        await rig.sweeper.sweep()
    assert samples == 1
    assert await rig.superuser.fetchval("select quantity from meters") == 7 * hours
    rig.clock.advance(timedelta(hours=1))
    await rig.sweeper.sweep()
    assert samples == 2


async def test_budgets_that_paused_work_resume_with_the_month(rig: Rig) -> None:
    await rig.superuser.execute(
        """insert into budgets (tenant_id, id, scope, subject_id, cap_micros, created_by)
           values ($1, gen_random_uuid(), 'tenant', $1, 100, 'test')""",
        rig.tenant_id,
    )
    await rig.superuser.execute(
        """insert into accounts (tenant_id, scope, subject_id, period, exhausted_at)
           values ($1, 'tenant', $1, $2, $3)""",
        rig.tenant_id,
        rig.clock.now().date().replace(day=1),
        rig.clock.now(),
    )
    await rig.sweeper.sweep()
    assert await rig.count("outbox") == 0
    rig.clock.advance(timedelta(days=32))
    for _ in range(2):
        await rig.sweeper.sweep()
    assert await rig.superuser.fetchval("select type from outbox") == "budget.resumed"
    assert await rig.count("outbox") == 1
