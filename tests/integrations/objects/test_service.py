"""Objects: rows, blobs, the counter and the list of discarded blobs agree whatever happens."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integrations.objects.conftest import Tenant

from agentos.integrations.objects import service
from agentos.integrations.objects.errors import (
    BadContentType,
    ObjectLost,
    ObjectNotFound,
    ObjectTooLarge,
)
from agentos.integrations.objects.schemas import StorageUsage
from agentos.kernel.ids import TenantId
from agentos.kernel.objects import BadName, BlobMissing, ObjectStore
from agentos.tenancy.pages import BadCursor, PageRequest
from agentos.tenancy.plans import PlanLimitReached
from agentos.tenancy.principals import Forbidden, Scope
from agentos.tenancy.work import Work

NewTenant = Callable[[], Awaitable[Tenant]]


def files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


async def keys(tenant: Tenant, prefix: str = "", limit: int = 50) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        async with tenant.work() as work:
            page = await service.list_objects(work, prefix, PageRequest(limit=limit, after=after))
        found += [item.key for item in page.items]
        if page.next_cursor is None:
            return found
        after = page.items[-1].key


# Storing and reading --------------------------------------------------------------------------


async def test_an_object_is_what_was_uploaded(tenant: Tenant) -> None:
    data = bytes(range(256)) * 100
    stored, created = await tenant.put("a/b.bin", data, content_type="text/html; charset=utf-8")
    assert created
    assert (stored.key, stored.size) == ("a/b.bin", len(data))
    assert stored.content_type == "text/html; charset=utf-8"
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert await tenant.get("a/b.bin") == data
    assert await tenant.usage() == StorageUsage(bytes=len(data), objects=1, allowed=10**9)
    assert await tenant.discarded() == set()


async def test_replacing_keeps_the_key_and_discards_the_bytes(tenant: Tenant) -> None:
    first, _ = await tenant.put("a", b"first")
    second, created = await tenant.put("a", b"2nd")
    assert not created
    assert first.id != second.id
    assert await tenant.get("a") == b"2nd"
    assert await tenant.usage() == StorageUsage(bytes=3, objects=1, allowed=10**9)
    assert await tenant.discarded() == {str(first.id)}


async def test_deleting_discards_the_bytes(tenant: Tenant) -> None:
    stored, _ = await tenant.put("a", b"x")
    await tenant.delete("a")
    assert await tenant.usage() == StorageUsage(bytes=0, objects=0, allowed=10**9)
    assert await tenant.discarded() == {str(stored.id)}
    with pytest.raises(ObjectNotFound):
        await tenant.get("a")
    with pytest.raises(ObjectNotFound):
        await tenant.delete("a")


async def test_every_change_is_audited_and_announced(
    tenant: Tenant, superuser: asyncpg.Connection[Any]
) -> None:
    await tenant.put("a", b"one")
    await tenant.put("a", b"three")
    await tenant.delete("a")
    log = await superuser.fetch("select action, before, after from audit_log order by id")
    assert [row["action"] for row in log] == ["object.stored", "object.stored", "object.deleted"]
    assert [bool(row["before"]) for row in log] == [False, True, True]
    events = await superuser.fetch("select type, data->>'size' as size from outbox order by id")
    assert [tuple(row) for row in events] == [
        ("object.stored", "3"),
        ("object.stored", "5"),
        ("object.deleted", None),
    ]


async def test_an_empty_object_is_an_object(tenant: Tenant) -> None:
    stored, _ = await tenant.put("empty", b"")
    assert stored.size == 0
    assert stored.content_type == "application/octet-stream"
    assert await tenant.get("empty") == b""


async def test_a_key_is_the_same_however_it_is_composed(tenant: Tenant) -> None:
    await tenant.put("e\u0301", b"x")
    assert await tenant.get("\u00e9") == b"x"


@pytest.mark.parametrize("key", ["", "../a", "a/../b", "/a", "a//b", "a\0", "a\\b", "x" * 513])
async def test_a_bad_key_is_refused_before_anything_is_kept(
    tenant: Tenant, blobs: Path, key: str
) -> None:
    with pytest.raises(BadName):
        await tenant.put(key, b"x")
    with pytest.raises(BadName):
        await tenant.delete(key)
    with pytest.raises(BadName):
        await tenant.get(key)
    assert files(blobs) == set()
    assert await tenant.discarded() == set()


@pytest.mark.parametrize("kind", ["html", "text/html\r\nx: y", "text/ü", "a/b;" + "x" * 300])
async def test_a_bad_content_type_is_refused(tenant: Tenant, kind: str) -> None:
    with pytest.raises(BadContentType):
        await tenant.put("a", b"x", content_type=kind)


async def test_scopes_are_asked_for(tenant: Tenant) -> None:
    reader = dataclasses.replace(tenant.principal, scopes=frozenset({Scope.OBJECTS_READ}))
    writer = dataclasses.replace(tenant.principal, scopes=frozenset({Scope.OBJECTS_WRITE}))

    async def untouched() -> AsyncIterator[bytes]:
        yield pytest.fail("read a body that may not be stored")

    async def no_work() -> Work:
        pytest.fail("opened a transaction")

    incoming = service.Incoming("a", None, None, untouched())
    with pytest.raises(Forbidden):
        await service.put_object(tenant.uploads, reader, incoming, no_work)
    with pytest.raises(Forbidden):
        await service.find_object(tenant.uploads.database, writer, "a")


# Lists ----------------------------------------------------------------------------------------


async def test_lists_are_in_byte_order_and_pages_join_without_gaps(tenant: Tenant) -> None:
    named = ["a", "B", "a/b", "a/c", "ab", "é", "z", "a-b", "a_b", "a%b", "\U0010ffff" * 128]
    for name in named:
        await tenant.put(name, b"")
    expected = sorted(named, key=str.encode)
    for limit in (1, 2, 3, 50):
        assert await keys(tenant, limit=limit) == expected
    assert await keys(tenant, "a/") == ["a/b", "a/c"]
    assert await keys(tenant, "a", limit=2) == [k for k in expected if k.startswith("a")]
    assert await keys(tenant, "a%") == ["a%b"]
    assert await keys(tenant, "\U0010ffff") == ["\U0010ffff" * 128]


async def test_a_bad_cursor_or_prefix_is_refused(tenant: Tenant) -> None:
    async with tenant.work() as work:
        with pytest.raises(BadCursor):
            await service.list_objects(work, "", PageRequest(limit=5, after="a\0b"))
        with pytest.raises(BadName):
            await service.list_objects(work, "a\0b", PageRequest(limit=5, after=None))


# Tenants --------------------------------------------------------------------------------------


async def test_a_tenant_gets_at_nothing_of_another(new_tenant: NewTenant) -> None:
    one, other = await new_tenant(), await new_tenant()
    stored, _ = await one.put("a", b"mine")
    with pytest.raises(ObjectNotFound):
        await other.get("a")
    with pytest.raises(ObjectNotFound):
        await other.delete("a")
    # Not even with everything the row says.
    with pytest.raises(ObjectLost) as lost:
        await service.read_object(other.uploads.store, other.principal, stored)
    assert isinstance(lost.value.__cause__, BlobMissing)
    assert await keys(other) == []
    await other.put("a", b"theirs")
    assert await one.get("a") == b"mine"
    assert (await one.usage()).bytes == 4


async def test_lost_bytes_are_told_from_an_unknown_key(tenant: Tenant) -> None:
    stored, _ = await tenant.put("a", b"x")
    await tenant.uploads.store.for_tenant(tenant.id).delete(str(stored.id))
    with pytest.raises(ObjectLost):
        await tenant.get("a")


# Limits ---------------------------------------------------------------------------------------


async def test_too_large_is_refused_while_it_arrives(tenant: Tenant, blobs: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 10_000
            yield bytes(10_000)

    with pytest.raises(ObjectTooLarge):
        await tenant.put("a", endless())
    assert sent == 110_000
    with pytest.raises(ObjectTooLarge):
        await tenant.put("a", endless(), declared=100_001)
    assert sent == 110_000
    await tenant.put("a", bytes(100_000), declared=100_000)
    assert len(files(blobs)) == 1


async def test_the_plan_is_refused_while_it_arrives(tenant: Tenant, blobs: Path) -> None:
    await tenant.limit(5000)
    await tenant.put("a", bytes(3000))
    with pytest.raises(PlanLimitReached):
        await tenant.put("b", bytes(2001))
    with pytest.raises(PlanLimitReached):
        await tenant.put("b", b"", declared=2001)
    await tenant.put("b", bytes(2000))
    await tenant.put("a", bytes(3000))
    with pytest.raises(PlanLimitReached):
        await tenant.put("a", bytes(3001))
    assert (await tenant.usage()).bytes == 5000
    assert files(blobs) == await tenant.named() | await tenant.discarded() & files(blobs)


async def test_a_tenant_above_its_limit_can_shrink(tenant: Tenant) -> None:
    await tenant.put("a", bytes(3000))
    await tenant.limit(1000)
    with pytest.raises(PlanLimitReached):
        await tenant.put("b", b"x")
    await tenant.put("a", bytes(2000))
    await tenant.put("b", b"")
    assert (await tenant.usage()).bytes == 2000


async def test_the_plan_is_exact_when_all_come_at_once(tenant: Tenant, blobs: Path) -> None:
    await tenant.limit(1000)
    gate = asyncio.Barrier(20)

    async def late() -> AsyncIterator[bytes]:
        yield bytes(50)
        await gate.wait()  # all have been told that there is room
        yield bytes(50)

    results = await asyncio.gather(
        *(tenant.put(f"k{n}", late()) for n in range(20)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, PlanLimitReached)]
    assert len(refused) == 10
    assert await tenant.stored() == (1000, 10)
    assert (await tenant.usage()).bytes == 1000
    # The bytes of the refused are gone at once, without the sweeper.
    assert files(blobs) == await tenant.named()


# Agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
async def test_the_counter_is_the_sum_after_anything_at_once(
    tenant: Tenant, blobs: Path, seed: int
) -> None:
    chance = random.Random(seed)
    await tenant.limit(20_000)

    async def act(key: str, size: int | None) -> None:
        try:
            if size is None:
                await tenant.delete(key)
            else:
                await tenant.put(key, bytes(size))
        except (ObjectNotFound, PlanLimitReached):
            return

    for _ in range(4):
        actions = [
            (f"k{chance.randrange(6)}", chance.choice([None, 0, 1, 999, 5000, 9000]))
            for _ in range(25)
        ]
        await asyncio.gather(*(act(key, size) for key, size in actions))
        usage = await tenant.usage()
        assert (usage.bytes, usage.objects) == await tenant.stored()
        assert usage.bytes <= 20_000
        # Every blob is named once: by a row, or by the list of the discarded.
        named, discarded = await tenant.named(), await tenant.discarded()
        assert not named & discarded
        assert named <= files(blobs) <= named | discarded


async def test_a_transaction_that_fails_changes_nothing(tenant: Tenant, blobs: Path) -> None:
    first, _ = await tenant.put("a", b"first")
    before = await tenant.usage()

    def fail() -> None:
        raise KeyError("commit")

    with pytest.raises(KeyError):
        await tenant.put("a", b"second, longer", before_commit=fail)
    with pytest.raises(KeyError):
        await tenant.put("new", b"x", before_commit=fail)
    assert await tenant.usage() == before
    assert await tenant.get("a") == b"first"
    # Its bytes were complete, so they are on the list; the ones they would have replaced are not.
    assert files(blobs) - {str(first.id)} == await tenant.discarded()


async def test_a_blob_is_listed_before_its_first_byte(tenant: Tenant) -> None:
    listed: list[set[str]] = []

    async def watching() -> AsyncIterator[bytes]:
        listed.append(await tenant.discarded())
        yield b"x"

    stored, _ = await tenant.put("a", watching())
    assert listed == [{str(stored.id)}]
    assert await tenant.discarded() == set()


async def test_a_client_that_goes_away_leaves_nothing_visible(tenant: Tenant, blobs: Path) -> None:
    waiting = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"x"
        waiting.set()
        await asyncio.sleep(60)

    putting = asyncio.create_task(tenant.put("a", stalled()))
    await waiting.wait()
    assert tenant.uploads.database.size - tenant.uploads.database.idle == 0, "holds no connection"
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert files(blobs) == set()
    assert await keys(tenant) == []


async def test_the_store_can_be_reopened(tenant: Tenant, tmp_path: Path) -> None:
    stored, _ = await tenant.put("a", b"x")
    again = ObjectStore.open(None, tmp_path).for_tenant(TenantId(UUID(int=tenant.id.int)))
    assert await again.exists(str(stored.id))
