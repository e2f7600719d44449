from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Invalid, NotFound
from agentos.kernel.redaction import redact
from agentos.tenancy.pages import PageRequest
from agentos.tenancy.plans import PlanLimitReached
from agentos.tenancy.principals import Forbidden
from agentos.tenancy.vault import service
from agentos.tenancy.vault.errors import KekMissing, SecretDamaged, SecretTooLarge
from agentos.tenancy.vault.keyring import EnvironmentKeyring, FileKeyring
from agentos.tenancy.vault.service import Vault, rewrap_keys

OLD, NEW = "old:" + "a" * 64, "new:" + "b" * 64
CANARY = "canary-3f9a1c7e5b-do-not-leak"

Superuser: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture
def vault() -> Vault:
    return Vault(EnvironmentKeyring(OLD))


async def _new_tenant(tenant_work: TenantWork, plan: str = "free") -> UUID:
    async with tenant_work(plan=plan) as work:
        return work.tenant_id


async def _reveal(vault: Vault, tenant_work: TenantWork, tenant: UUID, name: str) -> str:
    async with tenant_work(tenant=tenant) as work:
        return await vault.reveal(work.tx, work.tenant_id, name)


class TestStoring:
    async def test_a_value_comes_back_as_it_went_in(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        value = "  ключ-🔑-with spaces and a line break\n"
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", value)
            assert await vault.reveal(work.tx, work.tenant_id, "KEY") == value

    async def test_replacing_counts_the_version_up_and_keeps_the_id(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            first = await vault.store_secret(work, "KEY", "first-value-1111")
            second = await vault.store_secret(work, "KEY", "second-value-2222")
            assert await vault.reveal(work.tx, work.tenant_id, "KEY") == "second-value-2222"

        assert (first.version, first.last_four) == (1, "1111")
        assert (second.version, second.last_four) == (2, "2222")
        assert second.id == first.id
        assert second.created_at == first.created_at < second.updated_at

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("12345678901", ""),
            ("123456789012", "9012"),
            ("ends in a line\n", ""),
            ("ends in nothing\0", ""),
        ],
    )
    async def test_only_long_values_show_their_end(
        self, vault: Vault, tenant_work: TenantWork, value: str, shown: str
    ) -> None:
        async with tenant_work() as work:
            stored = await vault.store_secret(work, "KEY", value)
            assert await vault.reveal(work.tx, work.tenant_id, "KEY") == value
        assert stored.last_four == shown

    @pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "a\n", "ä", "a" * 129])
    async def test_a_bad_name_is_refused(
        self, vault: Vault, tenant_work: TenantWork, name: str
    ) -> None:
        async with tenant_work() as work:
            with pytest.raises(Invalid):
                await vault.store_secret(work, name, "value")

    @pytest.mark.parametrize(
        ("value", "error"),
        [
            ("", Invalid),
            ("\ud800", Invalid),
            ("x" * 65_537, SecretTooLarge),
            ("é" * 32_769, SecretTooLarge),
        ],
        ids=["empty", "not unicode", "too long", "too long in bytes"],
    )
    async def test_a_bad_value_is_refused(
        self, vault: Vault, tenant_work: TenantWork, value: str, error: type[AgentOSError]
    ) -> None:
        async with tenant_work() as work:
            with pytest.raises(error):
                await vault.store_secret(work, "KEY", value)

    async def test_the_largest_value_fits(self, vault: Vault, tenant_work: TenantWork) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "a" * 128, "x" * 65_536)
            assert await vault.reveal(work.tx, work.tenant_id, "a" * 128) == "x" * 65_536

    async def test_the_plan_limits_new_names_but_not_new_values(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work(plan="free") as work:
            for number in range(50):
                await vault.store_secret(work, f"KEY{number}", "value")
            await vault.store_secret(work, "KEY0", "another")
            with pytest.raises(PlanLimitReached):
                await vault.store_secret(work, "KEY50", "value")

    async def test_the_last_place_of_the_plan_is_given_once(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        tenant = await _new_tenant(tenant_work)
        await superuser.execute("""update tenants set limits = '{"vault_secrets": 1}'""")

        async def store(number: int) -> None:
            async with tenant_work(tenant=tenant) as work:
                await vault.store_secret(work, f"KEY{number}", "value")

        results = await asyncio.gather(*(store(n) for n in range(6)), return_exceptions=True)
        assert sorted(type(r).__name__ for r in results) == ["NoneType"] + ["PlanLimitReached"] * 5

    async def test_first_stores_at_once_share_one_key(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        tenant = await _new_tenant(tenant_work)

        async def store(number: int) -> None:
            async with tenant_work(tenant=tenant) as work:
                await vault.store_secret(work, f"KEY{number}", f"value {number}")

        await asyncio.gather(*(store(n) for n in range(8)))

        assert await superuser.fetchval("select count(*) from vault_keys") == 1
        for number in range(8):
            assert await _reveal(vault, tenant_work, tenant, f"KEY{number}") == f"value {number}"

    async def test_it_is_recorded_without_the_value(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", CANARY)
            await vault.store_secret(work, "KEY", CANARY + "2")
            await vault.rotate_tenant_key(work)
            await service.delete_secret(work, "KEY")

        audit = await superuser.fetch(
            'select action, before, "after", request_id from audit_log order by id'
        )
        assert [row["action"] for row in audit] == [
            "secret.stored",
            "secret.stored",
            "vault.key_rotated",
            "secret.deleted",
        ]
        assert all(row["request_id"] == "test" for row in audit)
        events = [
            row["type"] for row in await superuser.fetch("select type from outbox order by 1")
        ]
        assert events == ["secret.deleted", "secret.stored", "secret.stored", "vault.key_rotated"]


class TestReading:
    async def test_lists_page_by_page_without_values(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            for number in range(5):
                await vault.store_secret(work, f"KEY{number}", CANARY)
            first = await service.list_secrets(work, PageRequest(limit=3, after=None))
            rest = await service.list_secrets(
                work, PageRequest(limit=3, after=str(first.items[-1].id))
            )
        assert [item.name for item in first.items] == ["KEY0", "KEY1", "KEY2"]
        assert first.next_cursor is not None
        assert [item.name for item in rest.items] == ["KEY3", "KEY4"]
        assert rest.next_cursor is None
        assert CANARY.encode() not in bytes(first.response().body)

    async def test_a_missing_secret_is_not_found(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            for missing in (
                service.read_secret_info(work, "NONE"),
                service.delete_secret(work, "NONE"),
                vault.reveal(work.tx, work.tenant_id, "NONE"),
            ):
                with pytest.raises(NotFound):
                    await missing

    async def test_another_tenant_sees_nothing(self, vault: Vault, tenant_work: TenantWork) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", CANARY)
        async with tenant_work() as work:
            assert (await service.list_secrets(work, PageRequest(limit=9, after=None))).items == []
            with pytest.raises(NotFound):
                await vault.reveal(work.tx, work.tenant_id, "KEY")

    async def test_a_member_may_read_but_not_write(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", "value")
            tenant = work.tenant_id
        async with tenant_work(tenant=tenant, role="member") as work:
            assert (await service.read_secret_info(work, "KEY")).name == "KEY"
            for refused in (
                vault.store_secret(work, "KEY", "value"),
                vault.rotate_tenant_key(work),
                service.delete_secret(work, "KEY"),
            ):
                with pytest.raises(Forbidden):
                    await refused

    async def test_a_deleted_name_starts_anew(self, vault: Vault, tenant_work: TenantWork) -> None:
        async with tenant_work() as work:
            first = await vault.store_secret(work, "KEY", "value")
            await service.delete_secret(work, "KEY")
            second = await vault.store_secret(work, "KEY", "value")
        assert (second.version, second.id == first.id) == (1, False)

    async def test_a_revealed_value_is_masked_in_logs(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", CANARY)
            value = await vault.reveal(work.tx, work.tenant_id, "KEY")
        assert value == CANARY
        assert CANARY not in redact(f"calling with {value}")

    async def test_a_use_case_with_a_scope_of_its_own_needs_none_of_the_vault(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        async with tenant_work(role="member") as work:
            await vault.store(work, "provider-x", CANARY)
            assert await service.exists(work, "provider-x")
            assert await vault.reveal(work.tx, work.tenant_id, "provider-x") == CANARY
            assert await service.delete(work, "provider-x")
            assert not await service.exists(work, "provider-x")
            assert not await service.delete(work, "provider-x")
        actions = await superuser.fetch("select action from audit_log order by id")
        assert [row["action"] for row in actions] == ["secret.stored", "secret.deleted"]

    def test_no_endpoint_reveals(self) -> None:
        source = Path(service.__file__).parents[2]
        endpoints = [*source.rglob("endpoints.py"), *source.joinpath("gateway").rglob("*.py")]
        assert len(endpoints) > 5
        assert [path for path in endpoints if ".reveal(" in path.read_text()] == []


async def _swap_secrets(superuser: Superuser) -> None:
    await superuser.execute(
        """update vault_secrets a set ciphertext = b.ciphertext from vault_secrets b
           where a.tenant_id = b.tenant_id and a.name <> b.name and a.name in ('A', 'B')
             and b.name in ('A', 'B')"""
    )


async def _swap_tenants(superuser: Superuser) -> None:
    await superuser.execute(
        """update vault_secrets a set ciphertext = b.ciphertext, id = b.id from vault_secrets b
           where a.tenant_id <> b.tenant_id and a.name = b.name"""
    )


async def _swap_keys(superuser: Superuser) -> None:
    await superuser.execute(
        """update vault_keys a set wrapped = b.wrapped from vault_keys b
           where a.tenant_id <> b.tenant_id"""
    )


async def _swap_secrets_and_keys(superuser: Superuser) -> None:
    await _swap_tenants(superuser)
    await _swap_keys(superuser)


async def _change_version(superuser: Superuser) -> None:
    await superuser.execute("update vault_secrets set version = version + 1")


async def _change_key_version(superuser: Superuser) -> None:
    await superuser.execute(
        """insert into vault_keys select tenant_id, 2, kek_id, wrapped from vault_keys;
           update vault_secrets set key_version = 2"""
    )


async def _flip(superuser: Superuser) -> None:
    await superuser.execute(
        "update vault_secrets set ciphertext = set_bit(ciphertext, 100, 1 - get_bit(ciphertext, 100))"
    )


async def _flip_key(superuser: Superuser) -> None:
    await superuser.execute(
        "update vault_keys set wrapped = set_bit(wrapped, 100, 1 - get_bit(wrapped, 100))"
    )


async def _cut(superuser: Superuser) -> None:
    await superuser.execute("update vault_secrets set ciphertext = ''")


@pytest.mark.parametrize(
    "tamper",
    [
        _swap_secrets,
        _swap_tenants,
        _swap_keys,
        _swap_secrets_and_keys,
        _change_version,
        _change_key_version,
        _flip,
        _flip_key,
        _cut,
    ],
)
async def test_what_was_tampered_with_is_refused(
    vault: Vault,
    tenant_work: TenantWork,
    superuser: Superuser,
    tamper: Callable[[Superuser], Awaitable[None]],
) -> None:
    tenants = []
    for _ in range(2):
        async with tenant_work() as work:
            await vault.store_secret(work, "A", "value of a")
            await vault.store_secret(work, "B", "value of b")
            tenants.append(work.tenant_id)

    await tamper(superuser)

    for tenant in tenants:
        for name in ("A", "B"):
            with pytest.raises(SecretDamaged):
                await _reveal(vault, tenant_work, tenant, name)


async def test_nothing_is_sealed_with_a_key_slipped_in_from_another_tenant(
    vault: Vault, tenant_work: TenantWork, superuser: Superuser
) -> None:
    tenants = []
    for _ in range(2):
        async with tenant_work() as work:
            await vault.store_secret(work, "A", "value of a")
            tenants.append(work.tenant_id)

    await _swap_keys(superuser)

    for tenant in tenants:
        async with tenant_work(tenant=tenant) as work:
            with pytest.raises(SecretDamaged, match="vault key"):
                await vault.store_secret(work, "B", "value of b")


async def test_a_damaged_secret_is_named_by_a_rotation_and_can_be_stored_again(
    vault: Vault, tenant_work: TenantWork, superuser: Superuser
) -> None:
    async with tenant_work() as work:
        await vault.store_secret(work, "BROKEN", "value")
        tenant = work.tenant_id
    await _flip(superuser)

    with pytest.raises(SecretDamaged, match="BROKEN"):
        async with tenant_work(tenant=tenant) as work:
            await vault.rotate_tenant_key(work)
    async with tenant_work(tenant=tenant) as work:
        await vault.store_secret(work, "BROKEN", "value again")
        assert (await vault.rotate_tenant_key(work)).version == 2
        assert await vault.reveal(work.tx, work.tenant_id, "BROKEN") == "value again"


class TestRotatingTheTenantKey:
    async def test_all_secrets_move_and_the_old_key_goes(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        names = [f"KEY{n}" for n in range(250)]
        async with tenant_work(plan="pro") as work:
            for name in names:
                await vault.store_secret(work, name, f"value of {name}")
            tenant = work.tenant_id
        before = await superuser.fetch(
            "select id, updated_at, version from vault_secrets order by id"
        )

        async with tenant_work(tenant=tenant) as work:
            rotation = await vault.rotate_tenant_key(work)

        assert (rotation.version, rotation.reencrypted) == (2, 250)
        assert [r["version"] for r in await superuser.fetch("select version from vault_keys")] == [
            2
        ]
        after = await superuser.fetch(
            "select id, updated_at, version from vault_secrets order by id"
        )
        assert after == before
        async with tenant_work(tenant=tenant) as work:
            for name in names:
                assert await vault.reveal(work.tx, work.tenant_id, name) == f"value of {name}"

    async def test_an_empty_vault_can_be_rotated(
        self, vault: Vault, tenant_work: TenantWork
    ) -> None:
        async with tenant_work() as work:
            assert (await vault.rotate_tenant_key(work)).version == 1
            assert (await vault.rotate_tenant_key(work)).version == 2
            await vault.store_secret(work, "KEY", "value")
            assert await vault.reveal(work.tx, work.tenant_id, "KEY") == "value"

    async def test_other_tenants_are_left_alone(
        self, vault: Vault, tenant_work: TenantWork, superuser: Superuser
    ) -> None:
        tenants = []
        for _ in range(2):
            async with tenant_work() as work:
                await vault.store_secret(work, "KEY", "value")
                tenants.append(work.tenant_id)
        async with tenant_work(tenant=tenants[0]) as work:
            await vault.rotate_tenant_key(work)
        kept = await superuser.fetchval(
            "select version from vault_keys where tenant_id = $1", tenants[1]
        )
        assert kept == 1


class TestRewrapping:
    async def test_all_tenants_move_and_the_old_kek_can_go(
        self,
        vault: Vault,
        tenant_work: TenantWork,
        platform_db: Database,
        superuser: Superuser,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(service, "_BATCH", 2)
        tenants = []
        for number in range(5):
            async with tenant_work() as work:
                await vault.store_secret(work, "KEY", f"value {number}")
                tenants.append(work.tenant_id)
        both = EnvironmentKeyring(f"{NEW},{OLD}")

        assert await rewrap_keys(platform_db, both) == 5
        assert await rewrap_keys(platform_db, both) == 0

        only_new = Vault(EnvironmentKeyring(NEW))
        for number, tenant in enumerate(tenants):
            assert await _reveal(only_new, tenant_work, tenant, "KEY") == f"value {number}"
        rows = await superuser.fetch("select * from platform_audit_log order by id")
        assert [(r["actor_id"], r["action"]) for r in rows] == [
            ("system", "vault.keys_rewrapped")
        ] * 3
        assert "old" in rows[0]["details"]

    async def test_an_interruption_loses_nothing_and_the_next_call_goes_on(
        self,
        vault: Vault,
        tenant_work: TenantWork,
        platform_db: Database,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(service, "_BATCH", 2)
        tenants = []
        for _ in range(5):
            async with tenant_work() as work:
                await vault.store_secret(work, "KEY", "value")
                tenants.append(work.tenant_id)

        class Interrupted(EnvironmentKeyring):
            calls = 0

            async def wrap(self, key: bytes, aad: bytes) -> tuple[str, bytes]:
                self.calls += 1
                if self.calls == 4:
                    raise ConnectionResetError
                return await super().wrap(key, aad)

        with pytest.raises(ConnectionResetError):
            await rewrap_keys(platform_db, Interrupted(f"{NEW},{OLD}"))
        both = Vault(EnvironmentKeyring(f"{NEW},{OLD}"))
        for tenant in tenants:
            assert await _reveal(both, tenant_work, tenant, "KEY") == "value"

        assert await rewrap_keys(platform_db, both.keyring) == 3

    async def test_two_at_once_do_the_work_once(
        self, vault: Vault, tenant_work: TenantWork, platform_db: Database, superuser: Superuser
    ) -> None:
        for _ in range(5):
            async with tenant_work() as work:
                await vault.store_secret(work, "KEY", "value")
        both = EnvironmentKeyring(f"{NEW},{OLD}")

        moved = await asyncio.gather(*(rewrap_keys(platform_db, both) for _ in range(4)))

        assert sum(moved) == 5
        assert await superuser.fetchval("select count(*) from platform_audit_log") == 1

    async def test_a_key_under_a_lost_kek_is_reported_after_the_others_are_done(
        self, vault: Vault, tenant_work: TenantWork, platform_db: Database, superuser: Superuser
    ) -> None:
        lost = Vault(EnvironmentKeyring("lost:" + "c" * 64))
        for one in (vault, lost, vault):
            async with tenant_work() as work:
                await one.store_secret(work, "KEY", "value")

        with pytest.raises(KekMissing, match=r"2 keys were rewrapped, 1 could not.*lost"):
            await rewrap_keys(platform_db, EnvironmentKeyring(f"{NEW},{OLD}"))

        ids = await superuser.fetch("select kek_id from vault_keys order by 1")
        assert [row["kek_id"] for row in ids] == ["lost", "new", "new"]

    async def test_a_missing_kek_is_named(self, vault: Vault, tenant_work: TenantWork) -> None:
        async with tenant_work() as work:
            await vault.store_secret(work, "KEY", "value")
            with pytest.raises(KekMissing, match="key-encryption key old") as caught:
                await Vault(EnvironmentKeyring(NEW)).reveal(work.tx, work.tenant_id, "KEY")
        assert caught.value.details == {"kek_id": "old"}


async def test_both_rotations_under_load(
    tenant_work: TenantWork, platform_db: Database, superuser: Superuser, tmp_path: Path
) -> None:
    """Stores, reveals, key rotations and KEK rotations all at once: no error, no wrong value."""
    keyring = FileKeyring(tmp_path / "vault.keys")
    vault = Vault(keyring)
    tenants = [await _new_tenant(tenant_work) for _ in range(3)]
    names = [f"KEY{n}" for n in range(6)]
    latest: dict[tuple[UUID, str], int] = {}
    done = asyncio.Event()
    counts = {"stored": 0, "revealed": 0, "rotated": 0, "rewrapped": 0}

    async def store(tenant: UUID, name: str) -> None:
        number = 0
        while not done.is_set():
            async with tenant_work(tenant=tenant) as work:
                await vault.store_secret(work, name, f"{tenant} {name} {number}")
            latest[tenant, name] = number
            counts["stored"] += 1
            number += 1

    async def reveal(tenant: UUID) -> None:
        while not done.is_set():
            for name in names:
                at_least = latest.get((tenant, name))
                if at_least is None:
                    await asyncio.sleep(0.01)
                    continue
                value = await _reveal(vault, tenant_work, tenant, name)
                *place, number = value.split()
                assert place == [str(tenant), name]
                assert int(number) >= at_least
                counts["revealed"] += 1

    async def rotate(tenant: UUID) -> None:
        while not done.is_set():
            async with tenant_work(tenant=tenant) as work:
                await vault.rotate_tenant_key(work)
            counts["rotated"] += 1
            await asyncio.sleep(0.02)

    async def change_kek() -> None:
        while not done.is_set():
            keyring.add_key()
            counts["rewrapped"] += await rewrap_keys(platform_db, keyring)
            await asyncio.sleep(0.05)

    async def stop() -> None:
        await asyncio.sleep(3)
        done.set()

    async with asyncio.TaskGroup() as group:
        for tenant in tenants:
            for name in names:
                group.create_task(store(tenant, name))
            group.create_task(reveal(tenant))
            group.create_task(rotate(tenant))
        group.create_task(change_kek())
        group.create_task(stop())

    for (tenant, name), number in latest.items():
        assert await _reveal(vault, tenant_work, tenant, name) == f"{tenant} {name} {number}"
    assert await superuser.fetchval("select count(*) from vault_keys") == len(tenants)
    assert all(count > 5 for count in counts.values()), counts


async def test_the_value_is_nowhere_in_the_database(
    vault: Vault, tenant_work: TenantWork, superuser: Superuser
) -> None:
    async with tenant_work() as work:
        await vault.store_secret(work, "KEY", CANARY)
        await vault.store_secret(work, "KEY", CANARY + "-again")
        await vault.rotate_tenant_key(work)
        await vault.reveal(work.tx, work.tenant_id, "KEY")
        await service.list_secrets(work, PageRequest(limit=9, after=None))

    tables = await superuser.fetch(
        """select oid::regclass::text as name from pg_class
           where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"""
    )
    assert len(tables) > 10
    raw = CANARY.encode()
    for table in tables:
        for row in await superuser.fetch(f"select t::text as text from {table['name']} t"):
            for form in (CANARY, raw.hex(), raw.hex().upper()):
                assert form not in row["text"], table["name"]
