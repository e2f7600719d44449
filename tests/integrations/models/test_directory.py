from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.integrations.models.directory import Directory
from agentos.integrations.models.errors import ProviderKeyLost
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.prices import Rates
from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.remembered import Remembered
from agentos.integrations.models.schemas import ChainPut, PricePut, ProviderCreate, ProviderUpdate
from agentos.integrations.models.service import ModelSettings
from agentos.kernel.database import Database
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.vault.keyring import EnvironmentKeyring
from agentos.tenancy.vault.service import Vault

KEY = "sk-ant-directory-4f1c9a7e"


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
def directory(db: Database, time: Time) -> Directory:
    return Directory(db, Vault(EnvironmentKeyring("old:" + "a" * 64)), time)


@pytest.fixture
def settings_of(directory: Directory) -> ModelSettings:
    vault = Vault(EnvironmentKeyring("old:" + "a" * 64))
    return ModelSettings(vault, directory, "any", "http://127.0.0.1:11434")


Connect = Callable[..., Awaitable[UUID]]


@pytest.fixture
async def tenant(tenant_work: TenantWork) -> TenantId:
    async with tenant_work(plan="pro") as work:
        return work.tenant_id


@pytest.fixture
def connect(tenant_work: TenantWork, settings_of: ModelSettings, tenant: TenantId) -> Connect:
    async def make(**body: Any) -> UUID:
        async with tenant_work(tenant=tenant) as work:
            return (await settings_of.connect_provider(work, ProviderCreate(**body))).id

    return make


async def test_a_tenant_without_settings_has_the_demo_model(
    directory: Directory, tenant: TenantId
) -> None:
    models = await directory.of(tenant)
    assert [provider.name for provider in models.providers] == ["demo"]
    assert models.chain.targets == ()
    assert models.prices == {}


async def test_everything_a_call_needs_is_there(
    directory: Directory,
    connect: Connect,
    settings_of: ModelSettings,
    tenant_work: TenantWork,
    tenant: TenantId,
) -> None:
    anthropic = await connect(kind="anthropic", key=KEY, requests_per_minute=50)
    await connect(kind="custom", name="vllm", base_url="http://127.0.0.1:8000/v1/")
    async with tenant_work(tenant=tenant) as work:
        await settings_of.set_chain(
            work,
            ChainPut(
                targets=["anthropic/claude-x", "vllm/a/b", "demo/demo"], fall_back_on=["auth"]
            ),
        )
        await settings_of.set_price(
            work, PricePut(provider="vllm", model="a/b", input=5, output=7, cache_read=1)
        )
    models = await directory.of(tenant)
    first, second, demo = models.providers
    assert (first.id, first.name, first.requests_per_minute) == (anthropic, "anthropic", 50)
    assert first.provider is PROVIDERS["anthropic"]
    assert (first.connection.base_url, first.connection.key) == ("https://api.anthropic.com", KEY)
    assert (second.name, second.connection.base_url) == ("vllm", "http://127.0.0.1:8000/v1")
    assert second.connection.key is None
    assert demo.name == "demo"
    assert models.chain.targets == ("anthropic/claude-x", "vllm/a/b", "demo/demo")
    assert models.chain.fall_back_on == {ErrorClass.AUTH}
    assert models.prices == {
        ("vllm", "a/b"): Rates(input=5, output=7, cache_read=1, cache_write=5, cache_write_long=5)
    }
    assert KEY not in repr(models)


async def test_what_was_read_is_believed_for_a_second(
    directory: Directory, superuser: asyncpg.Connection[Any], tenant: TenantId, time: Time
) -> None:
    """Changes of other processes, which cannot tell us: written behind our back."""

    async def connect(name: str) -> None:
        await superuser.execute(
            """insert into model_providers (tenant_id, id, name, kind, base_url, created_by)
               values ($1, $2, $3, 'custom', 'http://127.0.0.1:1', 'test')""",
            tenant,
            uuid7(),
            name,
        )

    await connect("first")
    known = await directory.of(tenant)
    await connect("second")
    assert await directory.of(tenant) is known
    time.seconds += 1.01
    names = [provider.name for provider in (await directory.of(tenant)).providers]
    assert names == ["first", "second", "demo"]


async def test_the_process_that_changed_something_knows_at_once(
    directory: Directory,
    connect: Connect,
    settings_of: ModelSettings,
    tenant_work: TenantWork,
    tenant: TenantId,
) -> None:
    async def keys() -> list[str | None]:
        return [provider.connection.key for provider in (await directory.of(tenant)).providers]

    provider_id = await connect(kind="openai", key=KEY)
    assert await keys() == [KEY, None]
    async with tenant_work(tenant=tenant) as work:
        body = ProviderUpdate(key="sk-another-key-0000")
        await settings_of.update_provider(work, provider_id, body)
        assert await keys() == [KEY, None], "not before the commit"
    assert await keys() == ["sk-another-key-0000", None]
    async with tenant_work(tenant=tenant) as work:
        await settings_of.remove_provider(work, provider_id)
    assert await keys() == [None]


async def test_a_change_that_failed_is_not_seen(
    directory: Directory, settings_of: ModelSettings, tenant_work: TenantWork, tenant: TenantId
) -> None:
    async def fail() -> None:
        async with tenant_work(tenant=tenant) as work:
            await settings_of.connect_provider(work, ProviderCreate(kind="openai", key=KEY))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert len((await directory.of(tenant)).providers) == 1


async def test_tenants_do_not_see_each_other(
    directory: Directory, connect: Connect, tenant_work: TenantWork, tenant: TenantId
) -> None:
    provider_id = await connect(kind="openai", key=KEY)
    async with tenant_work() as work:
        other = work.tenant_id
    assert [p.name for p in (await directory.of(other)).providers] == ["demo"]
    with pytest.raises(NotFound):
        await directory.provider(other, provider_id)
    assert (await directory.provider(tenant, provider_id)).connection.key == KEY


@pytest.mark.parametrize(
    "damage",
    [
        "delete from vault_secrets where name = 'provider-openai'",
        "update vault_secrets set ciphertext = 'x' where name = 'provider-openai'",
        "update vault_keys set kek_id = 'gone'",
    ],
    ids=["missing", "damaged", "key-encryption key missing"],
)
async def test_a_key_that_is_lost_costs_only_its_provider(
    directory: Directory,
    connect: Connect,
    superuser: asyncpg.Connection[Any],
    tenant: TenantId,
    damage: str,
) -> None:
    openai = await connect(kind="openai", key=KEY)
    await connect(kind="ollama")
    await superuser.execute(damage)
    models = await directory.of(tenant)
    assert [provider.name for provider in models.providers] == ["ollama", "demo"]
    assert models.keyless == ("openai",)
    with pytest.raises(ProviderKeyLost):
        await directory.provider(tenant, openai)


async def test_a_kind_that_was_retired_costs_only_its_provider(
    directory: Directory, connect: Connect, superuser: asyncpg.Connection[Any], tenant: TenantId
) -> None:
    retired = await connect(kind="ollama")
    await superuser.execute("update model_providers set kind = 'gone' where id = $1", retired)
    assert [p.name for p in (await directory.of(tenant)).providers] == ["demo"]
    with pytest.raises(NotFound):
        await directory.provider(tenant, retired)


# Remembering


class Source:
    """Counts how often it is read, and answers when it is let."""

    def __init__(self) -> None:
        self.reads = 0
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def read(self, key: str) -> str:
        self.reads += 1
        number = self.reads
        self.asked.set()
        await self.go.wait()
        return f"{key} {number}"


def remembered(source: Source, time: Time, most: int = 10) -> Remembered[str, str]:
    return Remembered(source.read, seconds=lambda _: 1.0, most=most, now=time)


async def test_of_many_who_ask_at_once_one_reads(time: Time) -> None:
    source = Source()
    memory = remembered(source, time)
    waiting = [asyncio.create_task(memory.of("a")) for _ in range(20)]
    await source.asked.wait()
    source.go.set()
    assert set(await asyncio.gather(*waiting)) == {"a 1"}


async def test_one_who_gives_up_takes_nothing_from_the_others(time: Time) -> None:
    source = Source()
    memory = remembered(source, time)
    first, second = (asyncio.create_task(memory.of("a")) for _ in range(2))
    await source.asked.wait()
    first.cancel()
    source.go.set()
    assert await second == "a 1"
    assert first.cancelled()


async def test_what_was_forgotten_while_it_was_read_is_read_again(time: Time) -> None:
    source = Source()
    memory = remembered(source, time)
    early = asyncio.create_task(memory.of("a"))
    await source.asked.wait()
    memory.forget("a")
    source.go.set()
    assert await memory.of("a") == "a 2"
    assert await early == "a 1"
    assert await memory.of("a") == "a 2", "the old answer came late, but does not replace the new"


async def test_an_error_is_not_remembered(time: Time) -> None:
    answers: list[str | Exception] = [KeyError("gone"), "here"]

    async def read(key: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    memory: Remembered[str, str] = Remembered(read, seconds=lambda _: 1.0, most=2, now=time)
    with pytest.raises(KeyError):
        await memory.of("a")
    assert await memory.of("a") == "here"


async def test_only_so_many_are_kept(time: Time) -> None:
    source = Source()
    source.go.set()
    memory = remembered(source, time, most=2)
    for key in ("a", "b", "c", "b", "c"):
        await memory.of(key)
    assert source.reads == 3
    assert await memory.of("a") == "a 4"
