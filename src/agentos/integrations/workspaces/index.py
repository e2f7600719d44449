"""What the files of a workspace looked like to the kernel when their bytes were last read.

A file whose inode, size and times are what they were has the bytes it had: no program can set the
time of change (ctime) back. A directory that looks as it did holds the same names, because each
name that comes or goes changes its times. The index is a memory, not a truth: without it,
everything is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from uuid import UUID

import msgspec

from agentos.integrations.workspaces.manifest import (
    Keyframe,
    Node,
    Tree,
    join_paths,
    same,
    split_paths,
)
from agentos.integrations.workspaces.places import Places, boot_id

# Inode, size, modified, changed.
Look = tuple[int, int, int, int]

# The kernel stamps files with a clock that moves every 1 to 10 ms.
_TICK_NS = 20_000_000
_SECOND_NS = 1_000_000_000
# In memory at once over all workspaces; each takes about 600 bytes.
_HELD_PATHS = 50_000
# The file is written again once this part of all paths is new.
_BEHIND_PART = 20


@dataclass(frozen=True, slots=True)
class Listing:
    """What a directory held when it was last listed. Shared between indexes: never changed."""

    # How the directory looked; None if it has to be listed again.
    look: Look | None = None
    # Its files and links, as they looked when they were read; None if that has to be done again.
    # Whatever has a look here is in the tree of the index.
    files: Mapping[str, Look | None] = field(default_factory=dict)
    directories: tuple[str, ...] = ()


@dataclass(slots=True)
class Index:
    """A snapshot's tree and how it looks on this machine, directory by directory."""

    snapshot_id: UUID | None = None
    tree: Tree = field(default_factory=Tree)
    # The root's is at "".
    listings: dict[str, Listing] = field(default_factory=dict)

    def on(self, snapshot_id: UUID, tree: Tree) -> Index:
        """What this index knows about the files of another snapshot."""
        before, after = self.tree.nodes, tree.nodes

        def stays(path: str) -> bool:
            return path in before and same(before[path], after.get(path))

        listings = {}
        for place, listing in self.listings.items():
            prefix = prefix_of(place)
            looks = {
                name: look if stays(prefix + name) else None for name, look in listing.files.items()
            }
            look = listing.look if not place or stays(place) else None
            listings[place] = Listing(look, looks, listing.directories)
        return Index(snapshot_id, tree, listings)


def prefix_of(place: str) -> str:
    """What stands before a name in this directory."""
    return place + "/" if place else ""


def look_of(status: os.stat_result) -> Look:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def settled(look: Look, now_ns: int) -> bool:
    """Whether any later change is sure to give the file another look.

    Two changes within one tick of the kernel's clock have the same time. Some file systems keep
    whole seconds only.
    """
    changed = look[3]
    tick = _TICK_NS if changed % _SECOND_NS else 2 * _SECOND_NS
    return changed < now_ns - tick


class Indexes:
    """The indexes of this machine: in files, and those used last in memory, too."""

    def __init__(self) -> None:
        # By place, the one used last at the end.
        self._recent: dict[Path, _Held] = {}
        self._lock = Lock()

    def load(self, places: Places) -> Index:
        """The index of a workspace; an empty one if there is none that can be trusted."""
        with suppress(FileNotFoundError), self._lock:
            look = look_of(places.index.stat())
            held = self._recent.pop(places.index, None)
            if held is not None and held.file == look:
                self._recent[places.index] = held
                return held.index
        return load_index(places)

    def save(self, places: Places, index: Index, news: int) -> None:
        """Keeps the index for whoever works on these files next; `news` files were read for it.

        The file may fall behind a little: whoever starts from it reads a few files again.
        """
        with self._lock:
            held = self._recent.pop(places.index, None)
        if held is None or held.unsaved + news > len(index.tree.nodes) // _BEHIND_PART:
            held = _Held(save_index(places, index), index, 0)
        else:
            held = _Held(held.file, index, held.unsaved + news)
        with self._lock:
            self._recent[places.index] = held
            paths = sum(len(held.index.tree.nodes) for held in self._recent.values())
            while paths > _HELD_PATHS:
                paths -= len(self._recent.pop(next(iter(self._recent))).index.tree.nodes)


@dataclass(frozen=True, slots=True)
class _Held:
    # The look of the file at this index's place, and how many files were read since it was written.
    file: Look
    index: Index
    unsaved: int


class _Listing(msgspec.Struct, array_like=True):
    place: bytes
    look: Look | None
    names: bytes
    looks: list[Look | None]
    directories: bytes


class _Written(msgspec.Struct, array_like=True):
    boot: str
    snapshot: bytes | None
    keyframe: tuple[bytes, int] | None
    changed: bytes
    packs: list[bytes]
    paths: bytes
    nodes: list[Node]
    listings: list[_Listing]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Written)


def load_index(places: Places) -> Index:
    """Reads the index; an empty one if there is none that can be trusted."""
    try:
        written = _decoder.decode(places.index.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return Index()
    if written.boot != boot_id():
        return Index()  # a power cut may have undone writes that the index has seen
    paths = split_paths(written.paths)
    keyframe = written.keyframe
    tree = Tree(
        dict(zip(paths, written.nodes, strict=True)),
        [UUID(bytes=pack) for pack in written.packs],
        None if keyframe is None else Keyframe(UUID(bytes=keyframe[0]), keyframe[1]),
        set(split_paths(written.changed)),
    )
    listings = {os.fsdecode(listing.place): _read_listing(listing) for listing in written.listings}
    snapshot_id = None if written.snapshot is None else UUID(bytes=written.snapshot)
    return Index(snapshot_id, tree, listings)


def save_index(places: Places, index: Index) -> Look:
    """Writes the index, and says how its file looks."""
    tree, keyframe = index.tree, index.tree.keyframe
    written = _Written(
        boot=boot_id(),
        snapshot=None if index.snapshot_id is None else index.snapshot_id.bytes,
        keyframe=None if keyframe is None else (keyframe.blob.bytes, keyframe.offset),
        changed=join_paths(tree.changed),
        packs=[pack.bytes for pack in tree.packs],
        paths=join_paths(tree.nodes),
        nodes=list(tree.nodes.values()),
        listings=[_write_listing(*item) for item in index.listings.items()],
    )
    staged = places.staging / "index"
    staged.write_bytes(_encoder.encode(written))
    staged.chmod(0o600)
    staged.rename(places.index)
    return look_of(places.index.stat())


def _write_listing(place: str, listing: Listing) -> _Listing:
    return _Listing(
        os.fsencode(place),
        listing.look,
        join_paths(listing.files),
        list(listing.files.values()),
        join_paths(listing.directories),
    )


def _read_listing(written: _Listing) -> Listing:
    looks = dict(zip(split_paths(written.names), written.looks, strict=True))
    return Listing(written.look, looks, tuple(split_paths(written.directories)))
