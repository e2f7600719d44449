from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.kernel.objects import MAX_NAME_BYTES

_COLUMNS = "id, key, size, content_type, encode(sha256, 'hex') as sha256, created_at"
# Byte order, whatever the locale of the database: a page goes on where the one before ended.
_KEY = 'key collate "C"'
# The last character in byte order, as often as a key can hold it: no key with a prefix is greater.
_LAST = "\U0010ffff" * (MAX_NAME_BYTES // 4)


@dataclass(frozen=True, slots=True)
class Usage:
    bytes: int = 0
    objects: int = 0


async def find(tx: Transaction, tenant_id: UUID, key: str) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_COLUMNS} from objects where tenant_id = $1 and key = $2", tenant_id, key
    )


async def page(
    tx: Transaction, tenant_id: UUID, prefix: str, after: str, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_COLUMNS} from objects
            where tenant_id = $1 and starts_with(key, $2)
              and {_KEY} >= $2 and {_KEY} <= $3 and {_KEY} > $4
            order by {_KEY} limit $5""",
        tenant_id,
        prefix,
        prefix + _LAST,
        after,
        limit,
    )


async def upsert(
    tx: Transaction,
    tenant_id: UUID,
    object_id: UUID,
    *,
    key: str,
    size: int,
    content_type: str,
    sha256: bytes,
    now: datetime,
) -> asyncpg.Record:
    row = await tx.row(
        f"""insert into objects (tenant_id, id, key, size, content_type, sha256, created_at)
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict (tenant_id, key) do update set id = excluded.id, size = excluded.size,
                content_type = excluded.content_type, sha256 = excluded.sha256,
                created_at = excluded.created_at
            returning {_COLUMNS}""",
        tenant_id,
        object_id,
        key,
        size,
        content_type,
        sha256,
        now,
    )
    assert row is not None
    return row


async def delete(tx: Transaction, tenant_id: UUID, key: str) -> asyncpg.Record | None:
    return await tx.row(
        f"delete from objects where tenant_id = $1 and key = $2 returning {_COLUMNS}",
        tenant_id,
        key,
    )


async def usage(tx: Transaction, tenant_id: UUID) -> Usage:
    row = await tx.row("select bytes, objects from storage_usage where tenant_id = $1", tenant_id)
    return Usage(*row) if row is not None else Usage()


async def hold_usage(tx: Transaction, tenant_id: UUID) -> Usage:
    """The usage of a tenant, which nobody else changes until the transaction ends."""
    row = await tx.row(
        """insert into storage_usage as u (tenant_id, bytes, objects) values ($1, 0, 0)
           on conflict (tenant_id) do update set bytes = u.bytes
           returning bytes, objects""",
        tenant_id,
    )
    assert row is not None
    return Usage(*row)


async def add_usage(tx: Transaction, tenant_id: UUID, size: int, objects: int) -> None:
    await tx.execute(
        """update storage_usage set bytes = bytes + $2, objects = objects + $3
           where tenant_id = $1""",
        tenant_id,
        size,
        objects,
    )


async def allowance(tx: Transaction, tenant_id: UUID, key: str) -> asyncpg.Record:
    """The tenant's plan, the bytes it has stored, and those an upload to `key` would free."""
    row = await tx.row(
        """select t.plan, t.limits, coalesce(u.bytes, 0) as used, coalesce(o.size, 0) as freed
           from tenants t
           left join storage_usage u on u.tenant_id = t.id
           left join objects o on o.tenant_id = t.id and o.key = $2
           where t.id = $1""",
        tenant_id,
        key,
    )
    assert row is not None, "a principal's tenant exists"
    return row


async def discard(tx: Transaction, tenant_id: UUID, object_id: UUID) -> None:
    """Leaves a blob to the sweeper."""
    await tx.execute(
        "insert into discarded_objects (tenant_id, id) values ($1, $2)", tenant_id, object_id
    )


async def adopt(tx: Transaction, tenant_id: UUID, object_id: UUID) -> bool:
    """Takes a blob back from the sweeper; False if it was swept already."""
    return bool(
        await tx.execute(
            "delete from discarded_objects where tenant_id = $1 and id = $2", tenant_id, object_id
        )
    )


async def begin_sweep(tx: Transaction) -> bool:
    """False if another sweep is at work; otherwise none can begin until this one's batch ends."""
    alone: bool = await tx.value(
        "select pg_try_advisory_xact_lock(hashtextextended('objects:sweep', 0))"
    )
    return alone


async def take_discarded(
    tx: Transaction, older_than: timedelta, after: UUID, limit: int
) -> list[tuple[UUID, UUID]]:
    """Removes a batch of discarded blobs from the list, oldest id first, and says which."""
    rows = await tx.fetch(
        """with old as (
               select tenant_id, id from discarded_objects d
               where discarded_at <= now() - $1::interval and id > $2
                 -- A row that names the blob would be a bug; but bytes do not come back.
                 and not exists (
                     select from objects o where o.tenant_id = d.tenant_id and o.id = d.id)
               order by id limit $3)
           delete from discarded_objects d using old
           where d.tenant_id = old.tenant_id and d.id = old.id
           returning d.tenant_id, d.id""",
        older_than,
        after,
        limit,
    )
    return sorted(((row["tenant_id"], row["id"]) for row in rows), key=lambda pair: pair[1])
