"""What dead processes leave behind is booked and given back, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.tenancy.ledger.conftest import Bank, amount, finished, until

from agentos.execution.sweeper import Retention, Sweeper
from agentos.kernel.database import Database, DatabaseUnavailable
from agentos.kernel.ids import uuid7
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger import posting, recovery
from agentos.tenancy.ledger.calls import Reservation, Spender
from agentos.tenancy.ledger.escrow import Escrow
from agentos.tenancy.ledger.posting import Entry, post
from agentos.tenancy.ledger.recovery import keep_recovering, recover, release_expired_holds

OUTBOX = Outbox(lambda: None)


class Dying:
    """An escrow whose process is killed at the end of the block."""

    def __init__(self, bank: Bank, *, posts: bool):
        self.escrow = bank.escrow()
        self._posts = posts

    async def __aenter__(self) -> Escrow:
        self.escrow._spool.open()
        loops = [self.escrow._teller.run()] + ([self.escrow._poster.run()] if self._posts else [])
        self._loops = [asyncio.create_task(loop) for loop in loops]
        return self.escrow

    async def __aexit__(self, *_: object) -> None:
        async with self.escrow._teller.at_work, self.escrow._poster.desk:
            for loop in self._loops:
                loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self.escrow._spool.close(remove=False)


@pytest.mark.parametrize("posts", [True, False])
async def test_what_was_booked_is_posted_and_what_ran_is_released(bank: Bank, posts: bool) -> None:
    spender = Spender((await bank.tenant(plan="pro")).tenant_id, uuid7(), uuid7())
    for scope in ("tenant", "team", "session"):
        await bank.budget(spender, scope, 1_000)
    async with Dying(bank, posts=posts) as escrow:
        settled = await escrow.reserve(spender, amount(100))
        escrow.settle(settled, finished(70))
        released = await escrow.reserve(spender, amount(100))
        escrow.release(released, "no answer")
        running = await escrow.reserve(spender, amount(100))
        if posts:
            await escrow.flush()
    assert await bank.held() > 0
    for _ in range(2):
        await recover(bank.directory, bank.platform_db, OUTBOX, bank.clock)
    assert list(bank.directory.iterdir()) == []
    ends = [(await bank.entries(call))[1] for call in (settled, released, running)]
    assert [end["kind"] for end in ends] == ["settle", "release", "release"]
    assert [end["reason"] for end in ends] == [None, "no answer", "owner died"]
    for scope in ("tenant", "team", "session"):
        assert (await bank.account(spender, scope))["spent_micros"] == 70
    await bank.check()


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("reserve_posted", [True, False])
@pytest.mark.parametrize("scope", ["tenant", "session", None])
async def test_a_call_booked_elsewhere_is_not_released(
    bank: Bank,
    db: Database,
    noted: bool,
    reserve_posted: bool,
    scope: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spender = Spender((await bank.tenant(plan="pro")).tenant_id, session_id=uuid7())
    if scope is not None:
        await bank.budget(spender, scope, 1_000)
    async with Dying(bank, posts=False) as escrow:
        call = await escrow.reserve(spender, amount(100))
        if reserve_posted:
            await escrow.flush()
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            if not noted:  # killed between the commit and the note of it
                monkeypatch.setattr(tx, "after_commit", lambda action: None)
            await escrow.settle_in(tx, call, finished(70))
    kinds = [entry["kind"] for entry in await bank.entries(call)]
    assert kinds == ["reserve", "settle"] if reserve_posted else ["settle"]
    await recover(bank.directory, bank.platform_db, OUTBOX, bank.clock)
    assert [entry["kind"] for entry in await bank.entries(call)] == ["reserve", "settle"]
    for account in ("tenant", "session"):
        assert (await bank.account(spender, account))["spent_micros"] == 70
    await bank.check()


async def test_a_call_whose_booking_died_with_its_process_is_released(
    bank: Bank, db: Database
) -> None:
    spender = Spender((await bank.tenant(plan="pro")).tenant_id, session_id=uuid7())
    await bank.budget(spender, "session", 100)
    async with Dying(bank, posts=False) as escrow:
        call = await escrow.reserve(spender, amount(100))
        with suppress(ZeroDivisionError):
            async with db.transaction(tenant_id=spender.tenant_id) as tx:
                await escrow.settle_in(tx, call, finished(70))
                raise ZeroDivisionError  # the server rolls back what a dead client left open
    await recover(bank.directory, bank.platform_db, OUTBOX, bank.clock)
    assert [entry["kind"] for entry in await bank.entries(call)] == ["reserve", "release"]
    await bank.check()
    async with bank.running() as next_one:
        next_one.settle(await next_one.reserve(spender, amount(100)), finished(100))
    await bank.check()


async def test_many_recover_at_once_and_it_happens_once(bank: Bank) -> None:
    spender = await bank.tenant()
    for _ in range(3):
        async with Dying(bank, posts=False) as escrow:
            for _ in range(20):
                escrow.settle(await escrow.reserve(spender, amount(10)), finished(10))
    counts = await asyncio.gather(
        *(recover(bank.directory, bank.platform_db, OUTBOX, bank.clock) for _ in range(4))
    )
    assert sum(counts) == 3
    assert (await bank.account(spender))["spent_micros"] == 600
    await bank.check()


async def test_the_next_process_recovers_as_it_starts(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    async with Dying(bank, posts=False) as escrow:
        await escrow.reserve(spender, amount(100))
    async with bank.running() as escrow:
        escrow.settle(await escrow.reserve(spender, amount(100)), finished(100))
    await bank.check()


async def test_a_recovery_that_was_interrupted_is_done_again(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000)
    async with Dying(bank, posts=False) as escrow:
        escrow.settle(await escrow.reserve(spender, amount(100)), finished(70))
        await escrow.reserve(spender, amount(100))

    async def broken(*_: object) -> int:
        raise DatabaseUnavailable

    with monkeypatch.context() as patch:
        patch.setattr("agentos.tenancy.ledger.recovery.give_up", broken)
        with pytest.raises(DatabaseUnavailable):
            await recover(bank.directory, bank.platform_db, OUTBOX, bank.clock)
    assert await recover(bank.directory, bank.platform_db, OUTBOX, bank.clock) == 1
    assert (await bank.account(spender))["spent_micros"] == 70
    await bank.check()


async def test_only_holds_that_expired_a_while_ago_are_given_back(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", 1_000)
    async with Dying(bank, posts=True) as gone:
        await gone.reserve(spender, amount(100))
    async with Dying(bank, posts=True) as living:
        await living.reserve(spender, amount(100))
    expire = "update holds set expires_at = now() - $2::interval where owner = $1"
    await bank.superuser.execute(expire, gone.owner, timedelta(seconds=59))
    assert await release_expired_holds(bank.platform_db) == 0
    await bank.superuser.execute(expire, gone.owner, timedelta(seconds=61))
    assert await release_expired_holds(bank.platform_db) == 1
    owners = await bank.superuser.fetch("select owner, micros from holds")
    assert [row["owner"] for row in owners] == [living.owner]
    assert (await bank.account(spender))["held_micros"] == owners[0]["micros"]


async def test_the_sweeper_gives_back_what_died_elsewhere(
    bank: Bank, platform_db: Database, tmp_path: Any
) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000)
    async with Dying(bank, posts=True) as elsewhere:
        elsewhere.settle(await elsewhere.reserve(spender, amount(10)), finished(10))
        await elsewhere.flush()
    for path in bank.directory.glob(f"{elsewhere.owner}.*"):
        path.unlink()
    await bank.superuser.execute(
        "update holds set expires_at = now() - interval '1 hour' where owner = $1", elsewhere.owner
    )
    retention = Retention(
        events=timedelta(days=30),
        idempotency_keys=timedelta(hours=24),
        sessions=timedelta(days=90),
        runs=timedelta(days=90),
    )
    store = ObjectStore.open(None, tmp_path / "objects")
    assert await bank.held() > 0
    await Sweeper(platform_db, store, OUTBOX, bank.clock, retention).sweep()
    assert (await bank.account(spender))["spent_micros"] == 10
    await bank.check()


async def test_what_dies_later_is_recovered_too(
    bank: Bank, superuser: asyncpg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_EVERY_SECONDS", 0.02)
    spender = await bank.tenant()
    keeping = asyncio.create_task(
        keep_recovering(bank.directory, bank.platform_db, OUTBOX, bank.clock)
    )
    async with Dying(bank, posts=False) as escrow:
        escrow.settle(await escrow.reserve(spender, amount(10)), finished(10))
        # Its owner lives: nothing is taken from it.
        await asyncio.sleep(0.1)
        assert list(bank.directory.iterdir())
        await superuser.execute("alter table holds rename to away")

    async def failed() -> bool:
        return bool(await superuser.fetchval("select count(*) from ledger_entries"))

    await until(failed)
    assert not keeping.done()
    await superuser.execute("alter table away rename to holds")

    async def recovered() -> bool:
        return not list(bank.directory.iterdir())

    await until(recovered)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert (await bank.account(spender))["spent_micros"] == 10
    await bank.check()


# Posting


async def test_posting_again_moves_nothing(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000)
    attempts: list[int] = []

    async def lost(
        tx: Any, owner: Any, entries: list[Entry], outbox: Any, now: Any, _post: Any = post
    ) -> None:
        await _post(tx, owner, entries, outbox, now)
        attempts.append(len(entries))
        if len(attempts) < 3:
            await tx.execute("commit")  # went through, but the answer got lost
            raise DatabaseUnavailable

    monkeypatch.setattr(posting, "post", lost)
    async with bank.running() as escrow:
        for _ in range(5):
            escrow.settle(await escrow.reserve(spender, amount(10)), finished(7))

        async def tried() -> bool:
            return len(attempts) >= 3

        await until(tried)
    assert (await bank.account(spender))["spent_micros"] == 35
    await bank.check()


async def test_a_record_that_cannot_be_posted_does_not_block_the_others(bank: Bank) -> None:
    good, bad = await bank.tenant(), await bank.tenant()
    await bank.budget(good, "tenant", 1_000)
    async with bank.running() as escrow:
        async with escrow._teller.at_work, escrow._poster.desk:
            calls: list[Reservation] = []
            for number in range(20):
                spender = bad if number == 7 else good
                group = escrow._drawer.group(spender)
                calls.append(escrow._begin(spender, amount(10), group, []))
            await bank.superuser.execute("delete from accounts where tenant_id = $1", bad.tenant_id)
            await bank.superuser.execute("delete from tenants where id = $1", bad.tenant_id)
            for call in calls:
                escrow.settle(call, finished(10))
        await escrow.flush()
        assert (await bank.account(good))["spent_micros"] == 190
        # Too large for the column.
        escrow.settle(await escrow.reserve(good, amount(1)), finished(1, duration_ms=2**40))
        escrow.settle(await escrow.reserve(good, amount(10)), finished(10))
        await escrow.flush()
        # What the rejected one would have used of the hold is free again.
        escrow.release(await escrow.reserve(good, amount(800)), "all of it is there")
    (rejected,) = bank.directory.glob("*.rejected")
    lines = rejected.read_text().splitlines()
    assert len(lines) == 3
    assert rejected.stat().st_mode & 0o777 == 0o600
    assert str(bad.tenant_id) in lines[0]
    assert (await bank.account(good))["spent_micros"] == 200
    assert await bank.held() == 0


async def test_an_outage_loses_nothing(bank: Bank, superuser: asyncpg.Connection[Any]) -> None:
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", 100_000)
    async with bank.running() as escrow:
        calls = [await escrow.reserve(spender, amount(10)) for _ in range(20)]
        await superuser.execute("alter role agentos_platform connection limit 0")
        try:
            await superuser.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                   where usename = 'agentos_platform' and datname = current_database()"""
            )
            for call in calls:
                escrow.settle(call, finished(10))
            await asyncio.sleep(0.3)
        finally:
            await superuser.execute("alter role agentos_platform connection limit -1")

        async def posted() -> bool:
            return bool((await bank.account(spender))["spent_micros"] == 200)

        await until(posted)
    await bank.check()


async def test_many_processes_post_for_the_same_accounts_at_once(bank: Bank) -> None:
    tenants = [await bank.tenant() for _ in range(6)]

    async def spend(escrow: Escrow, order: int) -> None:
        for _ in range(20):
            for tenant in tenants[::order]:
                escrow.settle(await escrow.reserve(tenant, amount(5)), finished(5))
            await asyncio.sleep(0)

    async with bank.running() as one, bank.running() as two, bank.running() as three:
        await asyncio.gather(spend(one, 1), spend(two, -1), spend(three, 1))
    for tenant in tenants:
        assert (await bank.account(tenant))["spent_micros"] == 300
    await bank.check()
