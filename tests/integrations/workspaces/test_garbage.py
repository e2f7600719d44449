"""What nothing leads to any more is cleared away, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from tests.integrations.workspaces.conftest import Tenant, contents

from agentos.integrations.objects import service as objects
from agentos.integrations.workspaces import repository
from agentos.integrations.workspaces.errors import SnapshotExpired, SnapshotMissing
from agentos.integrations.workspaces.garbage import collect_garbage
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.kernel.objects import ObjectStore

NOW = timedelta(0)


async def name(tenant: Tenant, table: str, snapshot_id: UUID) -> UUID:
    """A session that leads to the snapshot by itself, by a step or by a checkpoint."""
    session_id = uuid7()
    await tenant.superuser.execute(
        """insert into sessions (tenant_id, id, state, title, config, workspace_id, created_by,
               principal_kind, principal_id, created_at, updated_at, snapshot_id)
           values ($1, $2, 'CREATED', '', '{}', $3, '', 'user', '', now(), now(), $4)""",
        tenant.id,
        session_id,
        uuid7(),
        snapshot_id if table == "sessions" else None,
    )
    if table == "steps":
        await tenant.superuser.execute(
            """insert into steps (tenant_id, session_id, seq, parent, kind, name, status, fence, at,
                   snapshot_id)
               values ($1, $2, 1, 0, 'tool', 'shell', 'done', 1, now(), $3)""",
            tenant.id,
            session_id,
            snapshot_id,
        )
    if table == "checkpoints":
        await tenant.superuser.execute(
            """insert into checkpoints (tenant_id, id, session_id, seq, name, snapshot_id, created_at)
               values ($1, $2, $3, 1, '', $4, now())""",
            tenant.id,
            uuid7(),
            session_id,
            snapshot_id,
        )
    return session_id


async def forget(tenant: Tenant, session_id: UUID) -> None:
    await tenant.superuser.execute(
        "delete from sessions where tenant_id = $1 and id = $2", tenant.id, session_id
    )


@pytest.mark.parametrize("table", ["sessions", "steps", "checkpoints"])
async def test_what_is_named_stays_with_all_it_needs(
    tenant: Tenant, platform_db: Database, tmp_path: Path, table: str
) -> None:
    workspace = await tenant.open()
    await workspace.write("kept", b"kept" * 1000)
    await workspace.write("changed", b"first" * 1000)
    first = await tenant.taken(workspace)
    await workspace.write("changed", b"second" * 1000)
    second = await tenant.taken(workspace, first.id)
    await workspace.write("changed", b"third" * 1000)
    third = await tenant.taken(workspace, second.id)
    before = contents(workspace.root)
    session_id = await name(tenant, table, third.id)
    assert await collect_garbage(platform_db, NOW) == 2
    assert await collect_garbage(platform_db, NOW) == 0
    assert await tenant.discarded() == set(second.added)
    assert set(await tenant.packs()) == {*first.added, *third.added} == set(third.packs)
    assert await tenant.used() == sum((await tenant.packs()).values())
    await objects.sweep(platform_db, ObjectStore.open(None, tmp_path), NOW)
    await tenant.workspaces.bring(workspace, None)
    await tenant.workspaces.bring(workspace, third.id)
    assert contents(workspace.root) == before
    with pytest.raises(SnapshotMissing):
        await tenant.workspaces.bring(workspace, first.id)
    await forget(tenant, session_id)
    assert await collect_garbage(platform_db, NOW) == 1
    assert await tenant.packs() == {}
    assert await tenant.used() == 0
    await objects.sweep(platform_db, ObjectStore.open(None, tmp_path), NOW)
    assert list((tmp_path / "objects" / str(tenant.id)).iterdir()) == []


async def test_what_is_young_stays(tenant: Tenant, platform_db: Database) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1")
    await tenant.taken(workspace)
    assert await collect_garbage(platform_db, timedelta(hours=1)) == 0
    assert await collect_garbage(platform_db, NOW) == 1


async def test_tenants_do_not_keep_each_others_packs(
    new_tenant: Callable[[], Awaitable[Tenant]], platform_db: Database
) -> None:
    one, other = await new_tenant(), await new_tenant()
    for tenant in (one, other):
        workspace = await tenant.open()
        await workspace.write("file", b"the same")
        snapshot = await tenant.taken(workspace)
    await name(other, "sessions", snapshot.id)
    assert await collect_garbage(platform_db, NOW) == 1
    assert (len(await one.packs()), len(await other.packs())) == (0, 1)


async def test_a_snapshot_on_packs_that_were_cleared_away_is_refused(
    tenant: Tenant, platform_db: Database
) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1" * 1000)
    first = await tenant.taken(workspace)
    await workspace.write("other", b"2")
    second = await tenant.workspaces.snapshot(workspace, first.id)
    await collect_garbage(platform_db, NOW)
    with pytest.raises(SnapshotExpired):
        async with tenant.db.transaction(tenant_id=tenant.id) as tx:
            await tenant.workspaces.record(tx, second)
    assert await tenant.used() == 0
    assert (await tenant.taken(workspace)).new


async def test_packs_of_a_snapshot_that_is_being_recorded_stay(
    tenant: Tenant, platform_db: Database
) -> None:
    """The collection has chosen the pack already when the record that needs it commits."""
    workspace = await tenant.open()
    await workspace.write("file", b"1" * 1000)
    first = await tenant.taken(workspace)
    await workspace.write("other", b"2")
    second = await tenant.workspaces.snapshot(workspace, first.id)
    async with tenant.db.transaction(tenant_id=tenant.id) as tx:
        await tenant.workspaces.record(tx, second)
        collecting = asyncio.ensure_future(collect_garbage(platform_db, NOW))
        await _waiting_for_a_lock(tenant)
        await repository.find(tx, tenant.id, second.id)
    assert await collecting == 1
    assert set(await tenant.packs()) == set(second.packs)
    await tenant.workspaces.bring(workspace, None)
    await tenant.workspaces.bring(workspace, second.id)
    assert await workspace.read("file") == b"1" * 1000


async def _waiting_for_a_lock(tenant: Tenant) -> None:
    async with asyncio.timeout(30):
        while not await tenant.superuser.fetchval(
            """select count(*) from pg_stat_activity, pg_sleep(0.01)
               where wait_event_type = 'Lock' and datname = current_database()"""
        ):
            pass
