"""Snapshots as they lie in the object store: writing packs, reading manifests and contents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from agentos.integrations.workspaces import repository
from agentos.integrations.workspaces.errors import SnapshotLost, SnapshotMissing
from agentos.integrations.workspaces.manifest import (
    Keyframe,
    Node,
    Tree,
    decode_tree,
    keyframe_of,
)
from agentos.integrations.workspaces.threads import in_thread
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.kernel.objects import BlobMissing, ObjectStore
from agentos.tenancy.plans import PlanLimitReached, plan_for


@dataclass(frozen=True, slots=True)
class Room:
    """What the plan leaves for a snapshot as it begins."""

    plan: str
    allowed: int | None
    used: int

    def check(self, size: int) -> None:
        if self.allowed is not None and self.used + size > self.allowed:
            raise PlanLimitReached(
                f"The {self.plan} plan allows {self.allowed} storage bytes; {self.used} in use.",
                hint="Remove objects or sessions, or move the tenant to a larger plan.",
                limit="storage_bytes",
                allowed=self.allowed,
                used=self.used,
            )


@dataclass(frozen=True, slots=True)
class Packs:
    """The packs of all tenants."""

    db: Database
    store: ObjectStore

    async def announce(self, tenant_id: TenantId, *packs: UUID) -> Room:
        """Lists packs as discarded before they are written, and says how large they may become."""
        async with self.db.transaction(tenant_id=tenant_id) as tx:
            row = await repository.announce(tx, tenant_id, list(packs))
        plan = plan_for(row["plan"], row["limits"])
        return Room(plan.name, plan.storage_bytes, row["used"])

    async def write(
        self, tenant_id: TenantId, pack: UUID, pieces: AsyncIterator[bytes], room: Room
    ) -> int:
        """Stores a pack that was announced; says how large it is."""
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces:
                size += len(piece)
                room.check(size)
                yield piece

        await self.store.for_tenant(tenant_id).put(str(pack), counted())
        return size

    async def write_whole(self, tenant_id: TenantId, pack: UUID, data: bytes, room: Room) -> None:
        room.check(len(data))
        await self.store.for_tenant(tenant_id).put(str(pack), data)

    async def read(
        self, tenant_id: TenantId, pack: UUID, start: int = 0, end: int | None = None
    ) -> bytes:
        """The bytes of a pack from `start` up to `end`; SnapshotLost if it does not have them."""
        try:
            data = await self.store.for_tenant(tenant_id).read(str(pack), start, end)
        except BlobMissing as error:
            raise SnapshotLost() from error
        if end is not None and len(data) != end - start:
            raise SnapshotLost()
        return data

    async def tree(self, tenant_id: TenantId, snapshot_id: UUID | None) -> Tree:
        """What was in the workspace; SnapshotMissing if the tenant has no such snapshot."""
        if snapshot_id is None:
            return Tree()
        async with self.db.transaction(tenant_id=tenant_id) as tx:
            row = await repository.find(tx, tenant_id, snapshot_id)
        if row is None:
            raise SnapshotMissing()
        here = Keyframe(row["manifest"], row["manifest_offset"])
        written = await self.read(tenant_id, here.blob, here.offset)
        if sha256(written).digest() != row["digest"]:
            raise SnapshotLost()
        base = await in_thread(keyframe_of, written)
        if base is None:
            tree = await in_thread(decode_tree, written)
            tree.keyframe = here
            return tree
        whole = await in_thread(decode_tree, await self.read(tenant_id, base.blob, base.offset))
        return await in_thread(decode_tree, written, whole)

    async def content(self, tenant_id: TenantId, tree: Tree, node: Node) -> bytes:
        """The bytes of a file."""
        data = b""
        if node.size:
            end = node.offset + node.size
            data = await self.read(tenant_id, tree.packs[node.pack], node.offset, end)
        if sha256(data).digest() != node.content:
            raise SnapshotLost()
        return data
