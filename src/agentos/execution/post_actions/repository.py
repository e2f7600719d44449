from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

READ = """id, name, schedule_id, webhook_id, after, method, url, headers, body, auth, max_attempts,
    enabled, created_at, updated_at"""


async def insert(tx: Transaction, tenant_id: UUID, values: dict[str, Any]) -> None:
    names = ["tenant_id", *values]
    places = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    await tx.execute(
        f"insert into post_actions ({', '.join(names)}) values ({places})",
        tenant_id,
        *values.values(),
    )


async def update(
    tx: Transaction, tenant_id: UUID, post_action_id: UUID, values: dict[str, Any]
) -> None:
    places = ", ".join(f"{name} = ${n}" for n, name in enumerate(values, 3))
    await tx.execute(
        f"update post_actions set {places} where tenant_id = $1 and id = $2",
        tenant_id,
        post_action_id,
        *values.values(),
    )


async def find(
    tx: Transaction, tenant_id: UUID, post_action_id: UUID, *, lock: bool = False
) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {READ} from post_actions where tenant_id = $1 and id = $2
            {"for update" if lock else ""}""",
        tenant_id,
        post_action_id,
    )


async def page(
    tx: Transaction,
    tenant_id: UUID,
    *,
    schedule_id: UUID | None,
    webhook_id: UUID | None,
    after: UUID,
    limit: int,
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {READ} from post_actions where tenant_id = $1 and id > $2
              and ($3::uuid is null or schedule_id = $3)
              and ($4::uuid is null or webhook_id = $4)
            order by id limit $5""",
        tenant_id,
        after,
        schedule_id,
        webhook_id,
        limit,
    )


async def delete(tx: Transaction, tenant_id: UUID, post_action_id: UUID) -> None:
    await tx.execute(
        "delete from post_actions where tenant_id = $1 and id = $2", tenant_id, post_action_id
    )


async def source_exists(
    tx: Transaction, tenant_id: UUID, schedule_id: UUID | None, webhook_id: UUID | None
) -> bool:
    table = "schedules" if schedule_id is not None else "webhooks"
    found: bool = await tx.value(
        f"select exists (select from {table} where tenant_id = $1 and id = $2)",
        tenant_id,
        schedule_id or webhook_id,
    )
    return found
