from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_COLUMNS = (
    "id, name, last_four, scopes, created_by, created_at, expires_at, last_used_at, revoked_at"
)


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    key_id: UUID,
    *,
    name: str,
    last_four: str,
    token_hash: bytes,
    scopes: list[str],
    created_by: str,
    expires_at: datetime | None,
) -> asyncpg.Record:
    row = await tx.row(
        f"""insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by, expires_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8) returning {_COLUMNS}""",
        tenant_id,
        key_id,
        name,
        last_four,
        token_hash,
        scopes,
        created_by,
        expires_at,
    )
    assert row is not None
    return row


async def keys(tx: Transaction, tenant_id: UUID, after: UUID, limit: int) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_COLUMNS} from api_keys where tenant_id = $1 and id > $2
            order by id limit $3""",
        tenant_id,
        after,
        limit,
    )


async def live(tx: Transaction, tenant_id: UUID) -> int:
    count: int = await tx.value(
        "select count(*) from api_keys where tenant_id = $1 and revoked_at is null", tenant_id
    )
    return count


async def revoke(
    tx: Transaction, tenant_id: UUID, key_id: UUID, now: datetime
) -> asyncpg.Record | None:
    return await tx.row(
        f"""update api_keys set revoked_at = $3 where tenant_id = $1 and id = $2 and revoked_at is null
            returning {_COLUMNS}""",
        tenant_id,
        key_id,
        now,
    )


async def principal(tx: Transaction, tenant_id: UUID, token_hash: bytes) -> asyncpg.Record | None:
    """Everything a key stands for, or None if there is no such key."""
    return await tx.row(
        """select k.id, k.name, k.scopes, k.expires_at, k.last_used_at, t.plan, t.limits
           from api_keys k join tenants t on t.id = k.tenant_id
           where k.tenant_id = $1 and k.token_hash = $2 and k.revoked_at is null""",
        tenant_id,
        token_hash,
    )


async def touch(tx: Transaction, tenant_id: UUID, key_id: UUID, now: datetime) -> None:
    await tx.execute(
        "update api_keys set last_used_at = $3 where tenant_id = $1 and id = $2",
        tenant_id,
        key_id,
        now,
    )
