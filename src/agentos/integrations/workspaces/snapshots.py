"""What a snapshot is, and how one is taken of a directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from uuid import UUID

from agentos.integrations.workspaces.beneath import open_root, opened
from agentos.integrations.workspaces.index import Index, Indexes, Listing, prefix_of
from agentos.integrations.workspaces.manifest import (
    Keyframe,
    Node,
    Tree,
    encode_tree,
    same,
)
from agentos.integrations.workspaces.packing import Packer
from agentos.integrations.workspaces.packs import Packs
from agentos.integrations.workspaces.scanning import Scan, close_again, scan
from agentos.integrations.workspaces.threads import in_thread, read_ahead
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.ids import TenantId, uuid7


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a workspace at one moment. Nobody finds it before it is recorded."""

    tenant_id: TenantId
    id: UUID
    workspace_id: UUID
    # False: nothing has changed since the snapshot of this id.
    new: bool
    files: int
    # Bytes of all files together.
    size: int
    # Pipes, sockets and devices: they are not part of a snapshot.
    skipped: tuple[str, ...] = ()
    manifest: Keyframe | None = None
    digest: bytes = b""
    # All blobs it needs, and the size of those that it brings along.
    packs: tuple[UUID, ...] = ()
    added: dict[UUID, int] = field(default_factory=dict)


class Draft:
    """A snapshot being taken: first a look at the directory, then the new contents, then the list."""

    def __init__(self, workspace: Workspace, base: Index):
        self._workspace = workspace
        self._base = base
        self._scan = Scan()
        self._scattered: set[int] = set()
        self._packer = Packer(-1, {}, len(base.tree.packs), workspace.max_bytes)

    def contents(self) -> Iterator[bytes]:
        """Looks through the directory; the bytes that are new, in large pieces."""
        workspace = self._workspace
        with opened(open_root(workspace.root)) as root:
            self._scan = scan(root, self._base, workspace.max_bytes, workspace.max_files)
            try:
                if self._scan.unread:
                    self._gather()
                    self._packer.root = root
                    self._packer.known = self._alike(self._scan.unread_sizes)
                    yield from self._packer.pieces(self._scan.unread)
            finally:
                close_again(root, self._scan)

    def _gather(self) -> None:
        """Has files in small packs read again, if there are too many packs."""
        self._scattered = self._base.tree.scattered()
        if not self._scattered:
            return
        found, nodes = self._scan, self._base.tree.nodes
        for place, names in found.kept.items():
            prefix = prefix_of(place)
            again = {name for name in names if nodes[prefix + name].pack in self._scattered}
            if again:
                found.kept[place] = [name for name in names if name not in again]
                found.unread.setdefault(place, []).extend(sorted(again))
                found.unread_sizes.update(nodes[prefix + name].size for name in again)

    def _alike(self, sizes: set[int]) -> dict[bytes, Node]:
        """Stored contents that a file of one of these sizes could have."""
        return {
            node.content: node
            for node in self._base.tree.nodes.values()
            if node.size in sizes and node.pack not in self._scattered and node.pack >= 0
        }

    @property
    def read(self) -> int:
        """How many files had to be read."""
        return sum(map(len, self._scan.unread.values()))

    @property
    def skipped(self) -> tuple[str, ...]:
        return tuple(sorted([*self._scan.skipped, *self._packer.skipped]))

    def finish(self, snapshot_id: UUID, pack: UUID, manifest: Keyframe) -> tuple[Index, bytes]:
        """What was found, and the manifest for that place; none if there is nothing new."""
        index = self.index(snapshot_id, pack)
        if index.snapshot_id != snapshot_id:
            return index, b""
        return index, write_manifest(index.tree, manifest)

    def index(self, snapshot_id: UUID, pack: UUID) -> Index:
        """The directory as it was found; its new contents will be in `pack`."""
        base, fresh = self._base.tree, self._scan.nodes | self._packer.nodes
        gone = self._gone(fresh)
        differ = {path for path, node in fresh.items() if not same(node, base.nodes.get(path))}
        if not differ and not gone and self._base.snapshot_id is not None:
            return Index(self._base.snapshot_id, base, self._listings())
        nodes = base.nodes | fresh
        for path in gone:
            del nodes[path]
        packs = [*base.packs, pack] if self._packer.size else base.packs
        # Contents that have moved to another pack are no change; only a whole manifest says so.
        keyframe = None if self._scattered else base.keyframe
        tree = Tree(nodes, packs, keyframe, base.changed | differ | gone)
        if base.nodes:  # else all of them are new, and better counted at once
            changes = [(base.nodes.get(path), nodes.get(path)) for path in [*fresh, *gone]]
            tree.counted = base.usage.after(changes)
        return Index(snapshot_id, tree, self._listings())

    def _listings(self) -> dict[str, Listing]:
        """The listings of the scan with the looks of what was read after it."""
        listings = self._scan.listings
        for place, names in self._scan.unread.items():
            looks = dict.fromkeys(names) | self._packer.looks.get(place, {})
            listing = listings[place]
            listings[place] = replace(listing, files={**listing.files, **looks})
        return listings

    def _gone(self, fresh: dict[str, Node]) -> set[str]:
        known = self._base.tree.nodes
        still = self._scan.kept_count() + sum(path in known for path in fresh)
        if still == len(known):  # the usual case, without looking at each path
            return set()
        return known.keys() - set(self._scan.kept_paths()) - fresh.keys()


def write_manifest(tree: Tree, place: Keyframe) -> bytes:
    """The list of files as it will be stored; the tree knows where, if it is a new keyframe."""
    if not tree.wants_keyframe():
        return encode_tree(tree)
    tree.keyframe, tree.changed = None, set()
    tree.renumber()
    written = encode_tree(tree)
    tree.keyframe = place
    return written


async def take_snapshot(
    packs: Packs, indexes: Indexes, workspace: Workspace, base: Index
) -> Snapshot:
    """Stores what is new since `base`, and notes beside the files what they look like."""
    tenant_id, draft = workspace.tenant_id, Draft(workspace, base)
    pack, manifest, added = uuid7(), uuid7(), dict[UUID, int]()
    async with aclosing(read_ahead(draft.contents())) as pieces:
        contents = await anext(pieces, b"")
        more = await anext(pieces, b"") if contents else b""
        if more:
            room = await packs.announce(tenant_id, pack, manifest)
            pieces_of_pack = _chained(contents, more, pieces)
            added[pack] = await packs.write(tenant_id, pack, pieces_of_pack, room)
            contents = b""
    if not more:
        manifest = pack
    place = Keyframe(manifest, len(contents))
    finishing = in_thread(draft.finish, uuid7(), pack, place)
    if contents:
        (index, written), room = await asyncio.gather(finishing, packs.announce(tenant_id, pack))
    else:
        index, written = await finishing
    if not written:
        await in_thread(indexes.save, workspace.places, index, draft.read)
        return _described(workspace, index, draft)
    if not contents and not more:
        room = await packs.announce(tenant_id, pack)
    added[manifest] = len(contents) + len(written)
    await asyncio.gather(
        packs.write_whole(tenant_id, manifest, contents + written, room),
        in_thread(indexes.save, workspace.places, index, draft.read),
    )
    needed = index.tree.packs_in_use() | {manifest, index.tree.keyframe_blob}
    return replace(
        _described(workspace, index, draft),
        new=True,
        manifest=place,
        digest=sha256(written).digest(),
        packs=tuple(sorted(needed)),
        added=added,
    )


def _described(workspace: Workspace, index: Index, draft: Draft) -> Snapshot:
    usage = index.tree.usage
    assert index.snapshot_id is not None, "without a snapshot before it, each is new"
    return Snapshot(
        workspace.tenant_id,
        index.snapshot_id,
        workspace.id,
        False,
        usage.files,
        usage.bytes,
        draft.skipped,
    )


async def _chained(first: bytes, second: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    yield second
    async for piece in rest:
        yield piece
