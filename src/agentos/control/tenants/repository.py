from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_COLUMNS = "id, name, slug, plan, settings, created_at, updated_at"


async def read(tx: Transaction, tenant_id: UUID) -> asyncpg.Record | None:
    return await tx.row(f"select {_COLUMNS} from tenants where id = $1", tenant_id)


async def lock(tx: Transaction, tenant_id: UUID) -> asyncpg.Record | None:
    return await tx.row(f"select {_COLUMNS} from tenants where id = $1 for update", tenant_id)


async def of_user(tx: Transaction, after: UUID, limit: int) -> list[asyncpg.Record]:
    """All tenants that row-level security shows this user, oldest first."""
    return await tx.fetch(
        f"""select {_COLUMNS} from tenants where id > $1
            order by id limit $2""",
        after,
        limit,
    )


async def insert(tx: Transaction, tenant_id: UUID, name: str, slug: str) -> None:
    await tx.execute(
        "insert into tenants (id, name, slug) values ($1, $2, $3)", tenant_id, name, slug
    )


async def update(
    tx: Transaction, tenant_id: UUID, name: str, slug: str, settings: dict[str, Any]
) -> asyncpg.Record:
    row = await tx.row(
        f"""update tenants set name = $2, slug = $3, settings = $4, updated_at = now()
            where id = $1 returning {_COLUMNS}""",
        tenant_id,
        name,
        slug,
        settings,
    )
    assert row is not None
    return row


async def counts(tx: Transaction) -> asyncpg.Record:
    """How much of each counted limit the current tenant uses."""
    row = await tx.row(
        """select (select count(*) from members where tenant_id = app_tenant()) as team_members,
                  (select count(*) from api_keys where tenant_id = app_tenant() and revoked_at is null) as api_keys,
                  (select count(*) from vault_secrets) as vault_secrets,
                  coalesce((select bytes from storage_usage), 0) as storage_bytes"""
    )
    assert row is not None
    return row
