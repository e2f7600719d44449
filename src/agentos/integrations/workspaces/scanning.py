"""Finding out what is in a directory and what of it may have changed, without reading files."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field

from agentos.integrations.workspaces.beneath import change_mode, directory_beneath, opened
from agentos.integrations.workspaces.errors import WorkspaceFull, too_many_bytes, too_many_files
from agentos.integrations.workspaces.index import Index, Look, look_of, settled
from agentos.integrations.workspaces.manifest import DIRECTORY, LINK, Node

PERMISSIONS = 0o777
# What a directory or link that is gone, or is something else by now, answers with.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)


@dataclass(slots=True)
class Scan:
    """What was found."""

    # Files and links that look as they did.
    kept: list[str] = field(default_factory=list)
    # Files whose bytes have to be read to know what they are.
    unread: list[str] = field(default_factory=list)
    unread_sizes: set[int] = field(default_factory=set)
    # Directories, and links that do not look as they did.
    nodes: dict[str, Node] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    # Pipes, sockets and devices, which no snapshot holds.
    skipped: list[str] = field(default_factory=list)
    bytes: int = 0
    # Directories that were closed to us, with the mode they had; see `close_again`.
    forced: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.kept) + len(self.unread) + len(self.nodes) + len(self.skipped)


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
            with opened(handle):
                if place:
                    mode = found.forced.get(place, os.fstat(handle).st_mode)
                    found.nodes[place] = Node(DIRECTORY, mode & PERMISSIONS)
                _list(handle, place, index.looks, found, pending)
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
    with suppress(PermissionError):
        handle = directory_beneath(root, raw)
        if os.geteuid() == 0 or os.fstat(handle).st_mode & 0o500 == 0o500:
            return handle
        os.close(handle)  # it can be listed, but nothing in it be looked at
    # The files are ours, so nothing is entered by force that could not be anyway.
    mode = os.stat(raw, dir_fd=root, follow_symlinks=False).st_mode
    found.forced[place] = mode
    change_mode(root, raw, mode & PERMISSIONS | 0o700)
    return directory_beneath(root, raw)


def _list(handle: int, place: str, looks: dict[str, Look], found: Scan, pending: list[str]) -> None:
    """Sorts what is in one directory. The hot loop: each line is paid for by every file."""
    prefix = place + "/" if place else ""
    kept, known, size = found.kept, looks.get, 0
    unlike: list[tuple[str, os.stat_result]] = []
    with os.scandir(handle) as listing:
        for item in listing:
            path = prefix + item.name
            try:
                if item.is_dir(follow_symlinks=False):
                    pending.append(path)
                    continue
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size += status.st_size
            look = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if known(path) == look:
                kept.append(path)
            else:
                unlike.append((path, status))
    found.bytes += size
    for path, status in unlike:
        _sort(handle, path, status, found)


def _sort(handle: int, path: str, status: os.stat_result, found: Scan) -> None:
    if stat.S_ISREG(status.st_mode):
        found.unread.append(path)
        found.unread_sizes.add(status.st_size)
    elif stat.S_ISLNK(status.st_mode):
        now, name = time.time_ns(), path.rpartition("/")[2]
        try:
            target = os.fsencode(os.readlink(name, dir_fd=handle))
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return
        found.nodes[path] = Node(LINK, 0, len(target), target)
        if settled(look_of(status), now):
            found.looks[path] = look_of(status)
    else:
        found.skipped.append(path)


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
