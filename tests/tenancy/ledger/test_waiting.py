"""Calls of a steady load do not wait, and what processes hold ahead keeps nothing from others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.tenancy.ledger.conftest import Bank, amount, finished, until

from agentos.kernel.ids import uuid7
from agentos.tenancy.ledger.calls import Amount, Spender
from agentos.tenancy.ledger.drawer import Drawer, Group, Takes
from agentos.tenancy.ledger.errors import BudgetExhausted
from agentos.tenancy.ledger.escrow import Escrow

Wait = Callable[[Drawer, Spender, Amount], Awaitable[tuple[Group, Takes]]]


class Waits:
    """Counts the calls that had to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.count = 0
        wait: Wait = Drawer.wait

        async def counted(drawer: Drawer, spender: Spender, worst: Amount) -> tuple[Group, Takes]:
            self.count += 1
            return await wait(drawer, spender, worst)

        monkeypatch.setattr(Drawer, "wait", counted)


async def calls(escrow: Escrow, spender: Spender, count: int, *, worst: int, cost: int) -> None:
    for _ in range(count):
        reservation = await escrow.reserve(spender, Amount(worst, 50))
        await asyncio.sleep(0.005)
        escrow.settle(reservation, finished(cost, tokens=20))


@pytest.mark.parametrize(("worst", "cost"), [(2_000, 30), (2_000, 2_000)])
async def test_a_steady_load_is_served_without_waiting(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, worst: int, cost: int
) -> None:
    tenant = await bank.tenant(plan="pro", tokens_per_month=10**12, concurrent_model_calls=10_000)
    spender = Spender(tenant.tenant_id, uuid7(), uuid7())
    for scope in ("tenant", "team", "session"):
        await bank.budget(spender, scope, 10**11)
    waits = Waits(monkeypatch)

    async def load(count: int) -> None:
        await asyncio.gather(
            *(calls(escrow, spender, count, worst=worst, cost=cost) for _ in range(20))
        )

    async with bank.running() as escrow:
        await load(60)
        # The first ones had to.
        assert waits.count >= 20
        waits.count = 0
        await load(150)
    # A machine that stands still for a second makes a few wait.
    assert waits.count <= 40, "of 3,000 calls"
    await bank.check()


async def test_a_pot_is_filled_before_a_call_needs_it(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 1_000_000)
    waits = Waits(monkeypatch)
    async with bank.running() as escrow:
        open_calls = [await escrow.reserve(spender, amount(100))]
        pot = escrow._drawer.group(spender).holds[0].micros
        ahead = pot.free
        while not escrow._drawer.something_is_low:
            open_calls.append(await escrow.reserve(spender, amount(100)))

        async def filled() -> bool:
            return pot.free > ahead

        await until(filled)
        assert waits.count == 1
        for call in open_calls:
            escrow.settle(call, finished(100))
    await bank.check()


async def test_what_is_held_ahead_goes_back_when_the_load_ends(bank: Bank) -> None:
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", 10_000_000)
    async with bank.running() as escrow:
        await asyncio.gather(*(calls(escrow, spender, 5, worst=50, cost=50) for _ in range(10)))
        assert (await bank.account(spender))["held_micros"] > 0

        async def all_back() -> bool:
            return bool((await bank.account(spender))["held_micros"] == 0)

        await until(all_back)
    await bank.check()


@pytest.mark.parametrize("seed", [1, 2])
async def test_two_processes_share_a_budget_to_the_last_micro_dollar(bank: Bank, seed: int) -> None:
    cap = 3_000
    spender = await bank.tenant()
    await bank.budget(spender, "tenant", cap)
    chance = random.Random(seed)
    over: list[int] = []

    async def spend(escrow: Escrow) -> None:
        largest = 40
        while True:
            worst = chance.randint(1, largest)
            try:
                reservation = await escrow.reserve(spender, amount(worst))
            except BudgetExhausted:
                if worst == 1:
                    return
                largest = 1
                continue
            await asyncio.sleep(chance.random() * 0.01)
            escrow.settle(reservation, finished(worst))

    async def watch() -> None:
        while True:
            account = await bank.account(spender)
            total = account.get("spent_micros", 0) + account.get("held_micros", 0)
            if total > cap:
                over.append(total)
            await asyncio.sleep(0.002)

    async with bank.running() as one, bank.running() as other:
        watching = asyncio.create_task(watch())
        await asyncio.gather(*(spend(escrow) for escrow in (one, other) for _ in range(4)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert over == []
    assert (await bank.account(spender))["spent_micros"] == cap
    await bank.check()
