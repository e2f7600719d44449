from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_PROVIDER = """p.id, p.name, p.kind, p.base_url, s.last_four, p.requests_per_minute,
    p.created_by, p.created_at, p.updated_at"""
# The vault knows the end of the key.
_WITH_ENDING = """left join vault_secrets s
    on s.tenant_id = p.tenant_id and s.name = p.secret_name"""
_PRICE = "id, provider, model, input, output, cache_read, cache_write, updated_at"


# Providers


async def insert_provider(
    tx: Transaction,
    tenant_id: UUID,
    provider_id: UUID,
    *,
    name: str,
    kind: str,
    base_url: str | None,
    secret_name: str | None,
    requests_per_minute: int | None,
    created_by: str,
) -> None:
    await tx.execute(
        """insert into model_providers (tenant_id, id, name, kind, base_url, secret_name,
               requests_per_minute, created_by)
           values ($1, $2, $3, $4, $5, $6, $7, $8)""",
        tenant_id,
        provider_id,
        name,
        kind,
        base_url,
        secret_name,
        requests_per_minute,
        created_by,
    )


async def update_provider(
    tx: Transaction,
    tenant_id: UUID,
    provider_id: UUID,
    *,
    base_url: str | None,
    secret_name: str | None,
    requests_per_minute: int | None,
) -> None:
    await tx.execute(
        """update model_providers set base_url = $3, secret_name = $4, requests_per_minute = $5,
               updated_at = now()
           where tenant_id = $1 and id = $2""",
        tenant_id,
        provider_id,
        base_url,
        secret_name,
        requests_per_minute,
    )


async def delete_provider(tx: Transaction, tenant_id: UUID, provider_id: UUID) -> None:
    await tx.execute(
        "delete from model_providers where tenant_id = $1 and id = $2", tenant_id, provider_id
    )


async def provider(tx: Transaction, tenant_id: UUID, provider_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_PROVIDER}, p.secret_name from model_providers p {_WITH_ENDING}
            where p.tenant_id = $1 and p.id = $2""",
        tenant_id,
        provider_id,
    )


async def providers(
    tx: Transaction, tenant_id: UUID, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_PROVIDER} from model_providers p {_WITH_ENDING}
            where p.tenant_id = $1 and p.id > $2 order by p.id limit $3""",
        tenant_id,
        after,
        limit,
    )


async def connections(tx: Transaction, tenant_id: UUID) -> list[asyncpg.Record]:
    """What it takes to reach each provider, in the order in which they were connected."""
    return await tx.fetch(
        """select id, name, kind, base_url, secret_name, requests_per_minute from model_providers
           where tenant_id = $1 order by id""",
        tenant_id,
    )


async def provider_names(tx: Transaction, tenant_id: UUID) -> set[str]:
    rows = await tx.fetch("select name from model_providers where tenant_id = $1", tenant_id)
    return {row["name"] for row in rows}


# The fallback chain


async def chain(tx: Transaction, tenant_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        "select targets, fall_back_on, updated_at from fallback_chains where tenant_id = $1",
        tenant_id,
    )


async def put_chain(
    tx: Transaction, tenant_id: UUID, targets: Sequence[str], fall_back_on: Sequence[str]
) -> asyncpg.Record:
    row = await tx.row(
        """insert into fallback_chains (tenant_id, targets, fall_back_on) values ($1, $2, $3)
           on conflict (tenant_id) do update set targets = excluded.targets,
               fall_back_on = excluded.fall_back_on, updated_at = now()
           returning targets, fall_back_on, updated_at""",
        tenant_id,
        targets,
        fall_back_on,
    )
    assert row is not None
    return row


async def delete_chain(tx: Transaction, tenant_id: UUID) -> None:
    await tx.execute("delete from fallback_chains where tenant_id = $1", tenant_id)


# Prices


async def prices(tx: Transaction, tenant_id: UUID, after: UUID, limit: int) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"select {_PRICE} from model_prices where tenant_id = $1 and id > $2 order by id limit $3",
        tenant_id,
        after,
        limit,
    )


async def all_prices(tx: Transaction, tenant_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(f"select {_PRICE} from model_prices where tenant_id = $1", tenant_id)


async def price(
    tx: Transaction, tenant_id: UUID, provider_name: str, model: str
) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_PRICE} from model_prices where tenant_id = $1 and provider = $2 and model = $3",
        tenant_id,
        provider_name,
        model,
    )


async def put_price(
    tx: Transaction,
    tenant_id: UUID,
    price_id: UUID,
    *,
    provider_name: str,
    model: str,
    input: int,
    output: int,
    cache_read: int,
    cache_write: int,
) -> asyncpg.Record:
    row = await tx.row(
        f"""insert into model_prices
                (tenant_id, id, provider, model, input, output, cache_read, cache_write)
            values ($1, $2, $3, $4, $5, $6, $7, $8)
            on conflict (tenant_id, provider, model) do update set input = excluded.input,
                output = excluded.output, cache_read = excluded.cache_read,
                cache_write = excluded.cache_write, updated_at = now()
            returning {_PRICE}""",
        tenant_id,
        price_id,
        provider_name,
        model,
        input,
        output,
        cache_read,
        cache_write,
    )
    assert row is not None
    return row


async def delete_price(tx: Transaction, tenant_id: UUID, price_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"delete from model_prices where tenant_id = $1 and id = $2 returning {_PRICE}",
        tenant_id,
        price_id,
    )


async def delete_prices_of(
    tx: Transaction, tenant_id: UUID, provider_name: str
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"delete from model_prices where tenant_id = $1 and provider = $2 returning {_PRICE}",
        tenant_id,
        provider_name,
    )
