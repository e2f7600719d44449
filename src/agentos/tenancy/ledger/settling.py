"""Settling: one call into all books in one statement, for callers with a transaction of their own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from operator import attrgetter
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.holds import lower, recount
from agentos.tenancy.ledger.periods import WHOLE_LIFE, Account
from agentos.tenancy.ledger.posting import CALL_COLUMNS, DAY_SUMS, Entry, moves_of, warn
from agentos.tenancy.ledger.rating import rated

_columns_of_call = attrgetter(*(name for name, _ in CALL_COLUMNS))


async def settle_one(tx: Transaction, owner: UUID, entry: Entry, outbox: Outbox) -> None:
    """Writes a settlement and all it moves; one that is there already moves nothing again."""
    call, spender = entry.call, entry.spender
    assert call is not None, "a settled call is known"
    kept = _kept(entry)
    rows = await tx.fetch(
        _SETTLE_HELD if kept else _SETTLE,
        spender.tenant_id,
        entry.call_id,
        spender.team_id,
        spender.session_id,
        entry.period,
        entry.at,
        entry.held_micros,
        entry.held_tokens,
        uuid7(),
        call.at.astimezone(UTC).date(),
        rated(call.cost_micros),
        *_columns_of_call(call),
        *((owner, *kept) if kept else ()),
    )
    if rows:
        await _set_right(tx, owner, entry, [row for row in rows if row["cap_micros"] is None])
        await warn(tx, [row for row in rows if row["cap_micros"] is not None], outbox, entry.at)


async def _set_right(
    tx: Transaction, owner: UUID, entry: Entry, astray: Sequence[asyncpg.Record]
) -> None:
    """Counts anew what is held of accounts, locked by now, of which others took this owner's hold."""
    if not astray:
        return
    accounts = [Account(*row[:4]) for row in astray]
    await recount(tx, accounts)
    moves = moves_of(entry.kept)
    await lower(tx, owner, [move for move in moves if move.account in accounts])


def _kept(entry: Entry) -> tuple[int, int, int, int] | None:
    """What goes off the holds: of the tenant's money and tokens, the team's and session's money."""
    kept = {move.account.scope: move for move in moves_of(entry.kept)}
    if not kept:
        return None
    tenant, team, session = kept.get("tenant"), kept.get("team"), kept.get("session")
    return (
        tenant.micros if tenant else 0,
        tenant.tokens if tenant else 0,
        team.micros if team else 0,
        session.micros if session else 0,
    )


# Parameters in the order of `settle_one`: the entry ($1 to $8), its day ($9, $10), what is rated
# ($11), the call, and then the owner and what goes off its holds.
_FIRST_OF_CALL = 12
_CALL = {
    name: f"${number}::{kind}" for number, (name, kind) in enumerate(CALL_COLUMNS, _FIRST_OF_CALL)
}
_FIRST_OF_KEPT = _FIRST_OF_CALL + len(CALL_COLUMNS)
_OWNER, *_KEPT = (f"${_FIRST_OF_KEPT + number}" for number in range(5))
_SPENT_MICROS = f"coalesce({_CALL['cost_micros']}, 0)"
_SPENT_TOKENS = f"{_CALL['input_tokens']} + {_CALL['output_tokens']}"
_DAY: dict[str, str] = _CALL | {
    "calls": "1",
    "failed_calls": f"({_CALL['outcome']} = 'failed')::int",
    "unpriced_calls": f"({_CALL['cost_micros']} is null)::int",
    "cost_micros": _SPENT_MICROS,
    "rated_micros": "coalesce($11::bigint, 0)",
}


def _statement(*, held: bool) -> str:
    """Each part waits for the one whose rows it counts, so locks are taken in the same order as
    everywhere: the entry, accounts with the tenant's first, then holds and days.
    """
    kept = _KEPT if held else ["0"] * len(_KEPT)
    return f"""
    with written as (
        insert into ledger_entries (tenant_id, call_id, kind, at, team_id, session_id, period,
            held_micros, held_tokens, spent_micros, spent_tokens)
        values ($1, $2, 'settle', $6, $3, $4, $5, $7, $8, {_SPENT_MICROS}, {_SPENT_TOKENS})
        on conflict do nothing returning call_id),
    called as (
        insert into model_calls (tenant_id, id, team_id, session_id, rated_micros,
            {", ".join(_CALL)})
        select $1, $2, $3, $4, $11::bigint, {", ".join(_CALL.values())}
        from written
        on conflict do nothing),
    keys (scope, subject_id, period, micros, tokens) as (
        values ('tenant', $1::uuid, $5::date, {kept[0]}::bigint, {kept[1]}::bigint),
               ('team', $3::uuid, $5::date, {kept[2]}::bigint, 0),
               ('session', $4::uuid, date '{WHOLE_LIFE}', {kept[3]}::bigint, 0)),
    moved as (
        insert into accounts as a (tenant_id, scope, subject_id, period,
            spent_micros, spent_tokens, held_micros, held_tokens)
        select $1, k.scope, k.subject_id, k.period, {_SPENT_MICROS}, {_SPENT_TOKENS},
            k.micros, k.tokens
        from written cross join keys k
        where k.subject_id is not null
        order by k.scope desc
        on conflict (tenant_id, scope, subject_id, period) do update
        set spent_micros = a.spent_micros + excluded.spent_micros,
            spent_tokens = a.spent_tokens + excluded.spent_tokens,
            held_micros = greatest(a.held_micros - excluded.held_micros, 0),
            held_tokens = greatest(a.held_tokens - excluded.held_tokens, 0)
        returning a.tenant_id, a.scope, a.subject_id, a.period, a.spent_micros, a.warned_at),
    added as (
        insert into usage_days as u (id, tenant_id, day, provider, model, team_id, session_id,
            {", ".join(DAY_SUMS)})
        select $9, $1, $10, {_CALL["provider"]}, {_CALL["model"]}, $3, $4,
            {", ".join(_DAY[name] for name in DAY_SUMS)}
        where (select count(*) from moved) > 0
        on conflict (tenant_id, day, provider, model, team_id, session_id) do update
        set {", ".join(f"{name} = u.{name} + excluded.{name}" for name in DAY_SUMS)})
    {_LOWERED if held else ""}
    select m.tenant_id, m.scope, m.subject_id, m.period, m.spent_micros, b.cap_micros
    from moved m join budgets b using (tenant_id, scope, subject_id)
    where m.warned_at is null and m.spent_micros > 0
      and m.spent_micros::numeric * 5 >= b.cap_micros::numeric * 4
    {_ASTRAY if held else ""}"""  # noqa: S608 - the names stand above


_LOWERED = f""", lowered as (
        update holds h set micros = h.micros - k.micros, tokens = h.tokens - k.tokens
        from keys k
        where (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
            = ($1, k.scope, k.subject_id, k.period, {_OWNER})
          and h.micros >= k.micros and h.tokens >= k.tokens and k.micros + k.tokens > 0
          and (select count(*) from moved) > 0
        returning h.scope)"""  # noqa: S608 - a parameter's number
# Accounts whose hold had too little. They are told from those to be warned of by having no cap.
_ASTRAY = """union all
    select $1, k.scope, k.subject_id, k.period, null, null
    from written cross join keys k
    where k.micros + k.tokens > 0
      and not exists (select from lowered l where l.scope = k.scope)"""

_SETTLE = _statement(held=False)
_SETTLE_HELD = _statement(held=True)
