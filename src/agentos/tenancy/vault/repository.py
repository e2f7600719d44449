from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7

_COLUMNS = "id, name, version, last_four, created_at, updated_at"


async def secret(tx: Transaction, tenant_id: UUID, name: str) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_COLUMNS} from vault_secrets where tenant_id = $1 and name = $2", tenant_id, name
    )


async def secrets(
    tx: Transaction, tenant_id: UUID, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_COLUMNS} from vault_secrets where tenant_id = $1 and id > $2
            order by id limit $3""",
        tenant_id,
        after,
        limit,
    )


async def count(tx: Transaction, tenant_id: UUID) -> int:
    number: int = await tx.value(
        "select count(*) from vault_secrets where tenant_id = $1", tenant_id
    )
    return number


async def put(
    tx: Transaction,
    tenant_id: UUID,
    secret_id: UUID,
    *,
    name: str,
    version: int,
    key_version: int,
    ciphertext: bytes,
    last_four: str,
    now: datetime,
) -> asyncpg.Record:
    row = await tx.row(
        f"""insert into vault_secrets as s (tenant_id, id, name, version, key_version, ciphertext,
                last_four, created_at, updated_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $8)
            on conflict (tenant_id, id) do update set version = excluded.version,
                key_version = excluded.key_version, ciphertext = excluded.ciphertext,
                last_four = excluded.last_four, updated_at = excluded.updated_at
            returning {_COLUMNS}""",
        tenant_id,
        secret_id,
        name,
        version,
        key_version,
        ciphertext,
        last_four,
        now,
    )
    assert row is not None
    return row


async def delete(tx: Transaction, tenant_id: UUID, name: str) -> asyncpg.Record | None:
    return await tx.row(
        f"delete from vault_secrets where tenant_id = $1 and name = $2 returning {_COLUMNS}",
        tenant_id,
        name,
    )


async def sealed(tx: Transaction, tenant_id: UUID, name: str) -> asyncpg.Record | None:
    """A secret with its key. One statement sees both as of one moment, so it needs no lock."""
    return await tx.row(
        """select s.id, s.name, s.version, s.ciphertext, s.key_version, k.kek_id, k.wrapped
           from vault_secrets s
           join vault_keys k on k.tenant_id = s.tenant_id and k.version = s.key_version
           where s.tenant_id = $1 and s.name = $2""",
        tenant_id,
        name,
    )


# Keys of a tenant


async def keys(tx: Transaction, tenant_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select version, kek_id, wrapped from vault_keys where tenant_id = $1
           order by version""",
        tenant_id,
    )


async def insert_key(
    tx: Transaction, tenant_id: UUID, version: int, kek_id: str, wrapped: bytes
) -> None:
    """Adds a key version, unless somebody else has just added the same one."""
    await tx.execute(
        """insert into vault_keys (tenant_id, version, kek_id, wrapped) values ($1, $2, $3, $4)
           on conflict (tenant_id, version) do nothing""",
        tenant_id,
        version,
        kek_id,
        wrapped,
    )


async def sealed_before(
    tx: Transaction, tenant_id: UUID, key_version: int, limit: int
) -> list[asyncpg.Record]:
    """Some of the secrets that are still under an older key."""
    return await tx.fetch(
        """select id, name, version, key_version, ciphertext from vault_secrets
           where tenant_id = $1 and key_version < $2 order by key_version, id limit $3""",
        tenant_id,
        key_version,
        limit,
    )


async def reseal(
    tx: Transaction,
    tenant_id: UUID,
    key_version: int,
    ids: Sequence[UUID],
    ciphertexts: Sequence[bytes],
) -> None:
    await tx.execute(
        """update vault_secrets s set key_version = $2, ciphertext = n.ciphertext
           from unnest($3::uuid[], $4::bytea[]) as n (id, ciphertext)
           where s.tenant_id = $1 and s.id = n.id""",
        tenant_id,
        key_version,
        ids,
        ciphertexts,
    )


async def delete_unused_key(tx: Transaction, tenant_id: UUID, version: int) -> None:
    await tx.execute(
        """delete from vault_keys k where k.tenant_id = $1 and k.version = $2 and not exists
               (select from vault_secrets s where s.tenant_id = $1 and s.key_version = $2)""",
        tenant_id,
        version,
    )


# Keys of all tenants, for the platform role


async def keys_to_rewrap(
    tx: Transaction, kek_id: str, after: tuple[UUID, int], limit: int
) -> list[asyncpg.Record]:
    """Keys not under this KEK, locked. `no key update` lets secrets be stored meanwhile."""
    return await tx.fetch(
        """select tenant_id, version, kek_id, wrapped from vault_keys
           where kek_id <> $1 and (tenant_id, version) > ($2, $3)
           order by tenant_id, version limit $4 for no key update""",
        kek_id,
        *after,
        limit,
    )


async def rewrap(
    tx: Transaction, tenant_id: UUID, version: int, kek_id: str, wrapped: bytes
) -> None:
    await tx.execute(
        "update vault_keys set kek_id = $3, wrapped = $4 where tenant_id = $1 and version = $2",
        tenant_id,
        version,
        kek_id,
        wrapped,
    )


async def record_rewrap(tx: Transaction, now: datetime, details: dict[str, Any]) -> None:
    await tx.execute(
        """insert into platform_audit_log (id, at, actor_id, actor_name, action, details)
           values ($1, $2, 'system', 'system', 'vault.keys_rewrapped', $3)""",
        uuid7(),
        now,
        details,
    )
