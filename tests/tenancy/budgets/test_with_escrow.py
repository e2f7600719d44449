"""Budgets and the escrow together: refused at the cap, resumed by raising it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.budgets import service
from agentos.tenancy.budgets.schemas import BudgetPut, BudgetRead
from agentos.tenancy.ledger.calls import Amount, Spender
from agentos.tenancy.ledger.errors import BudgetExhausted
from agentos.tenancy.ledger.escrow import Escrow


async def test_a_call_refused_at_the_cap_goes_through_when_it_is_raised(
    tenant_work: TenantWork,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    tmp_path: Path,
) -> None:
    async with tenant_work(plan="enterprise") as work:
        tenant_id = work.tenant_id
    spender, worst = Spender(tenant_id, session_id=uuid7()), Amount(600, 10)

    async def set_cap(micros: int) -> BudgetRead:
        body = BudgetPut(scope="session", subject_id=spender.session_id, cap_micros=micros)
        async with tenant_work(tenant=tenant_id) as work:
            return await service.set_budget(work, body)

    async def read(budget_id: UUID) -> BudgetRead:
        async with tenant_work(tenant=tenant_id) as work:
            return await service.read_budget(work, budget_id)

    budget = await set_cap(500)
    escrow = Escrow(platform_db, Outbox(lambda: None), SystemClock(), tmp_path, 0.0)
    async with escrow.running():
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, worst)
        assert (await read(budget.id)).state == "exhausted"
        assert (await set_cap(600)).state == "open"
        escrow.release(await escrow.reserve(spender, worst), "test")
        larger = Amount(601, 10)
        with pytest.raises(BudgetExhausted):
            await escrow.reserve(spender, larger)
        async with tenant_work(tenant=tenant_id) as work:
            await service.remove_budget(work, budget.id)
        escrow.release(await escrow.reserve(spender, larger), "test")

    types = await superuser.fetch("select type from outbox order by position")
    assert [row["type"] for row in types] == [
        "budget.set",
        "budget.exhausted",
        "budget.set",
        "budget.resumed",
        "budget.exhausted",
        "budget.removed",
        "budget.resumed",
    ]
