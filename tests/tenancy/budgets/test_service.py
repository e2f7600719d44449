"""What a new cap means for an account that is nearly or wholly used up, and what is announced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import TenantWork

from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.budgets import service
from agentos.tenancy.budgets.schemas import BudgetPut, BudgetRead

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Setting:
    """A session with an account, whose cap is set as users set it."""

    tenant_work: TenantWork
    superuser: asyncpg.Connection[Any]
    tenant_id: UUID
    session_id: UUID

    async def set(self, cap_micros: int) -> tuple[BudgetRead, list[str]]:
        """The budget after the change, and the types of the events it caused."""
        body = BudgetPut(scope="session", subject_id=self.session_id, cap_micros=cap_micros)
        async with self.tenant_work(tenant=self.tenant_id) as work:
            budget = await service.set_budget(work, body)
        return budget, await self.announced()

    async def remove(self, budget_id: UUID) -> list[str]:
        async with self.tenant_work(tenant=self.tenant_id) as work:
            await service.remove_budget(work, budget_id)
        return await self.announced()

    async def announced(self) -> list[str]:
        rows = await self.superuser.fetch("select type, data from outbox order by position")
        await self.superuser.execute("delete from outbox")
        return [row["type"] for row in rows]

    async def account(
        self, *, spent: int, held: int = 0, warned: bool = False, exhausted: bool = False
    ) -> None:
        await self.superuser.execute(
            """insert into accounts as a (tenant_id, scope, subject_id, period, spent_micros,
                   held_micros, warned_at, exhausted_at)
               values ($1, 'session', $2, '1970-01-01', $3, $4, $5, $6)
               on conflict (tenant_id, scope, subject_id, period) do update
               set spent_micros = $3, held_micros = $4, warned_at = $5, exhausted_at = $6""",
            self.tenant_id,
            self.session_id,
            spent,
            held,
            EARLIER if warned else None,
            EARLIER if exhausted else None,
        )

    async def flags(self) -> tuple[bool, bool]:
        """Whether the account is marked as warned of, and as exhausted."""
        row = await self.superuser.fetchrow(
            "select warned_at, exhausted_at from accounts where subject_id = $1", self.session_id
        )
        assert row is not None
        return row["warned_at"] is not None, row["exhausted_at"] is not None


@pytest.fixture
async def setting(tenant_work: TenantWork, superuser: asyncpg.Connection[Any]) -> Setting:
    async with tenant_work() as work:
        return Setting(tenant_work, superuser, work.tenant_id, uuid7())


async def test_setting_it_again_changes_and_announces_nothing(setting: Setting) -> None:
    budget, events = await setting.set(100)
    assert events == ["budget.set"]
    await setting.account(spent=100, warned=True, exhausted=True)
    again, events = await setting.set(100)
    assert (again.id, again.updated_at, events) == (budget.id, budget.updated_at, [])
    assert await setting.flags() == (True, True)
    assert await setting.superuser.fetchval("select count(*) from audit_log") == 1


async def test_a_cap_lowered_to_what_is_nearly_spent_warns_at_once(setting: Setting) -> None:
    await setting.set(1000)
    await setting.account(spent=80)
    budget, events = await setting.set(101)
    assert (budget.state, events) == ("open", ["budget.set"])
    budget, events = await setting.set(100)
    assert (budget.state, events) == ("warned", ["budget.set", "budget.warned"])
    # Said once; only the escrow says that it is exhausted, when it refuses a call.
    budget, events = await setting.set(80)
    assert (budget.state, budget.remaining_micros, events) == ("exhausted", 0, ["budget.set"])
    assert await setting.flags() == (True, False)
    budget, events = await setting.set(10)
    assert (budget.percent, events) == (800, ["budget.set"])


async def test_a_first_cap_warns_too(setting: Setting) -> None:
    await setting.account(spent=90)
    budget, events = await setting.set(100)
    assert (budget.state, events) == ("warned", ["budget.set", "budget.warned"])


@pytest.mark.parametrize(
    ("cap", "state", "flags", "events"),
    [
        (200, "open", (False, False), ["budget.set", "budget.resumed"]),
        (110, "warned", (True, False), ["budget.set", "budget.resumed"]),
        # Raised, but not above what is spent: there is no room yet.
        (101, "exhausted", (True, True), ["budget.set"]),
        (50, "exhausted", (True, True), ["budget.set"]),
    ],
)
async def test_raising_an_exhausted_cap_resumes(
    setting: Setting, cap: int, state: str, flags: tuple[bool, bool], events: list[str]
) -> None:
    await setting.set(100)
    await setting.announced()
    await setting.account(spent=101, held=500, warned=True, exhausted=True)
    budget, announced = await setting.set(cap)
    assert (budget.state, await setting.flags(), announced) == (state, flags, events)


async def test_lowering_an_exhausted_cap_does_not_resume(setting: Setting) -> None:
    await setting.set(1000)
    await setting.announced()
    await setting.account(spent=10, exhausted=True)
    budget, events = await setting.set(900)
    assert (budget.state, events) == ("exhausted", ["budget.set"])
    assert await setting.flags() == (False, True)


async def test_removing_a_cap_clears_what_was_said(setting: Setting) -> None:
    budget, _ = await setting.set(100)
    await setting.account(spent=100, warned=True, exhausted=True)
    assert await setting.remove(budget.id) == ["budget.removed", "budget.resumed"]
    assert await setting.flags() == (False, False)

    budget, _ = await setting.set(1000)
    assert await setting.remove(budget.id) == ["budget.removed"]


async def test_what_the_events_and_the_audit_log_say(setting: Setting) -> None:
    await setting.account(spent=85)
    await setting.set(100)
    budget, _ = await setting.set(90)
    await setting.account(spent=85, warned=True, exhausted=True)
    body = BudgetPut(scope="session", subject_id=setting.session_id, cap_micros=300)
    async with setting.tenant_work(tenant=setting.tenant_id) as work:
        await service.set_budget(work, body)
    data = await setting.superuser.fetch("select data from outbox order by position")
    subject = f'"subject_id": "{setting.session_id}"'
    assert all(subject in row["data"] and '"scope": "session"' in row["data"] for row in data)
    assert all('"cap_micros": 300' in row["data"] for row in data)
    await setting.remove(budget.id)
    log = await setting.superuser.fetch(
        "select action, target_id, before->>'cap_micros' as before, after->>'cap_micros' as after "
        "from audit_log order by id"
    )
    assert [tuple(row) for row in log] == [
        ("budget.set", str(budget.id), None, "100"),
        ("budget.set", str(budget.id), "100", "90"),
        ("budget.set", str(budget.id), "90", "300"),
        ("budget.removed", str(budget.id), "300", None),
    ]


async def test_a_new_month_resumes_once(
    setting: Setting, tenant_work: TenantWork, platform_db: Database
) -> None:
    teams = {name: uuid7() for name in ("capped", "capped at nothing", "uncapped", "not paused")}
    caps = {"capped": 100, "capped at nothing": 0, "not paused": 100}
    for name, cap in caps.items():
        async with tenant_work(tenant=setting.tenant_id) as work:
            body = BudgetPut(scope="team", subject_id=teams[name], cap_micros=cap)
            await service.set_budget(work, body)
    await setting.set(100)
    await setting.account(spent=100, exhausted=True)
    await setting.announced()
    for name, team in teams.items():
        await setting.superuser.execute(
            """insert into accounts (tenant_id, scope, subject_id, period, exhausted_at)
               values ($1, 'team', $2, '2026-01-01', $3)""",
            setting.tenant_id,
            team,
            None if name == "not paused" else EARLIER,
        )
    clock, outbox = MovableClock(datetime(2026, 1, 31, 23, 59, tzinfo=UTC)), Outbox(lambda: None)
    assert await service.resume_in_new_month(platform_db, outbox, clock) == 0
    clock.advance(timedelta(minutes=1))
    counts = await asyncio.gather(
        *(service.resume_in_new_month(platform_db, outbox, clock) for _ in range(3))
    )
    assert sum(counts) == 1
    row = await setting.superuser.fetchrow("select type, data from outbox")
    assert row is not None
    assert (row["type"], str(teams["capped"]) in row["data"]) == ("budget.resumed", True)
    # A session's budget knows no months.
    assert await setting.flags() == (False, True)


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_four_fifths_are_compared_exactly(spent: int, cap: int) -> None:
    assert service.is_nearly_spent(spent, cap) == (spent > 0 and 5 * spent >= 4 * cap)
