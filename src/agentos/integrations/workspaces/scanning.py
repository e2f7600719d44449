"""Finding out what is in a directory and what of it may have changed, without reading files."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agentos.integrations.workspaces.beneath import change_mode, directory_beneath
from agentos.integrations.workspaces.errors import WorkspaceFull, too_many_bytes, too_many_files
from agentos.integrations.workspaces.index import (
    Index,
    Listing,
    Look,
    look_of,
    prefix_of,
    settled,
)
from agentos.integrations.workspaces.manifest import DIRECTORY, LINK, Node

PERMISSIONS = 0o777
_UNKNOWN = Listing()
# What a directory or link that is gone, or is something else by now, answers with.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)


@dataclass(slots=True)
class Scan:
    """What was found. Files and links are named by directory."""

    # Files and links that look as they did, and directories that do, without the root.
    kept: dict[str, Collection[str]] = field(default_factory=dict)
    kept_directories: list[str] = field(default_factory=list)
    # Files whose bytes have to be read to know what they are.
    unread: dict[str, list[str]] = field(default_factory=dict)
    unread_sizes: set[int] = field(default_factory=set)
    # Directories and links that do not look as they did.
    nodes: dict[str, Node] = field(default_factory=dict)
    # Every directory. What is unread has no look there.
    listings: dict[str, Listing] = field(default_factory=dict)
    # Pipes, sockets and devices, which no snapshot holds.
    skipped: list[str] = field(default_factory=list)
    bytes: int = 0
    count: int = 0
    # Directories that were closed to us, with the mode they had; see `close_again`.
    forced: dict[str, int] = field(default_factory=dict)

    def kept_count(self) -> int:
        return len(self.kept_directories) + sum(map(len, self.kept.values()))

    def kept_paths(self) -> Iterator[str]:
        yield from self.kept_directories
        for place, names in self.kept.items():
            prefix = prefix_of(place)
            for name in names:
                yield prefix + name


def scan(root: int, index: Index, max_bytes: int, max_files: int) -> Scan:
    """Walks the directory; WorkspaceFull as soon as there is more than is allowed."""
    found = Scan()
    pending = [""]
    try:
        while pending:
            place = pending.pop()
            try:
                handle = _open(root, place, found)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise _too_deep() from None
                if error.errno not in _GONE or not place:
                    raise
                continue
            # Not `opened`, which takes longer than a look at a file.
            try:
                known = index.listings.get(place, _UNKNOWN)
                prefix = prefix_of(place)
                pending += [prefix + name for name in _visit(handle, place, known, found)]
            finally:
                os.close(handle)
            _check(found, len(pending), max_bytes, max_files)
    except BaseException:
        close_again(root, found)
        raise
    return found


def close_again(root: int, found: Scan) -> None:
    """Gives directories that were opened by force the mode they had."""
    for place, mode in sorted(found.forced.items(), reverse=True):
        with suppress(OSError):
            change_mode(root, os.fsencode(place), mode & PERMISSIONS)


def measure(root: int) -> tuple[int, int]:
    """How many bytes and how many things there are."""
    found = scan(root, Index(), 1 << 62, 1 << 62)
    close_again(root, found)
    return found.bytes, found.count


def _open(root: int, place: str, found: Scan) -> int:
    raw = os.fsencode(place) or b"."
    try:
        handle = directory_beneath(root, raw)
    except PermissionError:
        return _open_by_force(root, place, found)
    if os.geteuid() == 0 or os.fstat(handle).st_mode & 0o500 == 0o500:
        return handle
    os.close(handle)  # it can be listed, but nothing in it be looked at
    return _open_by_force(root, place, found)


def _open_by_force(root: int, place: str, found: Scan) -> int:
    """Opens a directory of our own that its mode closes to us. Never as root."""
    raw = os.fsencode(place) or b"."
    mode = os.stat(raw, dir_fd=root, follow_symlinks=False).st_mode
    found.forced[place] = mode
    change_mode(root, raw, mode & PERMISSIONS | 0o700)
    return directory_beneath(root, raw)


def _visit(handle: int, place: str, known: Listing, found: Scan) -> Sequence[str]:
    """Sorts what is in one directory; the names of the directories in it."""
    now, status = time.time_ns(), os.fstat(handle)
    look = look_of(status)
    found.count += 1 if place else 0
    if look == known.look and _look_again(handle, place, known, found):
        if place:
            found.kept_directories.append(place)
    else:
        if place:
            mode = found.forced.get(place, status.st_mode)
            found.nodes[place] = Node(DIRECTORY, mode & PERMISSIONS)
        _list(handle, place, known, look if settled(look, now) else None, found)
    return found.listings[place].directories


def _look_again(handle: int, place: str, known: Listing, found: Scan) -> bool:
    """Sorts what is in a directory that holds the names it did; False if it does not.

    The hot loop: each line is paid for by every file.
    """
    unlike: dict[str, os.stat_result] = {}
    total, look_at = 0, os.stat
    try:
        for name, look in known.files.items():
            status = look_at(name, dir_fd=handle, follow_symlinks=False)
            size = status.st_size
            total += size
            if (status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns) != look:
                unlike[name] = status
    except FileNotFoundError:
        return False
    if any(stat.S_ISDIR(status.st_mode) for status in unlike.values()):
        return False
    found.bytes += total
    if unlike:
        kept = {name: look for name, look in known.files.items() if name not in unlike}
        _note(handle, place, known.look, known.directories, kept, unlike, found)
    else:
        found.kept[place], found.listings[place] = known.files, known
        found.count += len(known.files)
    return True


def _list(handle: int, place: str, known: Listing, look: Look | None, found: Scan) -> None:
    """Sorts what is in a directory that may hold other names than it did."""
    directories: list[str] = []
    kept: dict[str, Look | None] = {}
    unlike: dict[str, os.stat_result] = {}
    with os.scandir(handle) as listing:
        for item in listing:
            name = item.name
            try:
                if item.is_dir(follow_symlinks=False):
                    directories.append(name)
                    continue
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.bytes += status.st_size
            if known.files.get(name) == (seen := look_of(status)):
                kept[name] = seen
            else:
                unlike[name] = status
    _note(handle, place, look, tuple(directories), kept, unlike, found)


def _note(
    handle: int,
    place: str,
    look: Look | None,
    directories: tuple[str, ...],
    kept: dict[str, Look | None],
    unlike: dict[str, os.stat_result],
    found: Scan,
) -> None:
    fresh = {name: _sort(handle, place, name, status, found) for name, status in unlike.items()}
    found.kept[place] = kept
    found.listings[place] = Listing(look, kept | fresh, directories)
    found.count += len(kept) + len(fresh)


def _sort(handle: int, place: str, name: str, status: os.stat_result, found: Scan) -> Look | None:
    """Sorts what does not look as it did; its look, if it is known what it is."""
    if stat.S_ISREG(status.st_mode):
        found.unread.setdefault(place, []).append(name)
        found.unread_sizes.add(status.st_size)
        return None
    path = prefix_of(place) + name
    if not stat.S_ISLNK(status.st_mode):
        found.skipped.append(path)
        return None
    now = time.time_ns()
    try:
        target = os.fsencode(os.readlink(name, dir_fd=handle))
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return None
    found.nodes[path] = Node(LINK, 0, len(target), target)
    look = look_of(status)
    return look if settled(look, now) else None


def _check(found: Scan, pending: int, max_bytes: int, max_files: int) -> None:
    if found.bytes > max_bytes:
        raise too_many_bytes(max_bytes)
    if found.count + pending > max_files:
        raise too_many_files(max_files)


def _too_deep() -> WorkspaceFull:
    return WorkspaceFull(
        "The directories of the workspace are nested too deeply.",
        hint="A path has at most 4,095 bytes; move what lies deeper further up.",
    )
