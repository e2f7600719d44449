"""What the escrow promises to those who make calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.tenancy.ledger.conftest import Bank, amount, finished, until

from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.ledger import holds, teller
from agentos.tenancy.ledger.calls import Amount, Reservation, Spender
from agentos.tenancy.ledger.errors import (
    BudgetExhausted,
    PriceUnknown,
    TokensExhausted,
    TooManyCalls,
)
from agentos.tenancy.ledger.escrow import Escrow, ReservationEnded, overruns


async def refused(
    escrow: Escrow, spender: Spender, worst: Amount, error: type[BaseException]
) -> None:
    """Asks until the answer is no: what others set is respected after a moment."""
    async with asyncio.timeout(10):
        while True:
            try:
                escrow.release(await escrow.reserve(spender, worst), "asked in vain")
            except error:
                return
            await asyncio.sleep(0.05)


async def granted(escrow: Escrow, spender: Spender, worst: Amount) -> Reservation:
    """Asks until the answer is yes."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await escrow.reserve(spender, worst)
            except BudgetExhausted:
                await asyncio.sleep(0.05)


async def test_a_settled_call_is_in_every_book(bank: Bank) -> None:
    tenant = await bank.tenant(plan="pro")
    spender = Spender(tenant.tenant_id, uuid7(), uuid7())
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, Amount(1_000, 50))
        call = finished(101, tokens=30, cache_read_tokens=4, reasoning_tokens=2)
        escrow.settle(reservation, call)
    reserve, settle = await bank.entries(reservation)
    assert (reserve["kind"], reserve["held_micros"], reserve["held_tokens"]) == (
        "reserve",
        1_000,
        50,
    )
    assert (settle["kind"], settle["held_micros"], settle["held_tokens"]) == ("settle", -1_000, -50)
    assert (settle["spent_micros"], settle["spent_tokens"]) == (101, 30)
    for entry in (reserve, settle):
        assert (entry["team_id"], entry["session_id"]) == (spender.team_id, spender.session_id)
        assert entry["period"] == datetime.now(UTC).date().replace(day=1)
    for scope in ("tenant", "team", "session"):
        account = await bank.account(spender, scope)
        assert (account["spent_micros"], account["spent_tokens"]) == (101, 30)
    assert (await bank.account(spender, "session"))["period"] == date(1970, 1, 1)
    row = await bank.superuser.fetchrow("select * from model_calls")
    assert row is not None
    assert row["id"] == reservation.call_id
    assert (row["cost_micros"], row["rated_micros"]) == (101, 117)
    assert (row["model"], row["cache_read_tokens"], row["reasoning_tokens"]) == ("acme-1", 4, 2)
    day = await bank.superuser.fetchrow("select * from usage_days")
    assert day is not None
    assert (day["calls"], day["cost_micros"], day["rated_micros"]) == (1, 101, 117)
    assert (day["team_id"], day["session_id"]) == (spender.team_id, spender.session_id)
    await bank.check()


async def test_days_add_up_and_tell_failed_and_unpriced_calls(bank: Bank) -> None:
    spender = await bank.tenant()
    async with bank.running() as escrow:
        for call in (
            finished(10),
            finished(20),
            finished(0, outcome="failed", error_class="overload"),
            finished(None),
        ):
            escrow.settle(await escrow.reserve(spender, amount(50)), call)
            await escrow.flush()
    day = await bank.superuser.fetchrow("select * from usage_days")
    assert day is not None
    assert (day["calls"], day["failed_calls"], day["unpriced_calls"]) == (4, 1, 1)
    assert day["cost_micros"] == 30
    unpriced = await bank.superuser.fetchrow("select * from model_calls where cost_micros is null")
    assert unpriced is not None
    assert unpriced["rated_micros"] is None
    await bank.check()


async def test_a_released_call_leaves_no_trace_but_its_chain(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, amount(100))
        escrow.release(reservation, "upstream refused")
        escrow.release(await escrow.reserve(spender, amount(100)), "again")
    assert (await bank.entries(reservation))[1]["reason"] == "upstream refused"
    assert (await bank.account(spender))["spent_micros"] == 0
    assert await bank.superuser.fetchval("select count(*) from model_calls") == 0
    await bank.check()


async def test_the_last_micro_dollar_can_be_used_and_no_more(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    async with bank.running() as escrow:
        for worst in (60, 39, 1):
            escrow.settle(await escrow.reserve(spender, amount(worst)), finished(worst))
        for _ in range(2):
            with pytest.raises(BudgetExhausted) as refusal:
                await escrow.reserve(spender, amount(1))
        # What costs nothing is not kept from anybody.
        escrow.settle(await escrow.reserve(spender, amount(0)), finished(0))
    assert refusal.value.details == {
        "scope": "tenant",
        "subject_id": spender.tenant_id,
        "cap_micros": 100,
        "spent_micros": 100,
    }
    assert (await bank.account(spender))["exhausted_at"] is not None
    facts = {"scope": "tenant", "subject_id": str(spender.tenant_id), "cap_micros": 100}
    assert await bank.events("budget.exhausted") == [facts | {"spent_micros": 100}]
    await bank.check()


async def test_what_runs_counts_at_its_worst(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    async with bank.running() as escrow:
        first = await escrow.reserve(spender, amount(70))
        with pytest.raises(BudgetExhausted) as refusal:
            await escrow.reserve(spender, amount(31))
        assert refusal.value.details["spent_micros"] == 0
        waiting = asyncio.create_task(escrow.reserve(spender, amount(90)))
        await asyncio.sleep(0.2)
        escrow.settle(first, finished(10))
        escrow.release(await waiting, "had its room")
    await bank.check()


@pytest.mark.parametrize("scope", ["team", "session"])
async def test_a_call_has_room_in_all_its_budgets_or_in_none(bank: Bank, scope: str) -> None:
    tenant = await bank.tenant()
    spender = Spender(tenant.tenant_id, uuid7(), uuid7())
    await bank.budget(spender, "tenant", 1_000)
    await bank.budget(spender, scope, 10)
    async with bank.running() as escrow:
        with pytest.raises(BudgetExhausted) as refusal:
            await escrow.reserve(spender, amount(11))
        assert refusal.value.details["scope"] == scope
        assert await bank.held() == 0
        everything = await escrow.reserve(tenant, amount(1_000))
        escrow.release(everything, "it was all there")
    await bank.check()


async def test_the_warning_comes_once_at_four_fifths(bank: Bank) -> None:
    tenant = await bank.tenant()
    spender = Spender(tenant.tenant_id, session_id=uuid7())
    await bank.budget(spender, "session", 100)
    async with bank.running() as escrow:
        escrow.settle(await escrow.reserve(spender, amount(79)), finished(79))
        await escrow.flush()
        assert await bank.events("budget.warned") == []
        for _ in range(3):
            escrow.settle(await escrow.reserve(spender, amount(1)), finished(1))
            await escrow.flush()
    (warning,) = await bank.events("budget.warned")
    assert warning == {
        "scope": "session",
        "subject_id": str(spender.session_id),
        "cap_micros": 100,
        "spent_micros": 80,
    }
    assert (await bank.account(spender, "session"))["warned_at"] is not None
    assert (await bank.account(spender))["warned_at"] is None


async def test_tokens_of_the_plan_are_a_cap_too(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro", tokens_per_month=100)
    async with bank.running() as escrow:
        escrow.settle(await escrow.reserve(spender, Amount(5, 90)), finished(1, tokens=60))
        with pytest.raises(TokensExhausted) as refusal:
            await escrow.reserve(spender, Amount(5, 41))
        assert refusal.value.details == {"allowed_tokens": 100, "spent_tokens": 60}
        escrow.release(await escrow.reserve(spender, Amount(5, 40)), "the rest")
    assert (await bank.account(spender))["exhausted_at"] is None
    await bank.check()


async def test_an_unknown_price_is_no_problem_without_a_budget(bank: Bank) -> None:
    tenant = await bank.tenant(plan="pro")
    spender = Spender(tenant.tenant_id, team_id=uuid7())
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, amount(None))
        assert reservation.micros == 0
        escrow.settle(reservation, finished(None))
        await bank.budget(spender, "team", 1_000_000)
        await refused(escrow, spender, amount(None), PriceUnknown)
        # The team's budget is nobody else's matter.
        escrow.release(await escrow.reserve(tenant, amount(None)), "fine")
    await bank.check()


async def test_another_process_gets_what_one_does_not_use(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000)
    async with bank.running() as one, bank.running() as other:
        one.settle(await one.reserve(spender, amount(100)), finished(100))
        await one.flush()
        # Taken ahead for calls that did not come.
        assert (await bank.account(spender))["held_micros"] > 0
        reservation = await other.reserve(spender, amount(900))
        other.settle(reservation, finished(900))
    assert (await bank.account(spender))["spent_micros"] == 1_000
    await bank.check()


async def test_a_budget_set_lowered_raised_and_removed_is_respected(bank: Bank) -> None:
    tenant = await bank.tenant(plan="pro")
    spender = Spender(tenant.tenant_id, session_id=uuid7())
    async with bank.running() as escrow:
        running = await escrow.reserve(spender, amount(500))
        await bank.budget(spender, "session", 100)
        await refused(escrow, spender, amount(101), BudgetExhausted)
        escrow.release(await escrow.reserve(spender, amount(100)), "fits")
        await bank.budget(spender, "session", 50)
        await refused(escrow, spender, amount(51), BudgetExhausted)
        await bank.budget(spender, "session", 200)
        escrow.release(await granted(escrow, spender, amount(200)), "fits")
        # Running since before there was a budget: it finishes, and is booked.
        escrow.settle(running, finished(199))
        await refused(escrow, spender, amount(2), BudgetExhausted)
        await bank.budget(spender, "session", None)
        escrow.release(await granted(escrow, spender, amount(10_000)), "no cap")
    await bank.check()


async def test_a_lowered_budget_takes_back_what_is_held_idle(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 10_000)
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, amount(100))
        assert (await bank.account(spender))["held_micros"] > 100
        await bank.budget(spender, "tenant", 100)

        async def taken_back() -> bool:
            return bool((await bank.account(spender))["held_micros"] <= 100)

        await until(taken_back)
        await refused(escrow, spender, amount(1), BudgetExhausted)
        escrow.settle(reservation, finished(100))
    await bank.check()


async def test_calls_get_their_turn_in_order(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro", concurrent_model_calls=2)
    turns: list[int] = []
    async with bank.running() as escrow:
        busy = [await escrow.reserve(spender, amount(1)) for _ in range(2)]

        async def call(number: int) -> None:
            reservation = await escrow.reserve(spender, amount(1))
            turns.append(number)
            await asyncio.sleep(0)
            escrow.settle(reservation, finished(1))

        calls = []
        for number in range(20):
            calls.append(asyncio.create_task(call(number)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.15)
        assert turns == []
        escrow.settle(busy[0], finished(1))
        await asyncio.gather(*calls)
        escrow.settle(busy[1], finished(1))
    assert turns == list(range(20))
    await bank.check()


async def test_who_waits_in_vain_is_told_and_leaves_nothing_behind(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro", concurrent_model_calls=1)
    async with bank.running(queue_seconds=0.2) as escrow:
        busy = await escrow.reserve(spender, amount(1))
        with pytest.raises(TooManyCalls):
            await escrow.reserve(spender, amount(1))
        waiting = [asyncio.create_task(escrow.reserve(spender, amount(1))) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert all(task.cancelled() for task in waiting)
        escrow.release(busy, "done")
        escrow.release(await escrow.reserve(spender, amount(1)), "its slot is there")
    await bank.check()


async def test_who_is_cancelled_as_the_turn_comes_passes_it_on(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro", concurrent_model_calls=1)
    async with bank.running() as escrow:
        busy = await escrow.reserve(spender, amount(1))
        first = asyncio.create_task(escrow.reserve(spender, amount(1)))
        second = asyncio.create_task(escrow.reserve(spender, amount(1)))
        await asyncio.sleep(0.15)
        escrow.release(busy, "done")
        # The slot is the first one's by now, which has not run since.
        first.cancel()
        escrow.release(await second, "done")
        with pytest.raises(asyncio.CancelledError):
            await first
    await bank.check()


async def test_who_is_cancelled_while_the_database_decides_leaves_nothing(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    for delay in range(40):
        async with bank.running() as escrow:
            asking = asyncio.create_task(escrow.reserve(spender, amount(100)))
            await asyncio.sleep(delay * 0.0003)
            asking.cancel()
            (answer,) = await asyncio.gather(asking, return_exceptions=True)
            if isinstance(answer, Reservation):
                escrow.release(answer, "was faster")
            escrow.release(await escrow.reserve(spender, amount(100)), "all of it is there")
    await bank.check()


async def test_a_tenant_that_does_not_exist_gets_no_room(bank: Bank) -> None:
    async with bank.running() as escrow:
        with pytest.raises(NotFound):
            await escrow.reserve(Spender(TenantId(uuid7())), amount(1))


async def test_a_call_ends_once(bank: Bank) -> None:
    spender = await bank.tenant()
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, amount(10))
        escrow.settle(reservation, finished(5))
        escrow.release(reservation, "in a finally, to be safe")
        with pytest.raises(ReservationEnded):
            escrow.settle(reservation, finished(5))
    assert (await bank.account(spender))["spent_micros"] == 5
    await bank.check()


async def test_a_cost_beyond_the_reservation_is_booked_as_it_is(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    before = overruns._value.get()
    async with bank.running() as escrow:
        escrow.settle(await escrow.reserve(spender, amount(50)), finished(130))
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(1))
    assert overruns._value.get() == before + 1
    assert (await bank.account(spender))["spent_micros"] == 130
    await bank.check()


async def test_a_month_has_its_own_budget_and_a_session_has_one(
    bank: Bank, clock: MovableClock
) -> None:
    bank.clock = MovableClock(datetime(2026, 12, 31, 23, 59, tzinfo=UTC))
    tenant = await bank.tenant()
    spender = Spender(tenant.tenant_id, session_id=uuid7())
    await bank.budget(spender, "tenant", 100)
    await bank.budget(spender, "session", 150)
    async with bank.running() as escrow:
        late = await escrow.reserve(spender, amount(20))
        escrow.settle(await escrow.reserve(spender, amount(80)), finished(80))
        bank.clock.advance(timedelta(minutes=2))
        escrow.settle(await escrow.reserve(spender, amount(50)), finished(50))
        with pytest.raises(BudgetExhausted) as refusal:
            await escrow.reserve(spender, amount(1))
        assert refusal.value.details["scope"] == "session"
        escrow.settle(late, finished(20))
    december = await bank.account(spender, period=date(2026, 12, 1))
    january = await bank.account(spender, period=date(2027, 1, 1))
    assert (december["spent_micros"], january["spent_micros"]) == (100, 50)
    assert (await bank.account(spender, "session"))["spent_micros"] == 150
    await bank.check()


# In the transaction of the caller


@asynccontextmanager
async def settling(
    bank: Bank, db: Database, *, cap: int = 100
) -> AsyncIterator[tuple[Escrow, Spender, Reservation]]:
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", cap)
    async with bank.running() as escrow:
        yield escrow, spender, await escrow.reserve(spender, amount(60))
    await bank.check()


async def test_a_call_can_be_booked_with_what_it_led_to(bank: Bank, db: Database) -> None:
    async with settling(bank, db) as (escrow, spender, reservation):
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            await escrow.settle_in(tx, reservation, finished(85))
            assert await tx.value("select count(*) from model_calls") == 1
        assert (await bank.account(spender))["spent_micros"] == 85
        with pytest.raises(ReservationEnded):
            escrow.settle(reservation, finished(85))
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(16))
        escrow.settle(await escrow.reserve(spender, amount(15)), finished(15))
    assert len(await bank.events("budget.warned")) == 1


async def test_a_booking_that_rolled_back_can_be_made_again(bank: Bank, db: Database) -> None:
    async with settling(bank, db) as (escrow, spender, reservation):
        with suppress(ZeroDivisionError):
            async with db.transaction(tenant_id=spender.tenant_id) as tx:
                await escrow.settle_in(tx, reservation, finished(60))
                raise ZeroDivisionError
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(41))
        escrow.settle(reservation, finished(30))
        escrow.settle(await granted(escrow, spender, amount(70)), finished(70))
    assert (await bank.account(spender))["spent_micros"] == 100


@pytest.mark.parametrize("then", ["settle", "release"])
async def test_a_booking_whose_commit_got_no_answer_counts_once(
    bank: Bank, db: Database, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    async with settling(bank, db) as (escrow, spender, reservation):
        async with db.transaction(tenant_id=spender.tenant_id) as tx:
            # As if the connection broke in the middle of the commit, which went through.
            monkeypatch.setattr(tx, "after_commit", lambda action: None)
            await escrow.settle_in(tx, reservation, finished(60))
        if then == "settle":
            escrow.settle(reservation, finished(60))
        else:
            escrow.release(reservation, "who knows")
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, amount(41))
        escrow.settle(await escrow.reserve(spender, amount(40)), finished(40))
    assert (await bank.account(spender))["spent_micros"] == 100


# Holds that others took away


async def take_away_holds(superuser: asyncpg.Connection[Any]) -> None:
    await superuser.execute(
        "delete from holds; update accounts set held_micros = 0, held_tokens = 0, held_calls = 0"
    )


async def test_a_process_that_stood_still_too_long_hands_out_nothing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", 1_000)
    async with bank.running() as still:
        before = await still.reserve(spender, amount(100))
        async with still._teller.at_work, still._poster.desk:  # its loops stand still
            await take_away_holds(bank.superuser)
            async with bank.running() as other:
                other.settle(await other.reserve(spender, amount(1_000)), finished(1_000))
            # Time passes: what was known is no longer trusted.
            for hold in still._drawer.holds.values():
                hold.fresh_until = 0.0
        with pytest.raises(BudgetExhausted):
            await still.reserve(spender, amount(1))
        await bank.budget(spender, "tenant", 2_000)
        after = await granted(still, spender, amount(500))
        # Booked late, over what is now another's; the new hold is not touched by it.
        still.settle(before, finished(100))
        await still.flush()
        account = await bank.account(spender)
        assert account["spent_micros"] == 1_100
        assert account["held_micros"] >= 500
        with pytest.raises(BudgetExhausted):
            await still.reserve(spender, amount(401))
        still.settle(after, finished(500))
    await bank.check()


async def test_holds_are_renewed_while_their_owner_lives(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teller, "_RENEW_SECONDS", 0.0)
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 100)
    async with bank.running() as escrow:
        reservation = await escrow.reserve(spender, amount(100))
        await bank.superuser.execute("update holds set expires_at = now()")

        async def renewed() -> bool:
            return bool(
                await bank.superuser.fetchval(
                    "select count(*) from holds where expires_at > now() + interval '50 s'"
                )
            )

        await until(renewed)
        escrow.settle(reservation, finished(100))
    await bank.check()


async def test_an_account_that_was_rolled_back_is_opened_again(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise it is not there to be locked, and another process could get the same room.
    spender = await bank.tenant(plan="pro")
    opened: list[int] = []
    real_open, real_grow = holds.open_accounts, holds.grow

    async def open_accounts(tx: Any, accounts: Any) -> None:
        opened.append(len(accounts))
        await real_open(tx, accounts)

    async def grow(tx: Any, owner: Any, moves: Any) -> None:
        if len(opened) == 1:
            raise ConnectionResetError
        await real_grow(tx, owner, moves)

    monkeypatch.setattr(holds, "open_accounts", open_accounts)
    monkeypatch.setattr(holds, "grow", grow)
    async with bank.running() as escrow:
        escrow.release(await escrow.reserve(spender, amount(1)), "nothing")
        escrow.release(await escrow.reserve(spender, amount(1)), "nothing")
    assert opened == [1, 1]
