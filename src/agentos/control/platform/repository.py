from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_TENANT = "id, name, slug, plan, limits, settings, created_at, updated_at"


async def tenants(tx: Transaction, after: UUID, limit: int) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"select {_TENANT} from tenants where id > $1 order by id limit $2", after, limit
    )


async def insert_tenant(
    tx: Transaction, tenant_id: UUID, name: str, slug: str, plan: str
) -> asyncpg.Record:
    row = await tx.row(
        f"insert into tenants (id, name, slug, plan) values ($1, $2, $3, $4) returning {_TENANT}",
        tenant_id,
        name,
        slug,
        plan,
    )
    assert row is not None
    return row


async def lock_tenant(tx: Transaction, tenant_id: UUID) -> asyncpg.Record | None:
    return await tx.row(f"select {_TENANT} from tenants where id = $1 for update", tenant_id)


async def set_plan(
    tx: Transaction, tenant_id: UUID, plan: str, limits: dict[str, Any]
) -> asyncpg.Record:
    row = await tx.row(
        f"""update tenants set plan = $2, limits = $3, updated_at = now() where id = $1
            returning {_TENANT}""",
        tenant_id,
        plan,
        limits,
    )
    assert row is not None
    return row


async def audit(tx: Transaction, before: UUID, limit: int) -> list[asyncpg.Record]:
    return await tx.fetch(
        "select * from platform_audit_log where id < $1 order by id desc limit $2", before, limit
    )


async def lock_user(tx: Transaction, email: str) -> asyncpg.Record | None:
    return await tx.row("select id, platform_admin from users where email = $1 for update", email)


async def set_platform_admin(tx: Transaction, user_id: UUID, admin: bool) -> None:
    await tx.execute("update users set platform_admin = $2 where id = $1", user_id, admin)
