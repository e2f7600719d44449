"""A tenant with budgets, escrows that serve it, and a view of all the books."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from agentos.kernel.clock import Clock, SystemClock
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.escrow import Escrow


def finished(cost: int | None = 10, *, tokens: int = 3, **changes: Any) -> FinishedCall:
    """A call that took one input token and else output."""
    columns: dict[str, Any] = {
        "at": datetime.now(UTC),
        "principal_kind": "api_key",
        "principal_id": "key-1",
        "face": "openai",
        "provider": "acme",
        "model": "acme-1",
        "asked_model": "acme",
        "outcome": "answered",
        "error_class": None,
        "streamed": True,
        "estimated": False,
        "attempts": 1,
        "input_tokens": 1,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": tokens - 1,
        "reasoning_tokens": 0,
        "cost_micros": cost,
        "duration_ms": 5,
        "first_byte_ms": 2,
    }
    return FinishedCall(**columns | changes)


@dataclass
class Bank:
    """One installation's ledger, seen from behind."""

    superuser: asyncpg.Connection[Any]
    platform_db: Database
    directory: Path
    clock: Clock = field(default_factory=SystemClock)

    async def tenant(self, *, plan: str = "enterprise", **limits: int) -> Spender:
        tenant_id = TenantId(uuid7())
        await self.superuser.execute(
            "insert into tenants (id, name, slug, plan) values ($1, 'T', $2, $3)",
            tenant_id,
            f"t-{tenant_id.hex}",
            plan,
        )
        await self.limit(tenant_id, **limits)
        return Spender(tenant_id)

    async def limit(self, tenant_id: UUID, **limits: int) -> None:
        pairs = ", ".join(f"'{name}', {value}" for name, value in limits.items())
        await self.superuser.execute(
            f"update tenants set limits = jsonb_build_object({pairs}) where id = $1", tenant_id
        )

    async def budget(self, spender: Spender, scope: str, cap: int | None) -> None:
        """Sets, changes or removes the budget on the tenant, team or session of a spender."""
        subject = getattr(spender, f"{scope}_id")
        if cap is None:
            await self.superuser.execute(
                "delete from budgets where tenant_id = $1 and scope = $2 and subject_id = $3",
                spender.tenant_id,
                scope,
                subject,
            )
            return
        await self.superuser.execute(
            """insert into budgets (tenant_id, id, scope, subject_id, cap_micros, created_by)
               values ($1, gen_random_uuid(), $2, $3, $4, 'test')
               on conflict (tenant_id, scope, subject_id) do update set cap_micros = $4""",
            spender.tenant_id,
            scope,
            subject,
            cap,
        )

    def escrow(self, *, queue_seconds: float = 5) -> Escrow:
        return Escrow(
            self.platform_db, Outbox(lambda: None), self.clock, self.directory, queue_seconds
        )

    @asynccontextmanager
    async def running(self, *, queue_seconds: float = 5) -> AsyncIterator[Escrow]:
        escrow = self.escrow(queue_seconds=queue_seconds)
        async with escrow.running():
            yield escrow

    async def account(
        self, spender: Spender, scope: str = "tenant", period: date | None = None
    ) -> dict[str, Any]:
        row = await self.superuser.fetchrow(
            """select * from accounts where tenant_id = $1 and scope = $2 and subject_id = $3
               and ($4::date is null or period = $4)""",
            spender.tenant_id,
            scope,
            getattr(spender, f"{scope}_id"),
            period,
        )
        return dict(row) if row else {}

    async def entries(self, reservation: Reservation) -> list[dict[str, Any]]:
        rows = await self.superuser.fetch(
            "select * from ledger_entries where call_id = $1 order by kind = 'reserve' desc",
            reservation.call_id,
        )
        return [dict(row) for row in rows]

    async def events(self, kind: str) -> list[dict[str, Any]]:
        rows = await self.superuser.fetch(
            "select data::text as data from outbox where type = $1", kind
        )
        return [msgspec.json.decode(row["data"]) for row in rows]

    async def held(self) -> int:
        """How much of anything is held by anybody."""
        total: int = await self.superuser.fetchval(
            """select coalesce(sum(held_micros + held_tokens + held_calls), 0)
                    + (select count(*) from holds) from accounts"""
        )
        return total

    async def check(self) -> None:
        """All books agree, and nothing is held any more."""
        assert await self.held() == 0
        wrong = await self.superuser.fetch(
            """with derived as (
                   select tenant_id, scope, subject, case scope when 'session'
                          then date '1970-01-01' else period end as period,
                          sum(spent_micros) as micros, sum(spent_tokens) as tokens
                   from ledger_entries, lateral (values ('tenant', tenant_id), ('team', team_id),
                        ('session', session_id)) as s(scope, subject)
                   where subject is not null and kind = 'settle' group by 1, 2, 3, 4)
               select d.*, a.spent_micros, a.spent_tokens
               from derived d full join accounts a on (a.tenant_id, a.scope, a.subject_id, a.period)
                    = (d.tenant_id, d.scope, d.subject, d.period)
               where coalesce(d.micros, 0) is distinct from a.spent_micros
                  or coalesce(d.tokens, 0) is distinct from a.spent_tokens"""
        )
        assert wrong == []
        chains = await self.superuser.fetch(
            """select call_id, array_agg(kind order by kind) as kinds, sum(held_micros) as micros,
                      sum(held_tokens) as tokens
               from ledger_entries group by 1
               having sum(held_micros) <> 0 or sum(held_tokens) <> 0 or count(*) <> 2
                   or count(*) filter (where kind = 'reserve') <> 1"""
        )
        assert chains == []
        sums = await self.superuser.fetchrow(
            """select (select coalesce(sum(spent_micros), 0) from ledger_entries) as entries,
                      (select coalesce(sum(cost_micros), 0) from model_calls) as calls,
                      (select coalesce(sum(cost_micros), 0) from usage_days) as days,
                      (select count(*) from ledger_entries where kind = 'settle') as settled,
                      (select count(*) from model_calls) as call_rows,
                      (select coalesce(sum(calls), 0) from usage_days) as day_calls"""
        )
        assert sums is not None
        assert sums["entries"] == sums["calls"] == sums["days"]
        assert sums["settled"] == sums["call_rows"] == sums["day_calls"]


@pytest.fixture
def bank(superuser: asyncpg.Connection[Any], platform_db: Database, tmp_path: Path) -> Bank:
    return Bank(superuser, platform_db, tmp_path / "ledger")


def amount(micros: int | None, tokens: int = 5) -> Amount:
    return Amount(micros, tokens)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Looks again and again: the database does not tell."""
    async with asyncio.timeout(20):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)
