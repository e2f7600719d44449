from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.tenancy.budgets.schemas import BudgetFilter, Standing
from agentos.tenancy.ledger.periods import WHOLE_LIFE, Account

# $1 tenant, $2 first day of this month. An account that is not there yet has spent nothing.
_READ = f"""
select id, scope, subject_id, cap_micros, spent_micros, held_micros,
       greatest(cap_micros - spent_micros - held_micros, 0) as remaining_micros,
       case cap_micros when 0 then 100
            else div(spent_micros::numeric * 100, cap_micros)::bigint end as percent,
       case when exhausted_at is not null or spent_micros >= cap_micros then 'exhausted'
            when warned_at is not null then 'warned' else 'open' end as state,
       nullif(period, date '{WHOLE_LIFE}') as period, created_by, created_at, updated_at
from (
    select b.*, p.period, a.warned_at, a.exhausted_at,
           coalesce(a.spent_micros, 0) as spent_micros, coalesce(a.held_micros, 0) as held_micros
    from budgets b
    cross join lateral (
        select case b.scope when 'session' then date '{WHOLE_LIFE}' else $2::date end as period
    ) p
    left join accounts a on (a.tenant_id, a.scope, a.subject_id, a.period)
                          = (b.tenant_id, b.scope, b.subject_id, p.period)
    where b.tenant_id = $1
) b
"""


async def budgets(
    tx: Transaction, tenant_id: UUID, month: date, wanted: BudgetFilter, after: UUID, limit: int
) -> list[asyncpg.Record]:
    args: list[Any] = [tenant_id, month, after, limit]
    where = "id > $3"
    if wanted.scope is not None:
        args.append(wanted.scope)
        where += f" and scope = ${len(args)}"
    if wanted.subject_id is not None:
        args.append(wanted.subject_id)
        where += f" and subject_id = ${len(args)}"
    return await tx.fetch(f"{_READ} where {where} order by id limit $4", *args)


async def budget(
    tx: Transaction, tenant_id: UUID, month: date, budget_id: UUID
) -> asyncpg.Record | None:
    return await tx.row(f"{_READ} where id = $3", tenant_id, month, budget_id)


async def cap(tx: Transaction, account: Account) -> asyncpg.Record | None:
    """Id and cap of the budget on an account, or None if there is none."""
    return await tx.row(
        """select id, cap_micros from budgets
           where tenant_id = $1 and scope = $2 and subject_id = $3""",
        *account[:3],
    )


async def upsert(
    tx: Transaction, account: Account, budget_id: UUID, cap_micros: int, by: str, now: datetime
) -> UUID:
    """Stores a cap; `budget_id` is for one that is new. Returns the id it has."""
    stored: UUID = await tx.value(
        """insert into budgets
               (tenant_id, id, scope, subject_id, cap_micros, created_by, created_at, updated_at)
           values ($1, $2, $3, $4, $5, $6, $7, $7)
           on conflict (tenant_id, scope, subject_id)
               do update set cap_micros = excluded.cap_micros, updated_at = excluded.updated_at
           returning id""",
        account.tenant_id,
        budget_id,
        account.scope,
        account.subject_id,
        cap_micros,
        by,
        now,
    )
    return stored


async def delete(tx: Transaction, tenant_id: UUID, budget_id: UUID) -> None:
    await tx.execute("delete from budgets where tenant_id = $1 and id = $2", tenant_id, budget_id)


async def lock_account(tx: Transaction, account: Account) -> Standing:
    """How the account stands, locked; it is made if it is not there.

    Whoever takes money out of it waits for this lock, and then sees the cap of this transaction.
    """
    row = await tx.row(
        """insert into accounts as a (tenant_id, scope, subject_id, period)
            values ($1, $2, $3, $4)
            on conflict (tenant_id, scope, subject_id, period)
                do update set spent_micros = a.spent_micros
            returning spent_micros, warned_at, exhausted_at""",
        *account,
    )
    assert row is not None
    return Standing(**row)


async def held(tx: Transaction, account: Account) -> int:
    """What processes have taken out of an account; nothing of one that is not there."""
    micros: int | None = await tx.value(
        """select held_micros from accounts
           where tenant_id = $1 and scope = $2 and subject_id = $3 and period = $4""",
        *account,
    )
    return micros or 0


async def set_flags(
    tx: Transaction, account: Account, warned_at: datetime | None, exhausted_at: datetime | None
) -> None:
    await tx.execute(
        """update accounts set warned_at = $5, exhausted_at = $6
           where tenant_id = $1 and scope = $2 and subject_id = $3 and period = $4""",
        *account,
        warned_at,
        exhausted_at,
    )


async def clear_past_months(tx: Transaction, month: date, limit: int) -> list[asyncpg.Record]:
    """Forgets that accounts of earlier months were exhausted; returns budgets with room again."""
    return await tx.fetch(
        f"""with past as (
                select tenant_id, scope, subject_id, period from accounts
                where exhausted_at is not null and period < $1 and period <> date '{WHOLE_LIFE}'
                order by tenant_id, scope desc, subject_id, period
                limit $2 for update skip locked
            ), cleared as (
                update accounts a set exhausted_at = null from past p
                where (a.tenant_id, a.scope, a.subject_id, a.period)
                    = (p.tenant_id, p.scope, p.subject_id, p.period)
                returning a.tenant_id, a.scope, a.subject_id
            )
            select distinct b.tenant_id, b.scope, b.subject_id, b.cap_micros
            from cleared join budgets b using (tenant_id, scope, subject_id)
            where b.cap_micros > 0""",
        month,
        limit,
    )
