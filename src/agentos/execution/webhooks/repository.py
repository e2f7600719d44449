from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.runs.repository import last_run_of
from agentos.execution.webhooks.errors import WebhookNameTaken
from agentos.kernel.database import Transaction

READ = """id, name, team_id, prompt, session, token_hint, enabled, max_unfinished, used_at, created_by,
    created_at, updated_at"""
_SHOWN = f"{READ}, {last_run_of('webhooks')}"


async def insert(tx: Transaction, tenant_id: UUID, values: dict[str, Any]) -> None:
    names = ["tenant_id", *values]
    places = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    try:
        await tx.execute(
            f"insert into webhooks ({', '.join(names)}) values ({places})",
            tenant_id,
            *values.values(),
        )
    except asyncpg.UniqueViolationError:
        raise WebhookNameTaken() from None


async def update(
    tx: Transaction, tenant_id: UUID, webhook_id: UUID, values: dict[str, Any]
) -> None:
    places = ", ".join(f"{name} = ${n}" for n, name in enumerate(values, 3))
    try:
        await tx.execute(
            f"update webhooks set {places} where tenant_id = $1 and id = $2",
            tenant_id,
            webhook_id,
            *values.values(),
        )
    except asyncpg.UniqueViolationError:
        raise WebhookNameTaken() from None


async def find(
    tx: Transaction, tenant_id: UUID, webhook_id: UUID, *, lock: bool = False
) -> asyncpg.Record | None:
    """One webhook; locked it is there to be used, not to be shown, and comes without its runs."""
    return await tx.row(
        f"select {READ} from webhooks where tenant_id = $1 and id = $2 for update"
        if lock
        else f"select {_SHOWN} from webhooks where tenant_id = $1 and id = $2",
        tenant_id,
        webhook_id,
    )


async def page(
    tx: Transaction, tenant_id: UUID, team_id: UUID | None, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_SHOWN} from webhooks where tenant_id = $1 and id > $2
              and ($3::uuid is null or team_id = $3) order by id limit $4""",
        tenant_id,
        after,
        team_id,
        limit,
    )


async def delete(tx: Transaction, tenant_id: UUID, webhook_id: UUID) -> None:
    await tx.execute("delete from webhooks where tenant_id = $1 and id = $2", tenant_id, webhook_id)


async def principal(tx: Transaction, tenant_id: UUID, digest: bytes) -> asyncpg.Record | None:
    """The webhook whose token this is, if it is enabled, and its tenant's plan."""
    return await tx.row(
        """select w.id, w.name, t.plan, t.limits from webhooks w join tenants t on t.id = w.tenant_id
           where w.tenant_id = $1 and w.token_hash = $2 and w.enabled""",
        tenant_id,
        digest,
    )


async def touch(tx: Transaction, tenant_id: UUID, webhook_id: UUID, now: datetime) -> None:
    await tx.execute(
        "update webhooks set used_at = $3 where tenant_id = $1 and id = $2",
        tenant_id,
        webhook_id,
        now,
    )
