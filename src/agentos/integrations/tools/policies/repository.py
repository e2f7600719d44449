from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_COLUMNS = "id, subject, decision, created_by, updated_at"


async def policies(
    tx: Transaction, tenant_id: UUID, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_COLUMNS} from tool_policies
            where tenant_id = $1 and id > $2 order by id limit $3""",
        tenant_id,
        after,
        limit,
    )


async def decisions(tx: Transaction, tenant_id: UUID) -> list[asyncpg.Record]:
    """Subject and decision of every policy."""
    return await tx.fetch(
        "select subject, decision from tool_policies where tenant_id = $1", tenant_id
    )


async def of_subject(tx: Transaction, tenant_id: UUID, subject: str) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_COLUMNS} from tool_policies where tenant_id = $1 and subject = $2",
        tenant_id,
        subject,
    )


async def count(tx: Transaction, tenant_id: UUID) -> int:
    number: int = await tx.value(
        "select count(*) from tool_policies where tenant_id = $1", tenant_id
    )
    return number


async def upsert(
    tx: Transaction,
    tenant_id: UUID,
    policy_id: UUID,
    subject: str,
    decision: str,
    by: str,
    now: datetime,
) -> asyncpg.Record:
    """Stores a decision; `policy_id` and `by` are for one that is new."""
    row = await tx.row(
        f"""insert into tool_policies (tenant_id, id, subject, decision, created_by, updated_at)
            values ($1, $2, $3, $4, $5, $6)
            on conflict (tenant_id, subject)
                do update set decision = excluded.decision, updated_at = excluded.updated_at
            returning {_COLUMNS}""",
        tenant_id,
        policy_id,
        subject,
        decision,
        by,
        now,
    )
    assert row is not None
    return row


async def delete(tx: Transaction, tenant_id: UUID, policy_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"delete from tool_policies where tenant_id = $1 and id = $2 returning {_COLUMNS}",
        tenant_id,
        policy_id,
    )
