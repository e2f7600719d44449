"""The sweeper removes what is listed and old enough, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.integrations.objects.conftest import Tenant

from agentos.integrations.objects import service
from agentos.integrations.objects.errors import UploadExpired
from agentos.kernel.database import Database
from agentos.kernel.objects import ObjectStoreUnavailable, TenantObjects

NOW = timedelta(0)
HOUR = timedelta(hours=1)


def files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


async def test_sweep_removes_exactly_the_discarded(
    new_tenant: Callable[[], Awaitable[Tenant]],
    platform_db: Database,
    uploads: service.Uploads,
    blobs: Path,
) -> None:
    tenants = [await new_tenant() for _ in range(3)]
    kept: set[str] = set()
    for tenant in tenants:
        for n in range(5):
            await tenant.put(f"k{n}", b"old")
        for n in (0, 1):
            await tenant.put(f"k{n}", b"new")
        await tenant.delete("k2")
        kept |= await tenant.named()
    assert len(files(blobs)) == 21
    assert await service.sweep(platform_db, uploads.store, HOUR) == 0
    assert len(files(blobs)) == 21
    assert await service.sweep(platform_db, uploads.store, NOW) == 9
    assert files(blobs) == kept
    assert await service.sweep(platform_db, uploads.store, NOW) == 0
    for tenant in tenants:
        assert await tenant.discarded() == set()
        assert await tenant.get("k0") == b"new"


async def test_sweeps_at_once_remove_everything_once(
    tenant: Tenant,
    platform_db: Database,
    uploads: service.Uploads,
    blobs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "_SWEEP_BATCH", 3)
    for _ in range(20):
        await tenant.put("a", b"x")
    removed = await asyncio.gather(
        *(service.sweep(platform_db, uploads.store, NOW) for _ in range(4))
    )
    # One that finds another at work leaves it to that one.
    assert sum(removed) == 19
    assert files(blobs) == await tenant.named()


async def test_what_a_crash_left_is_swept(
    tenant: Tenant, platform_db: Database, uploads: service.Uploads, blobs: Path
) -> None:
    def crash() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await tenant.put("a", b"complete, but no row", before_commit=crash)
    place = blobs / str(tenant.id)
    half = next(iter(await tenant.discarded()))
    (place / f"{half}#1").write_bytes(b"half")
    assert await service.sweep(platform_db, uploads.store, NOW) == 1
    assert files(blobs) == set()


async def test_an_upload_that_was_swept_meanwhile_is_refused(
    tenant: Tenant, platform_db: Database, uploads: service.Uploads, blobs: Path
) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        assert await service.sweep(platform_db, uploads.store, NOW) == 1
        yield b"y"

    with pytest.raises(UploadExpired):
        await tenant.put("a", slow())
    assert (await tenant.usage()).bytes == 0
    assert files(blobs) == set()


async def test_a_blob_that_a_row_names_is_never_removed(
    tenant: Tenant,
    platform_db: Database,
    uploads: service.Uploads,
    superuser: asyncpg.Connection[Any],
) -> None:
    stored, _ = await tenant.put("a", b"x")
    await superuser.execute(
        "insert into discarded_objects (tenant_id, id) values ($1, $2)", tenant.id, stored.id
    )
    assert await service.sweep(platform_db, uploads.store, NOW) == 0
    assert await tenant.get("a") == b"x"


async def test_what_cannot_be_removed_stays_listed_and_holds_up_only_its_batch(
    tenant: Tenant,
    platform_db: Database,
    uploads: service.Uploads,
    blobs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "_SWEEP_BATCH", 2)
    for _ in range(6):
        await tenant.put("a", b"x")
    bad = min(await tenant.discarded())
    delete = TenantObjects.delete

    async def failing(self: TenantObjects, name: str) -> None:
        if name == bad:
            raise ObjectStoreUnavailable()
        await delete(self, name)

    monkeypatch.setattr(TenantObjects, "delete", failing)
    assert await service.sweep(platform_db, uploads.store, NOW) == 3
    assert bad in await tenant.discarded()
    assert bad in files(blobs)
    monkeypatch.setattr(TenantObjects, "delete", delete)
    assert await service.sweep(platform_db, uploads.store, NOW) == 2
    assert files(blobs) == await tenant.named()


async def test_an_outage_ends_the_sweep(
    tenant: Tenant,
    platform_db: Database,
    uploads: service.Uploads,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "_SWEEP_BATCH", 1)
    for _ in range(6):
        await tenant.put("a", b"x")
    asked: list[str] = []

    async def failing(self: TenantObjects, name: str) -> None:
        asked.append(name)
        raise ObjectStoreUnavailable()

    monkeypatch.setattr(TenantObjects, "delete", failing)
    with pytest.raises(ObjectStoreUnavailable):
        await service.sweep(platform_db, uploads.store, NOW)
    assert len(asked) == 3
    assert len(await tenant.discarded()) == 5
