"""What the books say after a call, and what a tenant's plan allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
from tests.gateway.ai.conftest import Lab

from agentos.kernel.database import Database

# Much longer than anything here takes; only what never comes is not there by then.
PATIENCE = 15


async def eventually(true: Callable[[], Awaitable[bool]]) -> None:
    """Returns once it is true. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not await true():  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.02)


async def finished_calls(lab: Lab, count: int) -> list[dict[str, Any]]:
    """The calls of a tenant, once there are so many."""
    calls: list[dict[str, Any]] = []

    async def are_there() -> bool:
        calls[:] = await lab.calls()
        return len(calls) >= count

    await eventually(are_there)
    assert len(calls) == count
    return calls


async def nothing_is_held(superuser: asyncpg.Connection[Any], lab: Lab) -> None:
    """Waits until no process holds anything, and checks that every call's chain has one end."""
    await lab.gateway.models.router.escrow.flush()
    tenant_id = lab.person.tenant_id
    open_chains = await superuser.fetchval(
        """select count(*) from (select call_id from ledger_entries where tenant_id = $1
           group by call_id having sum(held_micros) <> 0 or sum(held_tokens) <> 0
                              or count(*) <> 2) as chains""",
        tenant_id,
    )
    assert open_chains == 0

    async def is_given_back() -> bool:
        held: int | None = await superuser.fetchval(
            """select sum(held_micros + held_tokens + held_calls) from accounts
               where tenant_id = $1""",
            tenant_id,
        )
        return held == 0

    await eventually(is_given_back)


async def agree(platform_db: Database, tenant_id: UUID, **limits: int) -> None:
    """Gives one tenant limits of its own."""
    async with platform_db.transaction() as tx:
        await tx.execute("update tenants set limits = $2 where id = $1", tenant_id, limits)


async def cap(lab: Lab, micros: int, scope: str = "tenant", subject: UUID | None = None) -> str:
    """Sets a budget and returns its id."""
    body: dict[str, Any] = {"scope": scope, "cap_micros": micros}
    if subject is not None:
        body["subject_id"] = str(subject)
    answer = await lab.person.client.put("/api/budgets", json=body)
    assert answer.status_code == 200, answer.text
    budget_id: str = answer.json()["id"]
    return budget_id


async def price(lab: Lab, provider: str, model: str, **rates: int) -> None:
    """Sets a tenant's own price, in micro-dollars for a million tokens."""
    body = {"provider": provider, "model": model, **rates}
    answer = await lab.person.client.put("/api/models/prices", json=body)
    assert answer.status_code == 200, answer.text
