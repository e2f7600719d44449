"""Workspaces on this machine, and their snapshots in the object store.

A snapshot is a manifest, which lists the files, and packs with their contents. It writes at most
two blobs, whatever the number of files: one pack with the contents that are new, and the manifest,
which goes to the end of the pack if that is small. Like objects, blobs are listed as discarded, and
that is committed, before their first byte is written; `record` takes them off that list in the
transaction that makes the snapshot known. So whatever breaks in between leaves no blob behind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID
from weakref import WeakValueDictionary

from agentos.integrations.workspaces import repository
from agentos.integrations.workspaces.beneath import open_root, opened
from agentos.integrations.workspaces.errors import FileMissing, NotAFile, SnapshotExpired
from agentos.integrations.workspaces.extracting import bring_to
from agentos.integrations.workspaces.index import Index, Indexes
from agentos.integrations.workspaces.manifest import FILE, Node, Tree, same
from agentos.integrations.workspaces.packs import Packs
from agentos.integrations.workspaces.places import Places, workspace_uid
from agentos.integrations.workspaces.removal import remove_at
from agentos.integrations.workspaces.snapshots import Snapshot, take_snapshot
from agentos.integrations.workspaces.threads import in_thread
from agentos.integrations.workspaces.workspace import Workspace, checked_path
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId
from agentos.kernel.objects import ObjectStore

_TRASH = "trash"


@dataclass(frozen=True, slots=True)
class Change:
    """How a path differs between two snapshots. The size of what is not a file is 0."""

    path: str
    kind: Literal["added", "changed", "removed"]
    size_before: int
    size_after: int


class Workspaces:
    """The workspaces that this process works on. One at a time takes or brings a snapshot of each."""

    def __init__(
        self,
        db: Database,
        store: ObjectStore,
        clock: Clock,
        directory: Path,
        *,
        max_bytes: int,
        max_files: int,
    ):
        self._packs = Packs(db, store)
        self._indexes = Indexes()
        self._clock = clock
        self.directory = directory
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._locks: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    async def open(self, tenant_id: TenantId, workspace_id: UUID) -> Workspace:
        """The workspace; its directory is made if this machine does not have it."""
        places = Places.of(self.directory, tenant_id, workspace_id)
        uid = workspace_uid(tenant_id)
        await in_thread(places.make, uid)
        return Workspace(tenant_id, workspace_id, places, uid, self._max_bytes, self._max_files)

    def begin_change(self, workspace: Workspace) -> None:
        """To be called before anything may change the files without going through `workspace`."""
        workspace.places.mark_dirty()

    def settled(self, workspace: Workspace, snapshot_id: UUID | None) -> None:
        """Notes that the files equal a snapshot, which has to be on record."""
        workspace.places.mark_clean(snapshot_id)

    async def snapshot(self, workspace: Workspace, since: UUID | None) -> Snapshot:
        """The files as they are; stores what is new since an earlier snapshot.

        If nothing has changed, that is the snapshot: `new` is False. Only changed files are read.
        """
        async with self._alone(workspace):
            base = await self._index_on(workspace, since)
            return await take_snapshot(self._packs, self._indexes, workspace, base)

    async def record(self, tx: Transaction, snapshot: Snapshot) -> None:
        """Makes a snapshot known, in the caller's transaction. Harmless if it is known.

        Counts what it stores as storage of the tenant, which holds the tenant's counter until
        the transaction ends: better called late in it.
        """
        if snapshot.new and not await repository.insert(tx, snapshot, self._clock.now()):
            raise SnapshotExpired()

    async def bring(self, workspace: Workspace, snapshot_id: UUID | None) -> None:
        """The files become exactly that snapshot; None: there are none.

        Does next to nothing if they are known to be that already.
        """
        async with self._alone(workspace):
            if await in_thread(workspace.places.is_clean, snapshot_id):
                return
            tree = await self._packs.tree(workspace.tenant_id, snapshot_id)
            workspace.places.mark_dirty()
            known = await in_thread(self._indexes.load, workspace.places)
            index = await bring_to(self._packs, workspace, known, tree)
            index.snapshot_id = snapshot_id
            await in_thread(self._indexes.save, workspace.places, index, len(tree.nodes))
            workspace.places.mark_clean(snapshot_id)

    async def diff(
        self, tenant_id: TenantId, before: UUID | None, after: UUID | None
    ) -> list[Change]:
        """How the files of two snapshots differ, in the order of the paths."""
        one = await self._packs.tree(tenant_id, before)
        other = await self._packs.tree(tenant_id, after)
        return await in_thread(_changes, one, other)

    async def read_at(self, tenant_id: TenantId, snapshot_id: UUID, path: str) -> bytes:
        """The bytes of a file as they were in a snapshot."""
        name = os.fsdecode(checked_path(path))
        tree = await self._packs.tree(tenant_id, snapshot_id)
        if (node := tree.nodes.get(name)) is None:
            raise FileMissing()
        if node.kind != FILE:
            raise NotAFile()
        return await self._packs.content(tenant_id, tree, node)

    async def discard(self, tenant_id: TenantId, workspace_id: UUID) -> None:
        """Removes the directory from this machine; snapshots stay."""
        await in_thread(self._discard, Places.of(self.directory, tenant_id, workspace_id))

    def _discard(self, places: Places) -> None:
        trash = self.directory / _TRASH
        trash.mkdir(mode=0o700, exist_ok=True)
        with (
            suppress(FileNotFoundError),
            opened(open_root(places.base.parent)) as parent,
            opened(open_root(trash)) as trash_handle,
        ):
            remove_at(trash_handle, parent, os.fsencode(places.base.name))

    async def _index_on(self, workspace: Workspace, since: UUID | None) -> Index:
        if since is None:
            return Index()
        index = await in_thread(self._indexes.load, workspace.places)
        if index.snapshot_id == since:
            return index
        return index.on(since, await self._packs.tree(workspace.tenant_id, since))

    @asynccontextmanager
    async def _alone(self, workspace: Workspace) -> AsyncIterator[None]:
        async with self._locks.setdefault(workspace.id, asyncio.Lock()):
            yield


def _changes(before: Tree, after: Tree) -> list[Change]:
    found = []
    for path in sorted(before.nodes.keys() | after.nodes.keys()):
        one, other = before.nodes.get(path), after.nodes.get(path)
        if same(one, other):
            continue
        kind: Literal["added", "changed", "removed"]
        kind = "added" if one is None else "removed" if other is None else "changed"
        found.append(Change(path, kind, _size(one), _size(other)))
    return found


def _size(node: Node | None) -> int:
    return node.size if node is not None and node.kind == FILE else 0
