"""Sessions: hundreds a second, most without a budget, each call booked in its step's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.tenancy.ledger.conftest import Bank, amount, finished, until
from tests.tenancy.ledger.test_escrow import granted, refused, take_away_holds

from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import uuid7
from agentos.tenancy.ledger import holds, teller
from agentos.tenancy.ledger.calls import Reservation, Spender
from agentos.tenancy.ledger.drawer import Drawer
from agentos.tenancy.ledger.errors import BudgetExhausted
from agentos.tenancy.ledger.escrow import Escrow, ReservationEnded


def a_session(tenant: Spender, *, team: bool = False) -> Spender:
    return Spender(tenant.tenant_id, uuid7() if team else None, uuid7())


async def settle_in(db: Database, escrow: Escrow, call: Reservation, cost: int) -> None:
    async with db.transaction(tenant_id=call.spender.tenant_id) as tx:
        await escrow.settle_in(tx, call, finished(cost))


@contextmanager
def statements(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a transaction sends to Postgres."""
    sent: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("fetch", "row", "value", "execute"):
            real = getattr(tx, name)

            async def noted(query: str, *args: Any, _real: Any = real) -> Any:
                sent.append(query)
                return await _real(query, *args)

            patch.setattr(tx, name, noted)
        yield sent


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Spender]:
    """Who had to wait for the database."""
    waited: list[Spender] = []
    wait = Drawer.wait

    async def noted(drawer: Drawer, spender: Spender, worst: Any) -> Any:
        waited.append(spender)
        return await wait(drawer, spender, worst)

    monkeypatch.setattr(Drawer, "wait", noted)
    return waited


# One statement


@pytest.mark.parametrize("plan", ["enterprise", "pro"])
async def test_a_call_is_booked_by_one_statement(
    bank: Bank, db: Database, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender = a_session(await bank.tenant(plan=plan), team=True)
    await bank.budget(spender, "session", 1_000)
    async with bank.running() as escrow:
        call = await escrow.reserve(spender, amount(100))
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            with statements(tx, monkeypatch) as sent:
                await escrow.settle_in(tx, call, finished(70))
        assert len(sent) == 1
    for scope in ("tenant", "team", "session"):
        account = await bank.account(spender, scope)
        assert (account["spent_micros"], account["spent_tokens"]) == (70, 3)
    await bank.check()


async def test_every_column_is_the_same_as_when_a_batch_is_posted(bank: Bank, db: Database) -> None:
    one, other = [a_session(await bank.tenant(plan="pro"), team=True) for _ in range(2)]
    call = finished(
        101,
        tokens=30,
        outcome="failed",
        error_class="overload",
        cache_read_tokens=4,
        cache_write_tokens=5,
        reasoning_tokens=2,
        attempts=3,
    )
    unpriced = finished(None, streamed=False, estimated=True, first_byte_ms=None)
    async with bank.running() as escrow:
        for each in (call, call, unpriced):
            escrow.settle(await escrow.reserve(one, amount(200)), each)
            reservation = await escrow.reserve(other, amount(200))
            async with db.transaction(tenant_id=other.tenant_id) as tx:
                await escrow.settle_in(tx, reservation, each)
    own = {"tenant_id", "team_id", "session_id", "id", "call_id", "subject_id"}
    for table, order in (
        ("model_calls", "id"),
        ("usage_days", "id"),
        ("accounts", "scope"),
        ("ledger_entries", "call_id, kind"),
    ):
        batch, single = [
            [
                {name: value for name, value in row.items() if name not in own | {"at"}}
                for row in await bank.superuser.fetch(
                    f"select * from {table} where tenant_id = $1 order by {order}",
                    spender.tenant_id,
                )
            ]
            for spender in (one, other)
        ]
        assert batch == single
        assert batch
    await bank.check()


async def test_settling_again_moves_nothing(
    bank: Bank, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender = a_session(await bank.tenant(plan="pro"))
    await bank.budget(spender, "session", 100)
    async with bank.running() as escrow:
        call = await escrow.reserve(spender, amount(60))
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            # As if the connection broke in the middle of the commit, which went through.
            monkeypatch.setattr(tx, "after_commit", lambda action: None)
            await escrow.settle_in(tx, call, finished(60))
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            await escrow.settle_in(tx, call, finished(60))
            await escrow.settle_in(tx, call, finished(60))
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(41))
        await settle_in(db, escrow, await granted(escrow, spender, amount(40)), 40)
    assert (await bank.account(spender, "session"))["spent_micros"] == 100
    await bank.check()


async def test_a_booking_that_rolled_back_can_be_released(bank: Bank, db: Database) -> None:
    spender = a_session(await bank.tenant(plan="pro"))
    for scope in ("tenant", "session"):
        await bank.budget(spender, scope, 100)
    async with bank.running() as escrow:
        call = await escrow.reserve(spender, amount(60))
        with suppress(ZeroDivisionError):
            async with db.transaction(tenant_id=spender.tenant_id) as tx:
                await escrow.settle_in(tx, call, finished(60))
                raise ZeroDivisionError
        escrow.release(call, "there was no step")
        await settle_in(db, escrow, await granted(escrow, spender, amount(100)), 100)
    assert [entry["kind"] for entry in await bank.entries(call)] == ["reserve", "release"]
    await bank.check()


async def test_the_warning_comes_once_with_the_step(bank: Bank, db: Database) -> None:
    spender = a_session(await bank.tenant())
    await bank.budget(spender, "session", 100)
    async with bank.running() as escrow:
        for cost in (79, 1, 1):
            await settle_in(db, escrow, await escrow.reserve(spender, amount(cost)), cost)
    (warning,) = await bank.events("budget.warned")
    assert warning == {
        "scope": "session",
        "subject_id": str(spender.session_id),
        "cap_micros": 100,
        "spent_micros": 80,
    }
    assert (await bank.account(spender))["warned_at"] is None


@pytest.mark.parametrize("left", [0, 30])
async def test_a_hold_that_others_took_is_not_taken_off_again(
    bank: Bank, db: Database, left: int
) -> None:
    spender = a_session(await bank.tenant(plan="pro"))
    await bank.budget(spender, "tenant", 10_000)
    await bank.budget(spender, "session", 10_000)
    async with bank.running() as still, bank.running() as other:
        call = await still.reserve(spender, amount(100))
        async with still._teller.at_work, still._poster.desk:  # its loops stand still
            await take_away_holds(bank.superuser)
            if left:
                await bank.superuser.execute(
                    "insert into holds select tenant_id, scope, subject_id, period, $1, $2, $2, 0,"
                    " now() + interval '1 minute' from accounts",
                    still.owner,
                    left,
                )
                await bank.superuser.execute(
                    "update accounts set held_micros = $1, held_tokens = $1", left
                )
            of_other = await other.reserve(spender, amount(100))
            await settle_in(db, still, call, 100)
            for scope in ("tenant", "session"):
                account = await bank.account(spender, scope)
                assert account["spent_micros"] == 100
                held = await bank.superuser.fetchrow(
                    """select sum(micros) as micros, sum(tokens) as tokens, sum(calls) as calls
                       from holds where scope = $1""",
                    scope,
                )
                assert held is not None
                assert dict(held) == {
                    unit: account[f"held_{unit}"] for unit in ("micros", "tokens", "calls")
                }
                assert held["micros"] >= 100
        await settle_in(db, other, of_other, 100)
    assert (await bank.account(spender))["spent_micros"] == 200
    await bank.check()


@pytest.mark.parametrize("then", ["told", "settle"])
async def test_a_look_between_a_booking_and_the_note_of_it_loses_nothing(
    bank: Bank, db: Database, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000)
    actions: list[Callable[[], None]] = []
    async with bank.running() as escrow:
        call = await escrow.reserve(spender, amount(100))
        hold = escrow._drawer.group(spender).holds[0]
        async with escrow._teller.at_work:
            async with db.transaction(tenant_id=spender.tenant_id) as tx:
                monkeypatch.setattr(tx, "after_commit", actions.append)
                await escrow.settle_in(tx, call, finished(60))
            hold.doubt()
            await escrow._teller._be_certain()
            if then == "told":
                actions[0]()
            else:
                escrow.settle(call, finished(60))
            await escrow._teller._be_certain()
            there = await bank.superuser.fetchval("select micros from holds")
            assert there == hold.micros.total > 0
            assert hold.micros.taken == hold.micros.unposted == 0
    await bank.check()


async def test_many_book_in_the_same_accounts_at_once(bank: Bank, db: Database) -> None:
    tenants = [await bank.tenant(plan="pro", concurrent_model_calls=500) for _ in range(3)]
    team = uuid7()
    for tenant in tenants:
        await bank.budget(tenant, "tenant", 10_000)
        await bank.budget(Spender(tenant.tenant_id, team), "team", 10_000)

    async def session(escrow: Escrow, number: int) -> None:
        spender = Spender(tenants[number % 3].tenant_id, team, uuid7())
        if number % 4 == 0:
            await bank_budget(bank, spender)
        for way in range(3):
            call = await escrow.reserve(spender, amount(40))
            if way == number % 3:
                escrow.settle(call, finished(13))
            else:
                await settle_in(db, escrow, call, 13)

    turn = asyncio.Lock()

    async def bank_budget(bank: Bank, spender: Spender) -> None:
        async with turn:  # the superuser has one connection
            await bank.budget(spender, "session", 39)

    async with bank.running() as one, bank.running() as other:
        results = await asyncio.gather(
            *(session(escrow, number) for escrow in (one, other) for number in range(60)),
            return_exceptions=True,
        )
    refusals = [each for each in results if each is not None]
    assert all(isinstance(each, BudgetExhausted) for each in refusals)
    # 39 is less than the worst case of a call.
    assert len(refusals) == 30
    for tenant in tenants:
        account = await bank.account(tenant)
        assert account["spent_micros"] == (120 - 30) // 3 * 3 * 13
    await bank.check()


# Sessions without a budget


async def test_a_session_without_a_budget_has_no_hold_and_nothing_before_it_spends(
    bank: Bank, db: Database
) -> None:
    spender = a_session(await bank.tenant(plan="pro"), team=True)
    async with bank.running() as escrow:
        call = await escrow.reserve(spender, amount(100))
        for scope in ("team", "session"):
            assert await bank.account(spender, scope) == {}
        assert (
            await bank.superuser.fetchval("select count(*) from holds where scope <> 'tenant'") == 0
        )
        await settle_in(db, escrow, call, 70)
        assert (await bank.account(spender, "session"))["spent_micros"] == 70
        assert list(escrow._drawer.holds) == [escrow._drawer.group(spender).accounts[0]]
    await bank.check()


async def test_new_sessions_known_to_have_no_budget_do_not_wait(
    bank: Bank, db: Database, waits: list[Spender]
) -> None:
    tenant = await bank.tenant(plan="pro")
    async with bank.running() as escrow:
        escrow.release(await escrow.reserve(tenant, amount(100)), "the tenant's hold")
        assert waits.pop() == tenant
        for _ in range(5):
            spender = a_session(tenant)
            escrow.no_budget(spender.tenant_id, spender.session_id or uuid7())
            await settle_in(db, escrow, await escrow.reserve(spender, amount(10)), 10)
    assert waits == []
    await bank.check()


async def test_new_sessions_are_read_for_together_and_without_locks(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, waits: list[Spender]
) -> None:
    reads: list[int] = []
    rounds: list[int] = []
    read_capped, lock_accounts = holds.read_capped, holds.lock_accounts

    async def read(db: Any, accounts: Any) -> Any:
        reads.append(len(accounts))
        return await read_capped(db, accounts)

    async def lock(tx: Any, accounts: Any) -> None:
        rounds.append(len(accounts))
        await lock_accounts(tx, accounts)

    monkeypatch.setattr(holds, "read_capped", read)
    tenant = await bank.tenant()
    async with bank.running() as escrow:
        escrow.release(await escrow.reserve(tenant, amount(100)), "nothing")
        monkeypatch.setattr(holds, "lock_accounts", lock)
        waits.clear()
        calls = await asyncio.gather(
            *(escrow.reserve(a_session(tenant), amount(10)) for _ in range(50))
        )
        assert len(waits) == 50
        assert reads[0] == 50
        assert rounds == []
        for call in calls:
            escrow.settle(call, finished(5))
    await bank.check()


@pytest.mark.parametrize("scope", ["team", "session"])
async def test_a_budget_set_in_the_middle_is_kept(bank: Bank, db: Database, scope: str) -> None:
    spender = a_session(await bank.tenant(plan="pro"), team=True)
    async with bank.running() as escrow:
        running = await escrow.reserve(spender, amount(30))
        await bank.budget(spender, scope, 100)
        await refused(escrow, spender, amount(101), BudgetExhausted)
        # From here on the cap is known; what ran before it had no room in it.
        await settle_in(db, escrow, running, 30)
        await settle_in(db, escrow, await granted(escrow, spender, amount(70)), 70)
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(1))
        await bank.budget(spender, scope, None)
        await settle_in(db, escrow, await granted(escrow, spender, amount(500)), 500)
    assert (await bank.account(spender, scope))["spent_micros"] == 600
    await bank.check()


async def test_a_budget_is_kept_by_those_who_never_stop_calling(bank: Bank) -> None:
    spender = a_session(await bank.tenant())

    async def spend(escrow: Escrow) -> None:
        while True:
            escrow.settle(await escrow.reserve(spender, amount(10)), finished(1))
            await asyncio.sleep(0.002)

    async with bank.running() as escrow, asyncio.timeout(20):
        escrow.settle(await escrow.reserve(spender, amount(1)), finished(1))
        await bank.budget(spender, "session", 10)
        with pytest.raises(BudgetExhausted):
            await spend(escrow)
    await bank.check()


async def test_two_processes_find_a_budget_and_share_it_to_the_last_micro_dollar(
    bank: Bank, db: Database
) -> None:
    spender, cap = a_session(await bank.tenant()), 2_000
    over: list[int] = []

    async def use(escrow: Escrow, cost: int) -> None:
        await settle_in(db, escrow, await escrow.reserve(spender, amount(cost)), cost)

    async def find_out(escrow: Escrow) -> None:
        while len(escrow._drawer.group(spender).holds) == 1:
            await use(escrow, 1)
            await asyncio.sleep(0.02)

    async def spend(escrow: Escrow) -> None:
        for cost in (40, 1):
            with suppress(BudgetExhausted):
                while True:
                    await use(escrow, cost)

    async def watch() -> None:
        while True:
            account = await bank.account(spender, "session")
            if account["spent_micros"] + account["held_micros"] > cap:
                over.append(account["spent_micros"])
            await asyncio.sleep(0.002)

    async with bank.running() as one, bank.running() as other, asyncio.timeout(30):
        for escrow in (one, other):
            await use(escrow, 1)
        await bank.budget(spender, "session", cap)
        watching = asyncio.create_task(watch())
        await asyncio.gather(find_out(one), find_out(other))
        await asyncio.gather(*(spend(escrow) for escrow in (one, other) for _ in range(3)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert over == []
    assert (await bank.account(spender, "session"))["spent_micros"] == cap
    await bank.check()


async def test_a_session_that_was_capped_before_it_began_spends_nothing_beyond(bank: Bank) -> None:
    tenant = await bank.tenant()
    async with bank.running() as one, bank.running() as other:
        for _ in range(5):
            # The tenant is well known, its new session is not.
            escrows = (one, other)
            for escrow in escrows:
                escrow.release(await escrow.reserve(tenant, amount(100)), "nothing")
            spender = a_session(tenant)
            await bank.budget(spender, "session", 100)
            results = await asyncio.gather(
                *(escrow.reserve(spender, amount(60)) for escrow in escrows),
                return_exceptions=True,
            )
            (call,) = [each for each in results if isinstance(each, Reservation)]
            (refusal,) = [each for each in results if not isinstance(each, Reservation)]
            assert isinstance(refusal, BudgetExhausted)
            for escrow in escrows:
                with suppress(ReservationEnded):
                    escrow.settle(call, finished(60))
    await bank.check()


async def test_what_is_known_of_sessions_is_forgotten(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teller, "FRESH_SECONDS", 0.05)
    monkeypatch.setattr(teller, "_TICK_SECONDS", 0.05)
    tenant = await bank.tenant()
    async with bank.running() as escrow:
        for _ in range(20):
            escrow.release(await escrow.reserve(a_session(tenant), amount(1)), "nothing")

        async def forgotten() -> bool:
            return not escrow._drawer.uncapped and not escrow._drawer._groups

        await until(forgotten)
    await bank.check()
