from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.tenancy.audit.schemas import AuditFilter

_COLUMNS = (
    "id, at, actor_kind, actor_id, actor_name, action, target_kind, target_id, "
    "before, after, request_id"
)
_CONDITIONS = {
    "action": "action =",
    "actor_id": "actor_id =",
    "target_kind": "target_kind =",
    "target_id": "target_id =",
    "request_id": "request_id =",
    "since": "at >=",
    "until": "at <",
}


async def entries(
    tx: Transaction, tenant_id: UUID, wanted: AuditFilter, before: UUID | None, limit: int
) -> list[asyncpg.Record]:
    """Matching entries that are older than `before`, newest first."""
    # Only the conditions asked for: `$n is null or …` would keep the indexes from being used.
    args: list[Any] = [tenant_id, limit]
    where = "tenant_id = $1"
    if before is not None:
        args.append(before)
        where += f" and id < ${len(args)}"
    for field in fields(wanted):
        value = getattr(wanted, field.name)
        if value is not None:
            args.append(value)
            where += f" and {_CONDITIONS[field.name]} ${len(args)}"
    return await tx.fetch(
        f"select {_COLUMNS} from audit_log where {where} order by id desc limit $2", *args
    )
