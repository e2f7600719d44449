"""The tenant's model settings: providers and their keys, the fallback chain, prices of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import (
    FallbackChainSet,
    PriceRemoved,
    PriceSet,
    ProviderConnected,
    ProviderRemoved,
    ProviderUpdated,
)
from agentos.integrations.models import repository
from agentos.integrations.models.directory import DEMO_PROVIDER, Directory
from agentos.integrations.models.errors import (
    BadChain,
    BaseUrlMissing,
    KeyMissing,
    KeyNeededAgain,
    ProviderInChain,
    ProviderNameTaken,
    ProviderUnknown,
)
from agentos.integrations.models.hosts import Hosts, checked_base_url
from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.schemas import (
    ChainPut,
    ChainRead,
    PricePut,
    PriceRead,
    ProviderCreate,
    ProviderRead,
    ProviderUpdate,
)
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.vault import service as secrets
from agentos.tenancy.vault.service import Vault
from agentos.tenancy.work import Work

# The plan's limit, and what all who change providers or the chain hold: the chain names only
# providers that are there.
_LIMIT = "model_providers"


@dataclass(frozen=True)
class ModelSettings:
    """The use-cases that change something."""

    vault: Vault
    directory: Directory
    hosts: Hosts
    # Where an Ollama is that nobody gave an address for.
    ollama_url: str

    async def connect_provider(self, work: Work, body: ProviderCreate) -> ProviderRead:
        """Connects a provider. Its key goes to the vault; whether it works is not tried."""
        work.require(Scope.MODELS_WRITE)
        name, provider = body.name or body.kind, PROVIDERS[body.kind]
        if provider.needs_key and body.key is None:
            raise KeyMissing()
        base_url = self._address(body.kind, body.base_url)
        await work.hold(_LIMIT)
        taken = await repository.provider_names(work.tx, work.tenant_id)
        await work.quota(_LIMIT, len(taken))
        # A secret that others keep under this name must not be replaced by who may not touch it.
        if name in taken or await secrets.exists(work, _secret_name(name)):
            raise ProviderNameTaken()
        if body.key is not None:
            await self.vault.store(work, _secret_name(name), body.key.get_secret_value())
        provider_id = uuid7()
        await repository.insert_provider(
            work.tx,
            work.tenant_id,
            provider_id,
            name=name,
            kind=body.kind,
            base_url=base_url,
            secret_name=None if body.key is None else _secret_name(name),
            requests_per_minute=body.requests_per_minute,
            created_by=work.principal.name,
        )
        row = await _row(work, provider_id)
        await work.record(
            "model.provider_connected",
            ProviderConnected(provider_id=provider_id, name=name, kind=body.kind),
            target=("model_provider", provider_id),
            after=_state(row),
        )
        self._changed(work)
        return _read(row)

    async def update_provider(
        self, work: Work, provider_id: UUID, body: ProviderUpdate
    ) -> ProviderRead:
        """Changes what the body names; a null goes back to the default, or removes the key."""
        work.require(Scope.MODELS_WRITE)
        await work.hold(_LIMIT)
        before = await _row(work, provider_id)
        given = body.model_fields_set
        base_url = before["base_url"]
        if "base_url" in given:
            base_url = self._address(before["kind"], body.base_url)
        moved = base_url != before["base_url"]
        if moved and before["secret_name"] is not None and "key" not in given:
            raise KeyNeededAgain()
        secret_name = before["secret_name"]
        if "key" in given:
            secret_name = await self._replace_key(work, before, body)
        await repository.update_provider(
            work.tx,
            work.tenant_id,
            provider_id,
            base_url=base_url,
            secret_name=secret_name,
            requests_per_minute=body.requests_per_minute
            if "requests_per_minute" in given
            else before["requests_per_minute"],
        )
        row = await _row(work, provider_id)
        await work.record(
            "model.provider_updated",
            ProviderUpdated(provider_id=provider_id, name=row["name"], changed=sorted(given)),
            target=("model_provider", provider_id),
            before=_state(before),
            after=_state(row) | ({"key_replaced": True} if "key" in given else {}),
        )
        self._changed(work)
        return _read(row)

    async def remove_provider(self, work: Work, provider_id: UUID) -> None:
        """Removes a provider with its key and its prices, unless the chain names it."""
        work.require(Scope.MODELS_WRITE)
        await work.hold(_LIMIT)
        row = await _row(work, provider_id)
        chain = await repository.chain(work.tx, work.tenant_id)
        if chain is not None and row["name"] in map(_provider_of, chain["targets"]):
            raise ProviderInChain()
        if row["secret_name"] is not None:
            await secrets.delete(work, row["secret_name"])
        for price in await repository.delete_prices_of(work.tx, work.tenant_id, row["name"]):
            await _record_price_removed(work, price)
        await repository.delete_provider(work.tx, work.tenant_id, provider_id)
        await work.record(
            "model.provider_removed",
            ProviderRemoved(provider_id=provider_id, name=row["name"]),
            target=("model_provider", provider_id),
            before=_state(row),
        )
        self._changed(work)

    async def set_chain(self, work: Work, body: ChainPut) -> ChainRead:
        """Sets where a call goes when its first choice fails."""
        work.require(Scope.MODELS_WRITE)
        await work.hold(_LIMIT)
        await _check_targets(work, body.targets)
        before = await repository.chain(work.tx, work.tenant_id)
        fall_back_on = list(dict.fromkeys(body.fall_back_on))
        row = await repository.put_chain(work.tx, work.tenant_id, body.targets, fall_back_on)
        await _record_chain(work, before, row)
        self._changed(work)
        return ChainRead(**row)

    async def clear_chain(self, work: Work) -> None:
        """Removes the chain: a call that fails has failed."""
        work.require(Scope.MODELS_WRITE)
        await work.hold(_LIMIT)
        before = await repository.chain(work.tx, work.tenant_id)
        if before is None:
            return
        await repository.delete_chain(work.tx, work.tenant_id)
        await _record_chain(work, before, None)
        self._changed(work)

    async def set_price(self, work: Work, body: PricePut) -> PriceRead:
        """Sets what a model costs this tenant, whatever the catalogue says."""
        work.require(Scope.MODELS_WRITE)
        await work.hold(_LIMIT)
        if body.provider not in await _known_names(work):
            raise ProviderUnknown()
        before = await repository.price(work.tx, work.tenant_id, body.provider, body.model)
        row = await repository.put_price(
            work.tx,
            work.tenant_id,
            uuid7(),
            provider_name=body.provider,
            model=body.model,
            input=body.input,
            output=body.output,
            cache_read=body.input if body.cache_read is None else body.cache_read,
            cache_write=body.input if body.cache_write is None else body.cache_write,
        )
        await work.record(
            "model.price_set",
            PriceSet(provider=body.provider, model=body.model),
            target=("model_price", row["id"]),
            before=None if before is None else _price_state(before),
            after=_price_state(row),
        )
        self._changed(work)
        return PriceRead(**row)

    async def remove_price(self, work: Work, price_id: UUID) -> None:
        """Removes a price of the tenant's own; the catalogue's holds again."""
        work.require(Scope.MODELS_WRITE)
        row = await repository.delete_price(work.tx, work.tenant_id, price_id)
        if row is None:
            raise NotFound()
        await _record_price_removed(work, row)
        self._changed(work)

    def _address(self, kind: str, base_url: str | None) -> str | None:
        """The address to keep; None: the usual one of the kind."""
        if base_url is not None:
            return checked_base_url(base_url, self.hosts)
        if kind == "ollama":
            return checked_base_url(self.ollama_url, self.hosts)
        if PROVIDERS[kind].base_url is None:
            raise BaseUrlMissing()
        return None

    async def _replace_key(
        self, work: Work, before: asyncpg.Record, body: ProviderUpdate
    ) -> str | None:
        """Stores the key of the body, or removes the one there is; the name of the secret."""
        name = _secret_name(before["name"])
        if body.key is not None:
            if before["secret_name"] is None and await secrets.exists(work, name):
                raise ProviderNameTaken()
            await self.vault.store(work, name, body.key.get_secret_value())
            return name
        if PROVIDERS[before["kind"]].needs_key:
            raise KeyMissing()
        if before["secret_name"] is not None:
            await secrets.delete(work, name)
        return None

    def _changed(self, work: Work) -> None:
        tenant_id = work.tenant_id
        work.tx.after_commit(lambda: self.directory.forget(tenant_id))


async def list_providers(work: Work, page: PageRequest) -> RowPage[ProviderRead]:
    work.require(Scope.MODELS_READ)
    rows = await repository.providers(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(ProviderRead, rows)


async def read_provider(work: Work, provider_id: UUID) -> ProviderRead:
    work.require(Scope.MODELS_READ)
    return _read(await _row(work, provider_id))


async def read_chain(work: Work) -> ChainRead:
    work.require(Scope.MODELS_READ)
    row = await repository.chain(work.tx, work.tenant_id)
    if row is None:
        return ChainRead(targets=[], fall_back_on=[], updated_at=None)
    return ChainRead(**row)


async def list_prices(work: Work, page: PageRequest) -> RowPage[PriceRead]:
    work.require(Scope.MODELS_READ)
    rows = await repository.prices(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(PriceRead, rows)


async def _row(work: Work, provider_id: UUID) -> asyncpg.Record:
    row = await repository.provider(work.tx, work.tenant_id, provider_id)
    if row is None:
        raise NotFound()
    return row


def _read(row: asyncpg.Record) -> ProviderRead:
    return ProviderRead(**{name: row[name] for name in ProviderRead.model_fields})


async def _known_names(work: Work) -> set[str]:
    return await repository.provider_names(work.tx, work.tenant_id) | {DEMO_PROVIDER.name}


async def _check_targets(work: Work, targets: list[str]) -> None:
    """Raises BadChain, which says where but not what: an error repeats nothing that was sent."""
    if len(set(targets)) < len(targets):
        raise BadChain("A target is named twice.")
    known = await _known_names(work)
    for position, target in enumerate(targets, 1):
        name, slash, model = target.partition("/")
        if not slash or not model:
            raise BadChain(f"Target {position} is not written as provider/model.")
        if name not in known:
            raise BadChain(f"Target {position} names a provider that is not connected.")


def _provider_of(target: str) -> str:
    return target.partition("/")[0]


def _secret_name(name: str) -> str:
    return f"provider-{name}"


def _state(row: asyncpg.Record) -> dict[str, Any]:
    shown = ("name", "kind", "base_url", "requests_per_minute")
    return {field: row[field] for field in shown} | {"has_key": row["secret_name"] is not None}


async def _record_chain(
    work: Work, before: asyncpg.Record | None, after: asyncpg.Record | None
) -> None:
    def state(row: asyncpg.Record | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {"targets": list(row["targets"]), "fall_back_on": list(row["fall_back_on"])}

    await work.record(
        "model.fallback_chain_set" if after is not None else "model.fallback_chain_removed",
        FallbackChainSet(targets=[] if after is None else list(after["targets"])),
        target=("fallback_chain", work.tenant_id),
        before=state(before),
        after=state(after),
    )


def _price_state(row: asyncpg.Record) -> dict[str, Any]:
    shown = ("provider", "model", "input", "output", "cache_read", "cache_write")
    return {field: row[field] for field in shown}


async def _record_price_removed(work: Work, row: asyncpg.Record) -> None:
    await work.record(
        "model.price_removed",
        PriceRemoved(provider=row["provider"], model=row["model"]),
        target=("model_price", row["id"]),
        before=_price_state(row),
    )
