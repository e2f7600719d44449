"""One directory of files that a session works on, as the host sees it.

The other side of it is a sandbox in which anything may run. So each path is resolved by the kernel
beneath the root at the moment of opening: see beneath.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from agentos.integrations.workspaces.beneath import (
    directory_beneath,
    open_beneath,
    open_root,
    opened,
    parts_of,
)
from agentos.integrations.workspaces.errors import (
    BadPath,
    DiskFull,
    FileMissing,
    FileRefused,
    NotADirectory,
    NotAFile,
    WorkspaceChanging,
    too_many_bytes,
    too_many_files,
)
from agentos.integrations.workspaces.places import Places
from agentos.integrations.workspaces.removal import remove_at
from agentos.integrations.workspaces.scanning import measure
from agentos.integrations.workspaces.search import search_files
from agentos.integrations.workspaces.searching import Match
from agentos.kernel.ids import TenantId, uuid7

EntryKind = Literal["file", "directory", "symlink", "other"]

_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755
_PIECE = 1024 * 1024
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """What there is at a path. Bytes of a name that are not UTF-8 are lone surrogates (PEP 383)."""

    path: str
    kind: EntryKind
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """The files of one workspace. Paths are relative to its root, parted by `/`."""

    tenant_id: TenantId
    id: UUID
    places: Places
    # The account that owns the files; None: that of this process.
    uid: int | None
    max_bytes: int
    max_files: int

    @property
    def root(self) -> Path:
        """What a sandbox binds as its /workspace."""
        return self.places.files

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a file, or `limit` of them from `offset`."""
        return await asyncio.to_thread(self._read, checked_path(path), offset, limit)

    async def write(self, path: str, data: bytes) -> None:
        """Makes these the bytes of a file, and the directories above it if they are missing."""
        await asyncio.to_thread(self._write, checked_path(path), data)

    async def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with everything in it."""
        await asyncio.to_thread(self._remove, checked_path(path))

    async def link(self, path: str, target: str) -> None:
        """Makes a symbolic link, in place of a file or link that is there. The target may be missing."""
        await asyncio.to_thread(self._link, checked_path(path), _checked_target(target))

    async def link_target(self, path: str) -> str:
        """What a symbolic link says; NotAFile if it is something else."""
        return await asyncio.to_thread(self._link_target, checked_path(path))

    async def move(self, path: str, to: str) -> None:
        """Gives a file, link or directory another path; FileRefused if something is there."""
        await asyncio.to_thread(self._move, checked_path(path), checked_path(to))

    async def entries(self, path: str = ".", *, depth: int = 1, limit: int = 1000) -> list[Entry]:
        """What is in a directory, down to `depth` levels, in the order of the paths."""
        return await asyncio.to_thread(self._entries, checked_path(path), depth, limit)

    async def search(
        self, pattern: str, *, path: str = ".", glob: str | None = None, limit: int = 200
    ) -> list[Match]:
        """The lines that a regular expression matches; SearchTooSlow if that takes too long."""
        where = checked_path(path)
        with self._root_opened() as root:
            return await search_files(root, pattern, where, glob, limit)

    def _read(self, path: bytes, offset: int, limit: int | None) -> bytes:
        with (
            self._root_opened() as root,
            opened(open_beneath(root, path, os.O_RDONLY)) as handle,
        ):
            size = _regular(handle).st_size
            wanted = max(0, size - offset) if limit is None else max(0, limit)
            return _read_all(handle, offset, min(wanted, self.max_bytes))

    def _write(self, path: bytes, data: bytes) -> None:
        if path == b".":
            raise NotAFile()
        with self._root_opened() as root:
            self._check_room(root, path, len(data))
            self.places.mark_dirty()
            os.close(self._made_parent(root, parts_of(path)[0]))
            with opened(self._open_for_writing(root, path)) as handle:
                _regular(handle)
                os.ftruncate(handle, 0)
                _write_all(handle, data)

    def _check_room(self, root: int, path: bytes, size: int) -> None:
        """Exact only while nothing else writes; the next snapshot counts again."""
        used, things = measure(root)
        freed, more = 0, path.count(b"/") + 1
        with suppress(OSError), opened(open_beneath(root, path, os.O_PATH)) as handle:
            freed, more = os.fstat(handle).st_size, 0
        if used - freed + size > max(self.max_bytes, used):
            raise too_many_bytes(self.max_bytes)
        if more and things + more > self.max_files:
            raise too_many_files(self.max_files)

    def _open_for_writing(self, root: int, path: bytes) -> int:
        for _ in range(_ATTEMPTS):
            try:
                return open_beneath(root, path, os.O_WRONLY)
            except FileNotFoundError:
                # Apart from opening, because only a file that is new may be given an owner.
                with suppress(FileExistsError):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                    handle = open_beneath(root, path, flags, _FILE_MODE)
                    self._own(handle, _FILE_MODE)
                    return handle
        # Also what a link to a file that is not there looks like.
        raise FileMissing("The path is a link to a file that is not there.")

    def _made_parent(self, root: int, path: bytes) -> int:
        """Opens a directory, and makes it and those above it first if they are missing."""
        with suppress(FileNotFoundError):
            return directory_beneath(root, path, follow=True)
        names = path.split(b"/")
        for length in range(1, len(names) + 1):
            self._make_directory(root, b"/".join(names[:length]))
        return directory_beneath(root, path, follow=True)

    def _make_directory(self, root: int, path: bytes) -> None:
        head, name = parts_of(path)
        with opened(directory_beneath(root, head, follow=True)) as parent:
            try:
                os.mkdir(name, 0o700, dir_fd=parent)
            except FileExistsError:
                return
            with opened(directory_beneath(parent, name)) as made:
                self._own(made, _DIRECTORY_MODE)

    def _own(self, handle: int, mode: int) -> None:
        if self.uid is not None:
            os.fchown(handle, self.uid, self.uid)
        os.fchmod(handle, mode)

    def _remove(self, path: bytes) -> None:
        if path == b".":
            raise BadPath("The workspace itself cannot be removed.")
        self.places.mark_dirty()
        head, name = parts_of(path)
        with (
            self._root_opened() as root,
            opened(directory_beneath(root, head, follow=True)) as parent,
            opened(open_root(self.places.trash)) as trash,
        ):
            remove_at(trash, parent, name)

    def _link(self, path: bytes, target: bytes) -> None:
        if path == b".":
            raise NotAFile()
        head, name = parts_of(path)
        # Made under another name first: there is never a moment without what was there before.
        fresh = b".%s" % uuid7().hex.encode()
        with self._root_opened() as root:
            self._check_room(root, path, len(target))
            self.places.mark_dirty()
            with opened(self._made_parent(root, head)) as parent:
                os.symlink(target, fresh, dir_fd=parent)
                try:
                    if self.uid is not None:
                        os.chown(fresh, self.uid, self.uid, dir_fd=parent, follow_symlinks=False)
                    os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
                except OSError:
                    with suppress(FileNotFoundError):
                        os.unlink(fresh, dir_fd=parent)
                    raise

    def _link_target(self, path: bytes) -> str:
        head, name = parts_of(path)
        with (
            self._root_opened() as root,
            opened(directory_beneath(root, head, follow=True)) as parent,
        ):
            try:
                return os.fsdecode(os.readlink(name, dir_fd=parent))
            except OSError as error:
                if error.errno == errno.EINVAL:
                    raise NotAFile() from error
                raise

    def _move(self, path: bytes, to: bytes) -> None:
        if b"." in (path, to):
            raise BadPath("The workspace itself cannot be moved.")
        head, name = parts_of(path)
        to_head, to_name = parts_of(to)
        with self._root_opened() as root:
            self.places.mark_dirty()
            with (
                opened(directory_beneath(root, head, follow=True)) as parent,
                opened(self._made_parent(root, to_head)) as to_parent,
            ):
                # Exact only while nothing else writes; who does owns all of it anyway.
                with suppress(FileNotFoundError):
                    os.stat(to_name, dir_fd=to_parent, follow_symlinks=False)
                    raise FileRefused("There is something at the new path.")
                os.rename(name, to_name, src_dir_fd=parent, dst_dir_fd=to_parent)

    def _entries(self, path: bytes, depth: int, limit: int) -> list[Entry]:
        with self._root_opened() as root:
            # A level at a time: what is cut off at the limit is what lies deepest.
            found: list[Entry] = []
            level = [path]
            for _ in range(depth):
                below: list[bytes] = []
                for place in level:
                    for entry in _listed(root, place, follow=place == path):
                        found.append(entry)
                        if entry.kind == "directory":
                            below.append(os.fsencode(entry.path))
                    if len(found) >= limit:
                        break
                level = below
            return sorted(found, key=lambda entry: entry.path)[:limit]

    @contextmanager
    def _root_opened(self) -> Iterator[int]:
        """The root, beneath which everything is; turns what the kernel answers into our errors."""
        try:
            with opened(open_root(self.root)) as root:
                yield root
        except OSError as error:
            if (meaning := _MEANINGS.get(error.errno or 0)) is None:
                raise
            raise meaning() from error


def checked_path(path: str) -> bytes:
    """The path as the kernel takes it, without `.` and doubled slashes; BadPath if it is none."""
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise BadPath() from None
    if not raw or b"\0" in raw or raw.startswith(b"/"):
        raise BadPath()
    names = [name for name in raw.split(b"/") if name not in (b"", b".")]
    if b".." in names:
        raise BadPath()
    if any(len(name) > 255 for name in names) or len(raw) > 4000:
        raise BadPath("The path is too long.")
    return b"/".join(names) or b"."


def _checked_target(target: str) -> bytes:
    try:
        raw = os.fsencode(target)
    except UnicodeEncodeError:
        raise BadPath() from None
    if not raw or b"\0" in raw or len(raw) > 4000:
        raise BadPath()
    return raw


def _listed(root: int, path: bytes, *, follow: bool) -> list[Entry]:
    prefix = "" if path == b"." else os.fsdecode(path) + "/"
    found = []
    try:
        handle = directory_beneath(root, path, follow=follow)
    except (FileNotFoundError, NotADirectoryError, OSError) as error:
        if follow or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise
        return []  # gone since it was listed, or closed to us
    with opened(handle), os.scandir(handle) as listing:
        for item in listing:
            with suppress(FileNotFoundError):
                status = item.stat(follow_symlinks=False)
                kind = _kind(status.st_mode)
                mode = stat.S_IMODE(status.st_mode)
                found.append(Entry(prefix + item.name, kind, status.st_size, mode))
    return found


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _regular(handle: int) -> os.stat_result:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFile()
    return status


def _read_all(handle: int, offset: int, wanted: int) -> bytes:
    pieces = []
    while wanted > 0 and (piece := os.pread(handle, min(wanted, _PIECE), offset)):
        pieces.append(piece)
        offset += len(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left[: 64 * _PIECE]) :]


_MEANINGS: dict[int, type[Exception]] = {
    errno.ENOENT: FileMissing,
    errno.ENOTDIR: NotADirectory,
    errno.EISDIR: NotAFile,
    errno.ENXIO: NotAFile,
    errno.EXDEV: BadPath,
    errno.ELOOP: BadPath,
    errno.ENAMETOOLONG: BadPath,
    errno.EINVAL: BadPath,
    errno.EACCES: FileRefused,
    errno.EPERM: FileRefused,
    errno.ETXTBSY: FileRefused,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EAGAIN: WorkspaceChanging,
}
