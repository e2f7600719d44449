"""What is in a workspace, path by path, and how that is written down.

A manifest is either whole, or says what has changed since one that is whole (its keyframe). So a
snapshot of many files that changes few of them writes little, and reading one takes two blobs at
most.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
from msgspec.structs import replace

from agentos.integrations.workspaces.errors import SnapshotLost

DIRECTORY, FILE, LINK = 0, 1, 2
_VERSION = 1
# Past this part of all paths, changes are written as a new keyframe.
_KEYFRAME_PART = 4
_KEYFRAME_LEAST = 100
# A snapshot needs at most this many packs; the largest of them are never written again.
_MOST_PACKS, _LARGE_PACKS = 64, 16


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is at a path. Where its bytes lie is not part of what it is: see `same`."""

    kind: int
    mode: int
    size: int = 0
    # Of a file: SHA-256 of its bytes. Of a link: what it says.
    content: bytes = b""
    # Which of the tree's packs holds the bytes, and where in it.
    pack: int = -1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Keyframe:
    """Where a whole manifest lies: from `offset` to the end of a blob."""

    blob: UUID
    offset: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the files of a tree add up to."""

    files: int
    bytes: int
    # How many of them lie in each pack.
    packs: Counter[int]

    @classmethod
    def of(cls, nodes: Collection[Node]) -> Usage:
        sizes = [node.size for node in nodes if node.kind == FILE]
        packs = Counter([node.pack for node in nodes])
        del packs[-1]
        return cls(len(sizes), sum(sizes), packs)

    def after(self, changes: Iterable[tuple[Node | None, Node | None]]) -> Usage:
        """The same with some nodes replaced by others; None stands for no node."""
        files, size, packs = self.files, self.bytes, self.packs.copy()
        for change in changes:
            for node, sign in zip(change, (-1, 1), strict=True):
                if node is None or node.kind != FILE:
                    continue
                files += sign
                size += sign * node.size
                if node.pack >= 0:
                    packs[node.pack] += sign
        return Usage(files, size, +packs)


@dataclass(slots=True)
class Tree:
    """All of a workspace at one moment."""

    nodes: dict[str, Node] = field(default_factory=dict)
    # Only ever appended to as long as the keyframe stays, so that numbers keep their meaning.
    packs: list[UUID] = field(default_factory=list)
    keyframe: Keyframe | None = None
    # The paths at which this tree differs from its keyframe.
    changed: set[str] = field(default_factory=set)
    # None: not counted yet; see `usage`.
    counted: Usage | None = None

    @property
    def usage(self) -> Usage:
        if self.counted is None:
            self.counted = Usage.of(self.nodes.values())
        return self.counted

    def packs_in_use(self) -> set[UUID]:
        return {self.packs[number] for number in self.usage.packs}

    def scattered(self) -> set[int]:
        """Small packs whose contents should go into a new one, because there are too many packs.

        Without that, a long session would end up with a pack for each of its steps.
        """
        numbers = self.usage.packs
        if len(numbers) <= _MOST_PACKS:
            return set()
        sizes = dict.fromkeys(numbers, 0)
        for node in self.nodes.values():
            if node.pack >= 0:
                sizes[node.pack] += node.size
        return set(sorted(sizes, key=sizes.__getitem__)[:-_LARGE_PACKS])

    def renumber(self) -> None:
        """Drops packs that are not in use. Only for a tree that is written as a whole."""
        used = sorted(self.usage.packs)
        if len(used) == len(self.packs):
            return
        now = {number: position for position, number in enumerate(used)}
        self.packs = [self.packs[number] for number in used]
        self.nodes = {
            path: node if node.pack < 0 else replace(node, pack=now[node.pack])
            for path, node in self.nodes.items()
        }
        self.counted = None

    @property
    def keyframe_blob(self) -> UUID:
        assert self.keyframe is not None, "a tree that was written has one"
        return self.keyframe.blob

    def wants_keyframe(self) -> bool:
        limit = max(_KEYFRAME_LEAST, len(self.nodes) // _KEYFRAME_PART)
        return self.keyframe is None or len(self.changed) > limit


class _Written(msgspec.Struct, array_like=True):
    version: int
    keyframe: tuple[bytes, int] | None
    packs: list[bytes]
    paths: bytes
    nodes: list[Node | None]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Written)


def same(one: Node | None, other: Node | None) -> bool:
    """Whether two nodes are the same thing, wherever their bytes lie."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.size, one.content) == (
        other.kind,
        other.mode,
        other.size,
        other.content,
    )


def encode_tree(tree: Tree) -> bytes:
    """The tree as a blob: what differs from its keyframe, or all of it if it has none."""
    keyframe = tree.keyframe
    paths: Iterable[str] = tree.nodes if keyframe is None else tree.changed
    written = _Written(
        version=_VERSION,
        keyframe=None if keyframe is None else (keyframe.blob.bytes, keyframe.offset),
        packs=[pack.bytes for pack in tree.packs],
        paths=join_paths(paths),
        nodes=[tree.nodes.get(path) for path in paths],
    )
    return zlib.compress(_encoder.encode(written), 1)


def decode_tree(data: bytes, keyframe: Tree | None = None) -> Tree:
    """The tree that was written; `keyframe` is the one its blob refers to, see `keyframe_of`."""
    written = _decode(data)
    paths = split_paths(written.paths)
    if len(paths) != len(written.nodes) or (written.keyframe is not None and keyframe is None):
        raise SnapshotLost()
    nodes = dict(keyframe.nodes) if keyframe is not None else {}
    for path, node in zip(paths, written.nodes, strict=True):
        if node is None:
            nodes.pop(path, None)
        else:
            nodes[path] = node
    packs = [UUID(bytes=pack) for pack in written.packs]
    if written.keyframe is None:
        return Tree(nodes, packs)
    return Tree(nodes, packs, _keyframe(written.keyframe), set(paths))


def keyframe_of(data: bytes) -> Keyframe | None:
    """The whole manifest that this one builds on."""
    written = _decode(data)
    return None if written.keyframe is None else _keyframe(written.keyframe)


def join_paths(paths: Iterable[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def split_paths(joined: bytes) -> list[str]:
    return os.fsdecode(joined).split("\0") if joined else []


def _keyframe(written: tuple[bytes, int]) -> Keyframe:
    return Keyframe(UUID(bytes=written[0]), written[1])


def _decode(data: bytes) -> _Written:
    try:
        written = _decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise SnapshotLost() from error
    if written.version != _VERSION:
        raise SnapshotLost("This snapshot was written by a newer version of AgentOS.")
    return written
