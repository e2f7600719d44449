"""A thousand calls, many processes, some of them killed: never a micro-unit over a cap."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.conftest import Engines
from tests.tenancy.ledger.conftest import Bank
from tests.tenancy.ledger.spending import Spending

from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from agentos.tenancy.ledger.calls import Spender
from agentos.tenancy.ledger.recovery import recover

ROOT = Path(__file__).parents[3]
CAPS = {"tenant": 19_000, "team": 6_500, "session": 5_000}
TOKENS = 5_000
SLOTS = 60


class Spenders:
    """Processes that spend, and what they said they had booked."""

    def __init__(self, plan: Spending):
        self._plan = plan
        self.booked: set[UUID] = set()
        self._up: set[asyncio.subprocess.Process] = set()
        self._of_each: dict[asyncio.subprocess.Process, int] = {}
        self.said = asyncio.Condition()
        self.errors = b""

    @asynccontextmanager
    async def run(self, seed: int) -> AsyncIterator[asyncio.subprocess.Process]:
        plan = msgspec.structs.replace(self._plan, seed=seed)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.tenancy.ledger.spending",
            msgspec.json.encode(plan),
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        reader = asyncio.create_task(self._read(process))
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await reader
            assert process.stderr is not None
            self.errors += await process.stderr.read()
            await process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            word = line.decode().strip()
            async with self.said:
                if word == "up":
                    self._up.add(process)
                elif word != "done":
                    self.booked.add(UUID(word))
                    self._of_each[process] = self._of_each.get(process, 0) + 1
                self.said.notify_all()

    async def start(self, *processes: asyncio.subprocess.Process) -> None:
        """Lets processes spend, at the same time."""
        async with self.said:
            await self.said.wait_for(lambda: self._up.issuperset(processes))
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")

    async def kill_when_booked(
        self, calls: int, candidates: list[asyncio.subprocess.Process]
    ) -> asyncio.subprocess.Process:
        """Kills the first process that has booked so many calls."""

        def busy() -> list[asyncio.subprocess.Process]:
            return [one for one in candidates if self._of_each.get(one, 0) >= calls]

        async with self.said:
            await self.said.wait_for(busy)
        victim = busy()[0]
        candidates.remove(victim)
        victim.send_signal(signal.SIGKILL)
        return victim


@asynccontextmanager
async def watched(superuser: asyncpg.Connection[Any]) -> AsyncIterator[list[asyncpg.Record]]:
    """Looks at all accounts all the time; yields what was found over its cap."""
    over: list[asyncpg.Record] = []
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            over.extend(
                await superuser.fetch(
                    """select a.*, b.cap_micros from accounts a
                       left join budgets b using (tenant_id, scope, subject_id)
                       where spent_micros + held_micros > b.cap_micros
                          or (a.scope = 'tenant'
                              and (spent_tokens + held_tokens > $1 or held_calls > $2))""",
                    TOKENS,
                    SLOTS,
                )
            )
            looks += 1
            await asyncio.sleep(0.002)

    task = asyncio.create_task(look())
    try:
        yield over
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert looks > 10


async def plan_for(bank: Bank, engines: Engines, database: str, *, in_steps: bool) -> Spending:
    spender = await bank.tenant(plan="pro", tokens_per_month=TOKENS, concurrent_model_calls=SLOTS)
    teams, sessions = [uuid7(), uuid7()], [uuid7(), uuid7(), uuid7()]
    await bank.budget(spender, "tenant", CAPS["tenant"])
    for team in teams:
        await bank.budget(Spender(spender.tenant_id, team_id=team), "team", CAPS["team"])
    for session in sessions:
        await bank.budget(
            Spender(spender.tenant_id, session_id=session), "session", CAPS["session"]
        )
    return Spending(
        dsn=engines.dsn(PLATFORM_ROLE, database),
        step_dsn=engines.dsn(RUNTIME_ROLE, database) if in_steps else None,
        directory=str(bank.directory),
        tenant_id=spender.tenant_id,
        teams=teams,
        sessions=sessions,
        seed=0,
        calls=500,
        at_once=500,
        dearest=120,
    )


@asynccontextmanager
async def recovering(bank: Bank) -> AsyncIterator[None]:
    """Recovers what the killed left behind while others go on."""

    async def recover_again_and_again() -> None:
        while True:
            await recover(bank.directory, bank.platform_db, Outbox(lambda: None), bank.clock)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(recover_again_and_again())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def recovered(bank: Bank) -> None:
    await recover(bank.directory, bank.platform_db, Outbox(lambda: None), bank.clock)
    assert list(bank.directory.iterdir()) == []


async def check_all_booked(bank: Bank, booked: set[UUID]) -> None:
    rows = await bank.superuser.fetch("select id from model_calls")
    assert booked <= {row["id"] for row in rows}
    settled = await bank.superuser.fetch("select call_id from ledger_entries where kind = 'settle'")
    assert booked <= {row["call_id"] for row in settled}


@pytest.mark.parametrize(("seed", "in_steps"), [(3, False), (1871, True), (1905, True)])
async def test_processes_are_killed_and_no_budget_is_overrun(
    bank: Bank,
    engines: Engines,
    database: str,
    superuser: asyncpg.Connection[Any],
    seed: int,
    in_steps: bool,
) -> None:
    chance = random.Random(seed)
    spenders = Spenders(await plan_for(bank, engines, database, in_steps=in_steps))
    watch = await asyncpg.connect(engines.dsn("postgres", database))
    async with asyncio.timeout(60), watched(watch) as over:
        async with (
            recovering(bank),
            spenders.run(seed) as first,
            spenders.run(seed + 1) as second,
            spenders.run(seed + 2) as third,
        ):
            await spenders.start(first, second, third)
            going = [first, second, third]
            victim = await spenders.kill_when_booked(chance.randint(1, 60), going)
            async with spenders.run(seed + 3) as fourth:
                await spenders.kill_when_booked(chance.randint(60, 120), going)
                await spenders.start(fourth)
                assert await going[0].wait() == 0
                assert await fourth.wait() == 0
        await recovered(bank)
    await watch.close()
    assert over == []
    await bank.check()
    await check_all_booked(bank, spenders.booked)
    assert victim.returncode == -signal.SIGKILL
    # The test means something: budgets were used up, and calls died with their process.
    assert await superuser.fetchval("select count(*) from accounts where exhausted_at is not null")
    assert await superuser.fetchval(
        "select count(*) from ledger_entries where reason = 'owner died'"
    )
    assert spenders.errors.decode() == ""
    # Locks are taken in one order.
    assert not await superuser.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )


@pytest.mark.parametrize("in_steps", [False, True])
async def test_lost_connections_lose_and_double_nothing(
    bank: Bank,
    engines: Engines,
    database: str,
    superuser: asyncpg.Connection[Any],
    in_steps: bool,
) -> None:
    chance = random.Random(5)
    spenders = Spenders(await plan_for(bank, engines, database, in_steps=in_steps))
    watch = await asyncpg.connect(engines.dsn("postgres", database))
    async with asyncio.timeout(60), watched(watch) as over:
        async with recovering(bank), spenders.run(5) as first, spenders.run(6) as second:
            await spenders.start(first, second)
            cuts = 0
            while cuts < 20 and None in (first.returncode, second.returncode):
                cuts += await superuser.fetchval(
                    """select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where application_name = 'spending' and state <> 'idle'"""
                )
                await asyncio.sleep(chance.random() * 0.1)
            assert cuts
            await asyncio.gather(first.wait(), second.wait())
            assert (first.returncode, second.returncode) == (0, 0)
        await recovered(bank)
    await watch.close()
    assert over == []
    await bank.check()
    await check_all_booked(bank, spenders.booked)
    assert len(spenders.booked) > 100
