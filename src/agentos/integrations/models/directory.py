"""Which models a tenant can use, and how: its providers with their keys, its chain, its prices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from agentos.integrations.models import repository
from agentos.integrations.models.errors import ProviderKeyLost
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.prices import Rates
from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.providers.base import Connection, Provider
from agentos.integrations.models.providers.demo import DEMO
from agentos.integrations.models.remembered import Remembered
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.tenancy.vault.errors import KekMissing, SecretDamaged
from agentos.tenancy.vault.service import Vault

log = get_logger(__name__)

# How long a process believes what it read about a tenant, as with credentials: a key that was
# removed is used nowhere after this, without any process having to tell the others.
_TRUST_SECONDS = 1.0
_MOST_TENANTS = 5_000
# One id for all tenants: it is one model, in this process.
DEMO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ConnectedProvider:
    id: UUID
    name: str
    provider: Provider
    connection: Connection
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class FallbackChain:
    """Targets are `provider/model`, in the order in which they are tried."""

    targets: tuple[str, ...] = ()
    fall_back_on: frozenset[ErrorClass] = frozenset()


@dataclass(frozen=True, slots=True)
class TenantModels:
    """The built-in provider is always among the providers, as the last."""

    providers: tuple[ConnectedProvider, ...]
    chain: FallbackChain
    # By (provider name, model).
    prices: Mapping[tuple[str, str], Rates]
    # Names of providers that are connected, but whose key cannot be read.
    keyless: tuple[str, ...] = ()
    # What routing has found out by now; it is asked several times for every call.
    routes: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


DEMO_PROVIDER = ConnectedProvider(
    DEMO_ID, DEMO.kind, DEMO, Connection(base_url=DEMO.base_url or "", key=None)
)


class Directory:
    """The models of every tenant, with decrypted keys: in memory only, and only for a moment."""

    def __init__(self, db: Database, vault: Vault, now: Callable[[], float] = time.monotonic):
        self._db = db
        self._vault = vault
        self._known: Remembered[TenantId, TenantModels] = Remembered(
            self._read, seconds=lambda _: _TRUST_SECONDS, most=_MOST_TENANTS, now=now
        )

    async def of(self, tenant_id: TenantId) -> TenantModels:
        return await self._known.of(tenant_id)

    async def within(self, tx: Transaction, tenant_id: TenantId) -> TenantModels:
        """The same for who has a transaction of that tenant open. If it asked for a second
        connection, as many of its kind as there are connections would wait for each other.
        """
        return await self._known.of_reader(tenant_id, lambda: self._read_in(tx, tenant_id))

    def forget(self, tenant_id: TenantId) -> None:
        """For the process that changed something, once that is committed."""
        self._known.forget(tenant_id)

    async def provider(self, tenant_id: TenantId, provider_id: UUID) -> ConnectedProvider:
        """One provider as it is at this moment. Raises NotFound, ProviderKeyLost."""
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            row = await repository.provider(tx, tenant_id, provider_id)
            if row is None or row["kind"] not in PROVIDERS:
                raise NotFound()
            return await self._connected(tx, tenant_id, row)

    async def _read(self, tenant_id: TenantId) -> TenantModels:
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            return await self._read_in(tx, tenant_id)

    async def _read_in(self, tx: Transaction, tenant_id: TenantId) -> TenantModels:
        providers: list[ConnectedProvider] = []
        keyless: list[str] = []
        chain = await repository.chain(tx, tenant_id)
        prices = await repository.all_prices(tx, tenant_id)
        for row in await repository.connections(tx, tenant_id):
            if row["kind"] not in PROVIDERS:
                log.warning("a provider of an unknown kind is left out", kind=row["kind"])
                continue
            try:
                providers.append(await self._connected(tx, tenant_id, row))
            except ProviderKeyLost as error:
                log.warning(
                    "a provider is left out: its key cannot be read",
                    provider_id=str(row["id"]),
                    reason=error.details["reason"],
                )
                keyless.append(row["name"])
        return TenantModels(
            (*providers, DEMO_PROVIDER),
            _chain(chain),
            {(row["provider"], row["model"]): own_rates(row) for row in prices},
            tuple(keyless),
        )

    async def _connected(
        self, tx: Transaction, tenant_id: TenantId, row: asyncpg.Record
    ) -> ConnectedProvider:
        provider = PROVIDERS[row["kind"]]
        base_url = row["base_url"] or provider.base_url
        assert base_url is not None, "who needs a base URL is not connected without"
        key = None
        if row["secret_name"] is not None:
            try:
                key = await self._vault.reveal(tx, tenant_id, row["secret_name"])
            except (NotFound, SecretDamaged, KekMissing) as error:
                raise ProviderKeyLost(provider=row["name"], reason=error.code) from error
        return ConnectedProvider(
            row["id"],
            row["name"],
            provider,
            Connection(base_url, key),
            row["requests_per_minute"],
        )


def own_rates(row: asyncpg.Record) -> Rates:
    """A tenant's own price. One price for all cache writes: who sets their own has one."""
    return Rates(
        input=row["input"],
        output=row["output"],
        cache_read=row["cache_read"],
        cache_write=row["cache_write"],
        cache_write_long=row["cache_write"],
    )


def _chain(row: asyncpg.Record | None) -> FallbackChain:
    if row is None:
        return FallbackChain()
    return FallbackChain(
        tuple(row["targets"]), frozenset(ErrorClass(name) for name in row["fall_back_on"])
    )
