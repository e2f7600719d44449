"""Making a directory exactly what a tree says, touching only what differs.

Files are written in a staging directory that no sandbox sees, checked, and then moved into place.
Each directory is opened beneath the root without following any link. So whoever changes the
directory meanwhile can spoil the result, which is noticed, but cannot make us write elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agentos.integrations.workspaces.beneath import (
    change_mode,
    directory_beneath,
    opened,
)
from agentos.integrations.workspaces.index import Index, Listing, Look, look_of, prefix_of, settled
from agentos.integrations.workspaces.manifest import DIRECTORY, FILE, LINK, Node, Tree, same
from agentos.integrations.workspaces.packing import Packer
from agentos.integrations.workspaces.removal import empty, remove_at
from agentos.integrations.workspaces.scanning import PERMISSIONS, scan

_UNBOUNDED = 1 << 62
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Restore:
    """One attempt to bring a directory to a tree."""

    uid: int | None
    target: Tree
    root: int
    staging: int
    trash: int
    # Files whose bytes are missing, in the order in which the packs hold them.
    wanted: list[tuple[str, Node]] = field(default_factory=list)
    # What was found, and by directory what has been changed since, with its new look.
    _listings: dict[str, Listing] = field(default_factory=dict)
    _looks: dict[str, dict[str, Look | None]] = field(default_factory=dict)
    # Directories that do not have their mode yet.
    _unfinished: set[str] = field(default_factory=set)
    # Paths at which nothing was found.
    _absent: set[str] = field(default_factory=set)
    _counter: int = 0
    _place: str | None = None
    _handle: int = -1

    def prepare(self, index: Index) -> None:
        """Removes what should not be there and makes everything but the missing files."""
        empty(self.staging)  # what a crash may have left
        now = self._present(index)
        target = self.target.nodes
        self._unlock(now)
        unfit = (path for path, node in now.items() if not _fits(node, target.get(path)))
        for path in _topmost(unfit):
            self._remove(path)
        for path in sorted(target):
            self._make(path, target[path], now.get(path))
        self.wanted.sort(key=lambda item: (item[1].pack, item[1].offset))

    @contextmanager
    def new_file(self) -> Iterator[tuple[bytes, int]]:
        """A file in the staging directory, to be written and then moved into place."""
        self._counter += 1
        staged = b"new-%d" % self._counter
        with opened(os.open(staged, _NEW_FILE, 0o600, dir_fd=self.staging)) as handle:
            yield staged, handle

    def write(self, path: str, fill: Callable[[int], None]) -> None:
        """Makes a file of what `fill` writes into it."""
        if path in self._absent:
            parent, name = self._parent(path)
            # Nobody's but ours, because it must not exist; and no link is followed to make it.
            # Its mode from the start, if nobody else may write into it then.
            mode = self.target.nodes[path].mode & ~0o022
            handle = os.open(name, _NEW_FILE, mode, dir_fd=parent)
            # Not `opened`, which would take as long as the writing of a small file.
            try:
                fill(handle)
                self._own(handle, path)
            finally:
                os.close(handle)
            return
        with self.new_file() as (staged, handle):
            fill(handle)
            self.place(staged, handle, path)

    def place(self, staged: bytes, handle: int, path: str) -> None:
        """Moves a complete file to its path."""
        self._move_in(staged, path)
        self._own(handle, path)

    def _own(self, handle: int, path: str) -> None:
        if self.uid is not None:
            os.fchown(handle, self.uid, self.uid)
        mode, status = self.target.nodes[path].mode, os.fstat(handle)
        if status.st_mode & PERMISSIONS != mode:
            os.fchmod(handle, mode)
            status = os.fstat(handle)
        self._note(path, look_of(status))

    def finish(self) -> Index:
        """Gives directories their modes; what the directory looks like now."""
        for path in sorted(self._unfinished, reverse=True):
            change_mode(self.root, os.fsencode(path), self.target.nodes[path].mode)
        self.close()
        return Index(None, self.target, dict(self._seen()))

    def _seen(self) -> Iterator[tuple[str, Listing]]:
        now, nodes = time.time_ns(), self.target.nodes
        for place in self._listings.keys() | self._looks.keys():
            if place and not _is_directory(nodes.get(place)):
                continue
            listing = self._listings.get(place, Listing())
            if (changed := self._looks.get(place)) is not None:
                looks = {
                    n: look if look and settled(look, now) else None for n, look in changed.items()
                }
                listing = Listing(files={**listing.files, **looks})
            yield place, listing

    def close(self) -> None:
        if self._place is not None:
            os.close(self._handle)
            self._place = None

    def _present(self, index: Index) -> dict[str, Node]:
        """What is there. A file that cannot be the one we want is not read, and named as empty."""
        known, target = index.tree.nodes, self.target.nodes
        found = scan(self.root, index, _UNBOUNDED, _UNBOUNDED)
        self._unfinished.update(path for path in found.forced if path in target)
        now = {path: known[path] for path in found.kept_paths()} | found.nodes
        packer = Packer(self.root, {}, 0, _UNBOUNDED)
        comparable, unlike = dict[str, list[str]](), found.skipped
        for place, names in found.unread.items():
            prefix = prefix_of(place)
            comparable[place] = [n for n in names if _is_file(target.get(prefix + n))]
            unlike += [prefix + name for name in names]
        for _ in packer.pieces(comparable):
            pass
        self._listings = found.listings
        for place, looks in packer.looks.items():
            listing = found.listings[place]
            self._listings[place] = replace(listing, files={**listing.files, **looks})
        return now | dict.fromkeys(unlike, Node(-1, 0)) | packer.nodes

    def _unlock(self, now: dict[str, Node]) -> None:
        """Opens directories whose mode would keep us from changing them. Never needed as root."""
        if self.uid is not None:
            return
        for path in sorted(now):
            node = now[path]
            if node.kind == DIRECTORY and node.mode & 0o700 != 0o700:
                change_mode(self.root, os.fsencode(path), node.mode | 0o700)
                if _is_directory(self.target.nodes.get(path)):
                    self._unfinished.add(path)

    def _make(self, path: str, node: Node, present: Node | None) -> None:
        if same(present, node):
            return
        if present is None:
            self._absent.add(path)
        if node.kind == DIRECTORY:
            self._make_directory(path, present)
        elif node.kind == LINK:
            self._make_link(path, node)
        elif present is not None and (present.size, present.content) == (node.size, node.content):
            parent, name = self._parent(path)
            change_mode(parent, os.fsencode(name), node.mode)
            self._note(path, None)
        elif node.size:
            if present is not None:
                self._note(path, None)
            self.wanted.append((path, node))
        else:
            self.write(path, lambda _: None)

    def _make_directory(self, path: str, present: Node | None) -> None:
        parent, name = self._parent(path)
        if present is None or present.kind != DIRECTORY:
            os.mkdir(name, 0o700, dir_fd=parent)
            if self.uid is not None:
                with opened(directory_beneath(parent, os.fsencode(name))) as made:
                    os.fchown(made, self.uid, self.uid)
        self._unfinished.add(path)

    def _make_link(self, path: str, node: Node) -> None:
        staged = b"link"
        os.symlink(node.content, staged, dir_fd=self.staging)
        if self.uid is not None:
            os.chown(staged, self.uid, self.uid, dir_fd=self.staging, follow_symlinks=False)
        self._move_in(staged, path)
        parent, name = self._parent(path)
        self._note(path, look_of(os.stat(name, dir_fd=parent, follow_symlinks=False)))

    def _remove(self, path: str) -> None:
        parent, name = self._parent(path)
        self._note(path, None)
        remove_at(self.trash, parent, os.fsencode(name))

    def _note(self, path: str, look: Look | None) -> None:
        """Remembers that a path was changed, and how it looks since."""
        place, _, name = path.rpartition("/")
        self._looks.setdefault(place, {})[name] = look

    def _move_in(self, staged: bytes, path: str) -> None:
        parent, name = self._parent(path)
        os.rename(staged, name, src_dir_fd=self.staging, dst_dir_fd=parent)

    def _parent(self, path: str) -> tuple[int, str]:
        """The open directory that holds `path`, kept open for its neighbours, and the name in it."""
        place, _, name = path.rpartition("/")
        if place != self._place:
            self.close()
            self._handle = directory_beneath(self.root, os.fsencode(place) or b".")
            self._place = place
        return self._handle, name


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """Those that are not within another of them."""
    covered: set[str] = set()
    for path in sorted(paths):
        if path.rpartition("/")[0] not in covered:
            yield path
        covered.add(path)


def _fits(present: Node, target: Node | None) -> bool:
    """Whether what is there can be replaced by the target without being removed first."""
    return target is not None and (present.kind == DIRECTORY) == (target.kind == DIRECTORY)


def _is_file(node: Node | None) -> bool:
    return node is not None and node.kind == FILE


def _is_directory(node: Node | None) -> bool:
    return node is not None and node.kind == DIRECTORY
