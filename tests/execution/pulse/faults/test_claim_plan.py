"""Claiming from a long queue reads what it takes, not what waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from agentos.execution.pulse import dispatch
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database, Transaction

CAPACITY = 16

FILL = """
with t as (
    insert into tenants (id, name, slug, plan)
    select gen_random_uuid(), 'Tenant', 't-' || n, case when n % 10 = 0 then 'enterprise' else 'free' end
    from generate_series(1, $1) n returning id
)
insert into sessions (tenant_id, id, state, title, config, workspace_id, created_by, principal_kind,
    principal_id, created_at, updated_at, queued_at)
select t.id, gen_random_uuid(), 'QUEUED', 'x', '{}', gen_random_uuid(), 'x', 'user', 'x', now(),
    now(), now() + n * interval '1 ms'
from t, generate_series(1, $2) n
"""


class Undo(Exception):
    """Ends a transaction without a trace."""


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes that read sessions."""
    if plan.get("Relation Name") == "sessions" and "Scan" in plan["Node Type"]:
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


def rows_read(node: dict[str, Any]) -> float:
    each: float = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    loops: float = node["Actual Loops"]
    return each * loops


async def explained(
    db: Database, monkeypatch: pytest.MonkeyPatch, worker: dispatch.WorkerIdentity
) -> dict[str, Any]:
    """How the database does a claim, as it is really made; then nothing has happened."""
    told: list[str] = []
    fetch = Transaction.fetch

    async def explain(self: Transaction, query: str, *args: Any) -> list[asyncpg.Record]:
        rows = await fetch(self, f"explain (analyze, format json) {query}", *args)
        told.append(rows[0][0])
        raise Undo

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "fetch", explain)
        with pytest.raises(Undo):
            await dispatch.claim(db, worker, CAPACITY, SystemClock().now())
    plan: dict[str, Any] = json.loads(told[0])[0]["Plan"]
    return plan


@pytest.mark.parametrize(("tenants", "each"), [(100, 1000), (1, 100_000)])
async def test_claiming_does_not_read_the_queue(
    superuser: asyncpg.Connection[Any],
    platform_db: Database,
    monkeypatch: pytest.MonkeyPatch,
    tenants: int,
    each: int,
) -> None:
    await superuser.execute(FILL, tenants, each)
    await superuser.execute("analyze sessions")
    worker = dispatch.identify(UUID(int=1))
    plan = await explained(platform_db, monkeypatch, worker)
    reading = list(scans(plan))
    indexes = {node.get("Index Name") for node in reading}
    assert "sessions_queue" in indexes
    assert indexes <= {"sessions_queue", "sessions_running", "sessions_pkey"}
    # Tenants are found one by one, and of each at most what it may run, twice: found and taken.
    assert (
        sum(rows_read(node) for node in reading) <= tenants * (1 + 2 + CAPACITY / 10) + 3 * CAPACITY
    )

    await dispatch.register(platform_db, worker, CAPACITY)
    claimed = await dispatch.claim(platform_db, worker, CAPACITY, SystemClock().now())
    # Free tenants run two at once.
    assert len(claimed) == min(CAPACITY, tenants * 2)
    assert len({each.session.id for each in claimed}) == len(claimed)
