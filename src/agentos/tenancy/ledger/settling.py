"""Settling: one call into all books in one statement, for callers with a transaction of their own."""

from __future__ import annotations

from datetime import UTC
from operator import attrgetter
from typing import Any
from uuid import UUID

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.periods import WHOLE_LIFE
from agentos.tenancy.ledger.posting import CALL_COLUMNS, DAY_SUMS, Entry, warn
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
        await warn(tx, rows, outbox, entry.at)


def _kept(entry: Entry) -> tuple[int, int, int, int] | None:
    """What goes off the holds: of the tenant's money and tokens, the team's and session's money."""
    kept = {
        (pot.hold.account.scope, pot.unit): amount
        for pot, amount in entry.kept
        if amount and not pot.hold.lost
    }
    if not kept:
        return None
    return (
        kept.get(("tenant", "micros"), 0),
        kept.get(("tenant", "tokens"), 0),
        kept.get(("team", "micros"), 0),
        kept.get(("session", "micros"), 0),
    )


# Parameters that both statements have, in the order of `settle_one`.
_OURS = "tenant_id", "call_id", "team_id", "session_id", "period", "at", "held_micros"
_GIVEN = (*_OURS, "held_tokens", "day_id", "day", "rated_micros")
_FIRST_OF_CALL = len(_GIVEN) + 1
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
    everywhere: the entry, accounts with the tenant's first, holds, days.
    """
    money: dict[str, Any] = dict(zip(("tenant", "tokens", "team", "session"), _KEPT, strict=True))
    if not held:
        money = dict.fromkeys(money, "0")
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
        values ('tenant', $1::uuid, $5::date, {money["tenant"]}::bigint, {money["tokens"]}::bigint),
               ('team', $3::uuid, $5::date, {money["team"]}::bigint, 0),
               ('session', $4::uuid, date '{WHOLE_LIFE}', {money["session"]}::bigint, 0)),
    {_LOWER if held else _LOWER_NOTHING},
    moved as (
        insert into accounts as a (tenant_id, scope, subject_id, period,
            spent_micros, spent_tokens, held_micros, held_tokens)
        -- An account that is new has no hold: then nothing is taken from it.
        select $1, k.scope, k.subject_id, k.period, {_SPENT_MICROS}, {_SPENT_TOKENS},
            coalesce(t.micros, 0), coalesce(t.tokens, 0)
        from written cross join keys k left join there t using (scope)
        where k.subject_id is not null
        order by k.scope desc
        on conflict (tenant_id, scope, subject_id, period) do update
        set spent_micros = a.spent_micros + excluded.spent_micros,
            spent_tokens = a.spent_tokens + excluded.spent_tokens,
            held_micros = a.held_micros - excluded.held_micros,
            held_tokens = a.held_tokens - excluded.held_tokens
        returning a.tenant_id, a.scope, a.subject_id, a.period, a.spent_micros, a.warned_at),
    added as (
        insert into usage_days as u (id, tenant_id, day, provider, model, team_id, session_id,
            {", ".join(DAY_SUMS)})
        select $9, $1, $10, {_CALL["provider"]}, {_CALL["model"]}, $3, $4,
            {", ".join(_DAY[name] for name in DAY_SUMS)}
        where (select count(*) from moved) > 0
        on conflict (tenant_id, day, provider, model, team_id, session_id) do update
        set {", ".join(f"{name} = u.{name} + excluded.{name}" for name in DAY_SUMS)})
    select m.tenant_id, m.scope, m.subject_id, m.period, m.spent_micros, b.cap_micros
    from moved m join budgets b using (tenant_id, scope, subject_id)
    where m.warned_at is null and m.spent_micros > 0
      and m.spent_micros::numeric * 5 >= b.cap_micros::numeric * 4"""  # noqa: S608 - the names stand above


# What is in a hold is known once its account is locked, and not before.
_LOWER = f"""locked as materialized (
        select a.scope from accounts a join keys k using (scope, subject_id, period)
        where a.tenant_id = $1 and (select count(*) from written) > 0
        order by a.scope desc for no key update of a),
    there as materialized (
        select h.scope, h.subject_id, h.period,
            least(h.micros, k.micros) as micros, least(h.tokens, k.tokens) as tokens
        from holds h join keys k using (scope, subject_id, period)
        where h.tenant_id = $1 and h.owner = {_OWNER} and (select count(*) from locked) > 0
        order by h.scope desc for update of h),
    lowered as (
        update holds h set micros = h.micros - t.micros, tokens = h.tokens - t.tokens
        from there t
        where (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
            = ($1, t.scope, t.subject_id, t.period, {_OWNER}))"""  # noqa: S608 - a parameter's number
_LOWER_NOTHING = """there (scope, micros, tokens) as (
        select '', 0::bigint, 0::bigint where false)"""

_SETTLE = _statement(held=False)
_SETTLE_HELD = _statement(held=True)
