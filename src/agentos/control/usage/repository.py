from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import UUID

import asyncpg

from agentos.control.usage.schemas import By, CallFilter, UsageFilter, UsageQuery
from agentos.kernel.database import Transaction

_KEYS: dict[By, str] = {
    "day": "day::text",
    "model": "provider || '/' || model",
    "provider": "provider",
    "team": "team_id::text",
    "session": "session_id::text",
}
_SUMS = ", ".join(
    f"coalesce(sum({name}), 0)::bigint as {name}"
    for name in (
        "calls",
        "failed_calls",
        "unpriced_calls",
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "output_tokens",
        "reasoning_tokens",
    )
)
# Days without a known price have added nothing to the sums; of such alone, nothing is known.
_MONEY = ", ".join(
    f"""case when sum(unpriced_calls) > 0 and sum({name}) = 0 then null
             else coalesce(sum({name}), 0)::bigint end as {name}"""
    for name in ("cost_micros", "rated_micros")
)
_CALL = (
    "id, at, team_id, session_id, principal_kind, principal_id, face, provider, model, "
    "asked_model, outcome, error_class, streamed, estimated, attempts, input_tokens, "
    "cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, "
    "rated_micros, duration_ms, first_byte_ms"
)


async def usage(
    tx: Transaction, tenant_id: UUID, query: UsageQuery, limit: int
) -> list[asyncpg.Record]:
    """The totals as the first row, then up to `limit` rows by key.

    One statement, so that both see the same calls.
    """
    args: list[Any] = [tenant_id, query.first, query.last, limit + 1]
    where = _restrict("tenant_id = $1 and day between $2 and $3", query.wanted, args)
    key = _KEYS[query.by]
    order = "key" if query.by == "day" else "sum(cost_micros) desc, sum(calls) desc, key"
    return await tx.fetch(
        f"""select {key} as key, {_SUMS}, {_MONEY}
            from usage_days where {where}
            group by grouping sets (({key}), ())
            order by grouping({key}) desc, {order} limit $4""",
        *args,
    )


async def calls(
    tx: Transaction, tenant_id: UUID, wanted: CallFilter, before: UUID | None, limit: int
) -> list[asyncpg.Record]:
    """Matching calls that are older than `before`, newest first."""
    args: list[Any] = [tenant_id, limit]
    where = "tenant_id = $1"
    if before is not None:
        args.append(before)
        where += f" and id < ${len(args)}"
    where = _restrict(where, wanted, args)
    return await tx.fetch(
        f"select {_CALL} from model_calls where {where} order by id desc limit $2", *args
    )


async def call(tx: Transaction, tenant_id: UUID, call_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_CALL} from model_calls where tenant_id = $1 and id = $2", tenant_id, call_id
    )


async def chain(tx: Transaction, tenant_id: UUID, call_id: UUID) -> list[asyncpg.Record]:
    """The ledger entries of a call, the reservation first."""
    return await tx.fetch(
        """select kind, at, held_micros, held_tokens, spent_micros, spent_tokens, reason
           from ledger_entries where tenant_id = $1 and call_id = $2
           order by kind <> 'reserve'""",
        tenant_id,
        call_id,
    )


def _restrict(where: str, wanted: UsageFilter | CallFilter, args: list[Any]) -> str:
    # Only the conditions asked for: `$n is null or …` would keep the indexes from being used.
    for field in fields(wanted):
        value = getattr(wanted, field.name)
        if value is not None:
            args.append(value)
            where += f" and {field.name} = ${len(args)}"
    return where
