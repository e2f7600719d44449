"""A tenant with workspaces in a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.integrations.workspaces.snapshots import Snapshot
from agentos.integrations.workspaces.workspace import Workspace
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.objects import ObjectStore

MAX_BYTES, MAX_FILES = 200_000_000, 20_000

# What is at a path: kind and mode, and the bytes or the target.
Found = tuple[str, int, bytes]


@dataclass
class Tenant:
    id: TenantId
    workspaces: Workspaces
    db: Database
    superuser: asyncpg.Connection[Any]

    async def open(self, workspace_id: UUID | None = None) -> Workspace:
        return await self.workspaces.open(self.id, workspace_id or uuid7())

    async def taken(self, workspace: Workspace, since: UUID | None = None) -> Snapshot:
        """A snapshot that is on record."""
        snapshot = await self.workspaces.snapshot(workspace, since)
        async with self.db.transaction(tenant_id=self.id) as tx:
            await self.workspaces.record(tx, snapshot)
        return snapshot

    async def discarded(self) -> set[UUID]:
        rows = await self.superuser.fetch(
            "select id from discarded_objects where tenant_id = $1", self.id
        )
        return {row["id"] for row in rows}

    async def packs(self) -> dict[UUID, int]:
        rows = await self.superuser.fetch(
            "select id, bytes from workspace_packs where tenant_id = $1", self.id
        )
        return {row["id"]: row["bytes"] for row in rows}

    async def used(self) -> int:
        return (
            await self.superuser.fetchval(
                "select bytes from storage_usage where tenant_id = $1", self.id
            )
            or 0
        )


def contents(root: Path) -> dict[bytes, Found]:
    """Everything beneath a directory, seen in another way than the code under test sees it."""
    found: dict[bytes, Found] = {}
    for place, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = Path(place, name)
            key, mode = os.fsencode(path.relative_to(root)), path.lstat().st_mode & 0o7777
            if path.is_symlink():
                # As text: a path would lose doubled slashes.
                target = os.readlink(path)  # noqa: PTH115
                found[key] = ("link", 0, os.fsencode(target))
            elif path.is_dir():
                found[key] = ("directory", mode, b"")
            elif path.is_file():
                found[key] = ("file", mode, path.read_bytes())
            else:
                found[key] = ("other", mode, b"")
    return found


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def new_workspaces(db: Database, clock: MovableClock, tmp_path: Path) -> Callable[..., Workspaces]:
    """Another machine, or other limits, on the same database and object store."""

    def make(
        machine: str = "one", *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
    ) -> Workspaces:
        store = ObjectStore.open(None, tmp_path)
        return Workspaces(
            db, store, clock, tmp_path / machine, max_bytes=max_bytes, max_files=max_files
        )

    return make


@pytest.fixture
def new_tenant(
    new_workspaces: Callable[..., Workspaces],
    db: Database,
    tenant_work: TenantWork,
    superuser: asyncpg.Connection[Any],
) -> Callable[[], Awaitable[Tenant]]:
    async def make() -> Tenant:
        async with tenant_work() as work:
            tenant_id = work.tenant_id
        return Tenant(tenant_id, new_workspaces(), db, superuser)

    return make


@pytest.fixture
async def tenant(new_tenant: Callable[[], Awaitable[Tenant]]) -> Tenant:
    return await new_tenant()
