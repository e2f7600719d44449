"""Lists of models as a process keeps them, and what happens while a provider does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.conftest import TenantWork
from tests.gateways import Gateway

from agentos.integrations.models.aiohttp_upstream import AiohttpUpstream
from agentos.integrations.models.directory import Directory
from agentos.integrations.models.listing import Listing
from agentos.integrations.models.prices import Catalogue
from agentos.integrations.models.schemas import ModelList, ProviderCreate
from agentos.integrations.models.service import ModelSettings
from agentos.kernel.database import Database
from agentos.tenancy.principals import Principal
from agentos.tenancy.vault.keyring import EnvironmentKeyring
from agentos.tenancy.vault.service import Vault
from agentos.testing import Fault
from agentos.testing.vendors import OllamaServer


class Time:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def ollama() -> AsyncIterator[OllamaServer]:
    async with OllamaServer() as server:
        yield server


@pytest.fixture
async def directory(db: Database) -> Directory:
    return Directory(db, Vault(EnvironmentKeyring("k:" + "a" * 64)))


@pytest.fixture
async def listing(directory: Directory, time: Time) -> AsyncIterator[Listing]:
    upstream = AiohttpUpstream()
    yield Listing(upstream, directory, Catalogue(), time)
    await upstream.close()


@pytest.fixture
async def principal(
    tenant_work: TenantWork, directory: Directory, ollama: OllamaServer
) -> Principal:
    """The owner of a tenant that has connected the Ollama."""
    settings = ModelSettings(
        Vault(EnvironmentKeyring("k:" + "a" * 64)), directory, "any", ollama.url
    )
    async with tenant_work() as work:
        await settings.connect_provider(work, ProviderCreate(kind="ollama"))
        return work.principal


def _ollamas(listed: ModelList) -> list[str]:
    return [item.model for item in listed.items if item.provider == "ollama"]


async def test_a_list_is_believed_for_a_minute(
    listing: Listing, principal: Principal, ollama: OllamaServer, time: Time
) -> None:
    before = _ollamas(await listing.all_models(principal))
    ollama.models = ["new:latest"]
    time.seconds += 59
    assert _ollamas(await listing.all_models(principal)) == before
    time.seconds += 2
    assert _ollamas(await listing.all_models(principal)) == ["new:latest"]


async def test_a_failure_is_believed_for_moments(
    listing: Listing, principal: Principal, ollama: OllamaServer, time: Time
) -> None:
    ollama.queue(Fault.server_error(), on="models")
    for _ in range(2):
        listed = await listing.all_models(principal)
        assert [item.provider for item in listed.unavailable] == ["ollama"]
    time.seconds += 6
    listed = await listing.all_models(principal)
    assert listed.unavailable == []
    assert len(ollama.requests) == 2


async def test_a_provider_that_stays_silent_is_given_up(
    listing: Listing,
    principal: Principal,
    ollama: OllamaServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentos.integrations.models.providers.asking.TIMEOUT_SECONDS", 0.1)
    ollama.queue(Fault.stall(), on="models")
    (missing,) = (await listing.all_models(principal)).unavailable
    assert missing.error_class == "timeout"
    await ollama.wait_open(0)


async def test_an_ollama_that_stays_silent_is_not_there(
    listing: Listing,
    principal: Principal,
    ollama: OllamaServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentos.integrations.models.listing._DETECT_SECONDS", 0.1)
    ollama.queue(Fault.stall(), on="models")
    assert (await listing.detected(principal, ollama.url, "any")).items == []
    assert (await listing.detected(principal, ollama.url, "public")).items == []


async def test_no_transaction_waits_for_a_provider(
    gateway: Gateway, ollama: OllamaServer, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    body = {"kind": "ollama", "base_url": ollama.url}
    made = (await owner.client.post("/api/models/providers", json=body)).json()
    one = f"/api/models/providers/{made['id']}"
    for method, path in (("POST", f"{one}/test"), ("GET", f"{one}/models")):
        ollama.queue(Fault.stall(), on="models")
        # Forgotten, so that the provider is asked for this one as well.
        await owner.client.patch(one, json={"requests_per_minute": 1 + len(ollama.requests)})
        waiting = asyncio.create_task(owner.client.request(method, path))
        await ollama.wait_stalled()
        open_transactions = await superuser.fetchval(
            """select count(*) from pg_stat_activity
               where datname = current_database() and state like 'idle in transaction%'"""
        )
        assert open_transactions == 0
        ollama.release()
        assert (await waiting).status_code == 200
