"""Holds: what processes have taken out of accounts, as Postgres has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Database, Transaction, reporting_loss
from agentos.tenancy.ledger.periods import Account, columns
from agentos.tenancy.ledger.pots import Unit
from agentos.tenancy.plans import plan_for

LEASE = timedelta(seconds=60)

# Every transaction locks accounts in this order, the tenant's own first, and touches holds only
# under the lock of their account. So no two can wait for each other.
_IN_ORDER = "order by tenant_id, scope desc, subject_id, period"


@dataclass(frozen=True, slots=True)
class Balance:
    """An account as Postgres has it now, with its caps. None is uncapped."""

    spent: dict[Unit, int]
    held: dict[Unit, int]
    caps: dict[Unit, int | None]
    exhausted: bool
    # This process has a row in holds.
    holding: bool

    def room(self, unit: Unit) -> int | None:
        cap = self.caps[unit]
        return None if cap is None else cap - self.spent[unit] - self.held[unit]


@dataclass(slots=True)
class Move:
    """A change of a hold."""

    account: Account
    micros: int = 0
    tokens: int = 0
    calls: int = 0

    def add(self, unit: Unit, amount: int) -> None:
        setattr(self, unit, getattr(self, unit) + amount)


async def read_capped(db: Database, accounts: list[Account]) -> set[Account]:
    """Which of them have a budget. One round trip, no locks, and no rows made."""
    async with db.connection() as connection:
        with reporting_loss:
            rows = await connection.fetch(
                """select k.position
                   from unnest($1::uuid[], $2::text[], $3::uuid[]) with ordinality
                        as k(tenant_id, scope, subject_id, position)
                   join budgets using (tenant_id, scope, subject_id)""",
                *columns(accounts)[:3],
            )
    return {accounts[row["position"] - 1] for row in rows}


async def open_accounts(tx: Transaction, accounts: list[Account]) -> None:
    """Makes the rows that are missing, but for tenants that do not exist."""
    await tx.execute(
        f"""insert into accounts (tenant_id, scope, subject_id, period)
            select k.tenant_id, k.scope, k.subject_id, k.period
            from unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[])
                 as k(tenant_id, scope, subject_id, period)
            where exists (select from tenants where id = k.tenant_id)
            {_IN_ORDER}
            on conflict do nothing""",  # noqa: S608 - a constant
        *columns(accounts),
    )


async def lock_accounts(tx: Transaction, accounts: list[Account]) -> None:
    await tx.execute(
        f"""select from accounts
            join unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[])
                 as k(tenant_id, scope, subject_id, period)
            using (tenant_id, scope, subject_id, period)
            {_IN_ORDER} for no key update of accounts""",
        *columns(accounts),
    )


async def read_balances(
    tx: Transaction, accounts: list[Account], owner: UUID
) -> dict[Account, Balance]:
    """What there is and what may be. Leaves out the accounts of a tenant that does not exist."""
    rows = await tx.fetch(
        """select k.position, a.spent_micros, a.spent_tokens, a.held_micros, a.held_tokens,
                  a.held_calls, a.exhausted_at, b.cap_micros, t.plan, t.limits,
                  h.owner is not null as holding
           from unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[]) with ordinality
                as k(tenant_id, scope, subject_id, period, position)
           join tenants t on t.id = k.tenant_id
           left join accounts a using (tenant_id, scope, subject_id, period)
           left join budgets b using (tenant_id, scope, subject_id)
           left join holds h on (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
                = (k.tenant_id, k.scope, k.subject_id, k.period, $5)""",
        *columns(accounts),
        owner,
    )
    return {accounts[row["position"] - 1]: _balance(accounts, row) for row in rows}


def _balance(accounts: list[Account], row: asyncpg.Record) -> Balance:
    caps: dict[Unit, int | None] = {"micros": row["cap_micros"], "tokens": None, "calls": None}
    if accounts[row["position"] - 1].scope == "tenant":
        plan = plan_for(row["plan"], row["limits"])
        caps["tokens"] = plan.tokens_per_month
        caps["calls"] = plan.concurrent_model_calls
    return Balance(
        spent={"micros": row["spent_micros"] or 0, "tokens": row["spent_tokens"] or 0, "calls": 0},
        held={
            "micros": row["held_micros"] or 0,
            "tokens": row["held_tokens"] or 0,
            "calls": row["held_calls"] or 0,
        },
        caps=caps,
        exhausted=row["exhausted_at"] is not None,
        holding=row["holding"],
    )


def _moves(moves: Iterable[Move]) -> tuple[Any, ...]:
    kept = list(moves)
    return (
        *columns([move.account for move in kept]),
        [move.micros for move in kept],
        [move.tokens for move in kept],
        [move.calls for move in kept],
    )


_MOVES = """moves as (
    select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[],
                         $5::bigint[], $6::bigint[], $7::bigint[])
         as m(tenant_id, scope, subject_id, period, micros, tokens, calls))"""


async def grow(tx: Transaction, owner: UUID, moves: Iterable[Move]) -> None:
    """Puts more into holds. The accounts are locked, and have the room."""
    await tx.execute(
        f"""with {_MOVES}, grown as (
                insert into holds as h
                    (tenant_id, scope, subject_id, period, owner, micros, tokens, calls, expires_at)
                select tenant_id, scope, subject_id, period, $8, micros, tokens, calls,
                       now() + $9::interval
                from moves
                on conflict (tenant_id, scope, subject_id, period, owner) do update
                set micros = h.micros + excluded.micros, tokens = h.tokens + excluded.tokens,
                    calls = h.calls + excluded.calls, expires_at = excluded.expires_at)
            update accounts a
            set held_micros = a.held_micros + m.micros, held_tokens = a.held_tokens + m.tokens,
                held_calls = a.held_calls + m.calls
            from moves m
            where (a.tenant_id, a.scope, a.subject_id, a.period)
                = (m.tenant_id, m.scope, m.subject_id, m.period)""",  # noqa: S608 - constants
        *_moves(moves),
        owner,
        LEASE,
    )


async def lower(tx: Transaction, owner: UUID, moves: Iterable[Move]) -> None:
    """Takes from holds, and from what accounts say is held, as much as is there.

    The accounts are locked. A hold that is gone was given to others, and counts for nothing.
    """
    await tx.execute(
        f"""with {_MOVES}, there as (
                select h.tenant_id, h.scope, h.subject_id, h.period,
                       least(h.micros, m.micros) as micros, least(h.tokens, m.tokens) as tokens,
                       least(h.calls, m.calls) as calls
                from holds h join moves m using (tenant_id, scope, subject_id, period)
                where h.owner = $8
                {_IN_ORDER} for update of h),
            lowered as (
                update holds h
                set micros = h.micros - t.micros, tokens = h.tokens - t.tokens,
                    calls = h.calls - t.calls
                from there t
                where (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
                    = (t.tenant_id, t.scope, t.subject_id, t.period, $8))
            update accounts a
            set held_micros = a.held_micros - t.micros, held_tokens = a.held_tokens - t.tokens,
                held_calls = a.held_calls - t.calls
            from there t
            where (a.tenant_id, a.scope, a.subject_id, a.period)
                = (t.tenant_id, t.scope, t.subject_id, t.period)""",  # noqa: S608 - constants
        *_moves(moves),
        owner,
    )


async def recount(tx: Transaction, accounts: list[Account]) -> None:
    """Sets what accounts say is held to what there is. They are locked."""
    await tx.execute(
        """update accounts a
           set held_micros = h.micros, held_tokens = h.tokens, held_calls = h.calls
           from unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[])
                as k(tenant_id, scope, subject_id, period)
           cross join lateral (
               select coalesce(sum(micros), 0) as micros, coalesce(sum(tokens), 0) as tokens,
                      coalesce(sum(calls), 0) as calls
               from holds
               where (tenant_id, scope, subject_id, period)
                   = (k.tenant_id, k.scope, k.subject_id, k.period)) h
           where (a.tenant_id, a.scope, a.subject_id, a.period)
               = (k.tenant_id, k.scope, k.subject_id, k.period)""",
        *columns(accounts),
    )


async def drop_empty(tx: Transaction, owner: UUID, accounts: list[Account]) -> None:
    await tx.execute(
        """delete from holds h
           using unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[])
                as k(tenant_id, scope, subject_id, period)
           where (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
                = (k.tenant_id, k.scope, k.subject_id, k.period, $5)
             and h.micros = 0 and h.tokens = 0 and h.calls = 0""",
        *columns(accounts),
        owner,
    )


async def read_holds(tx: Transaction, owner: UUID) -> dict[Account, dict[Unit, int]]:
    """The holds of an owner whose accounts are locked."""
    rows = await tx.fetch(
        """select tenant_id, scope, subject_id, period, micros, tokens, calls
           from holds where owner = $1""",
        owner,
    )
    return {
        Account(*row[:4]): {
            "micros": row["micros"],
            "tokens": row["tokens"],
            "calls": row["calls"],
        }
        for row in rows
    }


async def renew(tx: Transaction, owner: UUID) -> set[Account]:
    """Puts off the expiry of an owner's holds, and says which there are."""
    await tx.execute(
        f"""select from accounts a join holds h using (tenant_id, scope, subject_id, period)
            where h.owner = $1 {_IN_ORDER} for no key update of a""",
        owner,
    )
    rows = await tx.fetch(
        """update holds set expires_at = now() + $2::interval where owner = $1
           returning tenant_id, scope, subject_id, period""",
        owner,
        LEASE,
    )
    return {Account(*row) for row in rows}


async def give_up(tx: Transaction, owner: UUID, expired_before: datetime | None = None) -> int:
    """Gives all holds of an owner back to their accounts, or those that expired before a time."""
    condition = "h.owner = $1 and ($2::timestamptz is null or h.expires_at < $2)"
    await tx.execute(
        f"""select from accounts a join holds h using (tenant_id, scope, subject_id, period)
            where {condition} {_IN_ORDER} for no key update of a""",
        owner,
        expired_before,
    )
    return await tx.execute(
        f"""with gone as (delete from holds h where {condition} returning *)
            update accounts a
            set held_micros = a.held_micros - g.micros, held_tokens = a.held_tokens - g.tokens,
                held_calls = a.held_calls - g.calls
            from gone g
            where (a.tenant_id, a.scope, a.subject_id, a.period)
                = (g.tenant_id, g.scope, g.subject_id, g.period)""",  # noqa: S608 - constants
        owner,
        expired_before,
    )
