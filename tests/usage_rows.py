"""Rows of usage, as the ledger and the meters leave them behind."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7


async def insert(db: Database, table: str, **columns: Any) -> None:
    """One row, as the platform role."""
    names = ", ".join(columns)
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    async with db.transaction() as tx:
        await tx.execute(f"insert into {table} ({names}) values ({values})", *columns.values())


async def used(db: Database, tenant_id: UUID, day: date, **columns: Any) -> None:
    """Calls of one day: ten, of 100 tokens in and 20 out each, unless told otherwise."""
    usual: dict[str, Any] = {
        "provider": "openai",
        "model": "gpt-5",
        "calls": 10,
        "failed_calls": 0,
        "unpriced_calls": 0,
        "input_tokens": 1000,
        "cache_read_tokens": 300,
        "cache_write_tokens": 50,
        "output_tokens": 200,
        "reasoning_tokens": 80,
        "cost_micros": 1000,
        "rated_micros": 1150,
    }
    row = usual | columns
    await insert(db, "usage_days", tenant_id=tenant_id, id=uuid7(), day=day, **row)


async def metered(db: Database, tenant_id: UUID, day: date, meter: str, quantity: int) -> None:
    await insert(db, "meters", tenant_id=tenant_id, day=day, meter=meter, quantity=quantity)


async def called(db: Database, tenant_id: UUID, **columns: Any) -> UUID:
    """A call that was answered, with its chain in the ledger."""
    call_id, at = uuid7(), datetime(2026, 11, 5, 12, tzinfo=UTC)
    usual: dict[str, Any] = {
        "at": at,
        "principal_kind": "api_key",
        "principal_id": "k1",
        "face": "openai",
        "provider": "openai",
        "model": "gpt-5",
        "asked_model": "gpt-5",
        "outcome": "answered",
        "streamed": True,
        "estimated": False,
        "attempts": 1,
        "input_tokens": 100,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 20,
        "reasoning_tokens": 0,
        "cost_micros": 100,
        "rated_micros": 115,
        "duration_ms": 900,
        "first_byte_ms": 80,
    }
    await insert(db, "model_calls", tenant_id=tenant_id, id=call_id, **(usual | columns))
    for kind, held, spent in (("reserve", 500, 0), ("settle", -500, 100)):
        await insert(
            db,
            "ledger_entries",
            tenant_id=tenant_id,
            call_id=call_id,
            kind=kind,
            at=at,
            period=date(2026, 11, 1),
            held_micros=held,
            held_tokens=held,
            spent_micros=spent,
            spent_tokens=spent,
        )
    return call_id
