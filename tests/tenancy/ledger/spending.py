"""A process that makes random calls against an escrow, for tests that kill it.

Says `up` when it is ready, waits for a line, then says the id of each call after `settle` has
returned, or the transaction it was settled in has committed, then `done`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec
from tests.tenancy.ledger.conftest import finished

from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.errors import Unavailable
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.logs import configure_logging
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.errors import BudgetExhausted, TokensExhausted, TooManyCalls
from agentos.tenancy.ledger.escrow import Escrow, ReservationEnded


class Spending(msgspec.Struct):
    dsn: str
    # Of the role that steps are written as. None: calls are settled without a step.
    step_dsn: str | None
    directory: str
    tenant_id: UUID
    teams: list[UUID]
    sessions: list[UUID]
    seed: int
    calls: int
    at_once: int
    dearest: int


def say(word: str) -> None:
    # One write: a process that is killed says a whole line or nothing.
    os.write(1, word.encode() + b"\n")


async def reserve(escrow: Escrow, spender: Spender, worst: Amount) -> Reservation:
    """Keeps asking while the database is away."""
    while True:
        try:
            return await escrow.reserve(spender, worst)
        except Unavailable:
            await asyncio.sleep(0.02)


async def settle(
    escrow: Escrow, steps: Database | None, reservation: Reservation, end: FinishedCall
) -> None:
    """As a step of a session does it, if there are steps."""
    if steps is None:
        escrow.settle(reservation, end)
        return
    try:
        await settle_in(escrow, steps, reservation, end)
    except BaseException:
        with suppress(ReservationEnded):
            escrow.settle(reservation, end)
        raise


async def settle_in(
    escrow: Escrow, steps: Database, reservation: Reservation, end: FinishedCall
) -> None:
    while True:
        try:
            async with steps.transaction(tenant_id=reservation.spender.tenant_id) as tx:
                await escrow.settle_in(tx, reservation, end)
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            return


async def call(
    escrow: Escrow,
    steps: Database | None,
    spender: Spender,
    chance: random.Random,
    dearest: int,
) -> None:
    worst = chance.randint(1, dearest)
    try:
        reservation = await reserve(escrow, spender, Amount(worst, 10))
    except (BudgetExhausted, TokensExhausted, TooManyCalls):
        return
    try:
        await asyncio.sleep(chance.random() * 0.05)
    except asyncio.CancelledError:
        escrow.release(reservation, "cancelled")
        raise
    fate = chance.random()
    if fate < 0.1:
        escrow.release(reservation, "no answer")
        return
    outcome = "failed" if fate < 0.2 else "answered"
    cost = 0 if outcome == "failed" else chance.randint(0, worst)
    end = finished(cost, tokens=chance.randint(1, 10), outcome=outcome)
    await settle(escrow, steps, reservation, end)
    say(str(reservation.call_id))


async def spend(plan: Spending) -> None:
    chance = random.Random(plan.seed)
    db = await Database.connect(plan.dsn, size=4, name="spending")
    steps = None
    if plan.step_dsn is not None:
        steps = await Database.connect(plan.step_dsn, size=8, name="spending")
    escrow = Escrow(db, Outbox(lambda: None), SystemClock(), Path(plan.directory), 10)
    async with escrow.running():
        say("up")
        await asyncio.to_thread(sys.stdin.readline)
        places = asyncio.Semaphore(plan.at_once)

        async def one() -> None:
            async with places:
                spender = Spender(
                    TenantId(plan.tenant_id),
                    chance.choice([None, *plan.teams]),
                    # The last one is new, and has no budget.
                    chance.choice([None, *plan.sessions, uuid7()]),
                )
                task = asyncio.create_task(call(escrow, steps, spender, chance, plan.dearest))
                if chance.random() < 0.1:
                    await asyncio.sleep(chance.random())
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        await asyncio.gather(*(one() for _ in range(plan.calls)))
    await db.close()
    if steps is not None:
        await steps.close()
    say("done")


if __name__ == "__main__":
    configure_logging("warning", "json")
    asyncio.run(spend(msgspec.json.decode(sys.argv[1], type=Spending)))
