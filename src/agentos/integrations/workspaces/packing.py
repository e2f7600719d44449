"""Reading the files that may have changed, and making a pack of the contents that are new."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from agentos.integrations.workspaces.beneath import open_beneath, opened
from agentos.integrations.workspaces.errors import too_many_bytes
from agentos.integrations.workspaces.index import Look, look_of, prefix_of, settled
from agentos.integrations.workspaces.manifest import FILE, Node
from agentos.integrations.workspaces.scanning import PERMISSIONS

# Files up to this size are read once, as a whole.
WHOLE = 4 * 1024 * 1024
# A pipe or a terminal in a file's place must neither block the opening nor become ours.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


@dataclass(slots=True)
class Packer:
    """Reads files and hands out, in large pieces, the contents that are not stored yet."""

    root: int
    # Stored contents: any node that has them.
    known: dict[bytes, Node]
    # The number that the new pack will have.
    pack: int
    max_bytes: int
    nodes: dict[str, Node] = field(default_factory=dict)
    # By directory.
    looks: dict[str, dict[str, Look]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    # Bytes of the pack so far.
    size: int = 0
    # Bytes read. A file can grow while it is read.
    _read: int = 0
    _sizes: set[int] = field(default_factory=set)

    def pieces(self, files: Mapping[str, Iterable[str]]) -> Iterator[bytes]:
        """The bytes of the new pack; nodes and looks of the files are here when it has ended.

        The files are named by directory.
        """
        self._sizes = {node.size for node in self.known.values()}
        held, size = list[bytes](), 0
        for place, names in files.items():
            try:
                directory = open_beneath(
                    self.root, os.fsencode(place) or b".", os.O_PATH | os.O_DIRECTORY, follow=False
                )
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                continue
            with opened(directory):
                for name in names:
                    for piece in self._file(directory, place, name):
                        held.append(piece)
                        size += len(piece)
                        if size >= WHOLE:
                            yield b"".join(held)
                            held, size = [], 0
        if held:
            yield b"".join(held)

    def _file(self, directory: int, place: str, name: str) -> Iterator[bytes]:
        now, path = time.time_ns(), prefix_of(place) + name
        try:
            handle = _open_file(directory, os.fsencode(name))
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return  # gone, or a link by now: not there any more as what was found
        with opened(handle):
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                self.skipped.append(path)
                return
            if status.st_size <= WHOLE:
                yield from self._small(handle, path, status)
            else:
                yield from self._large(handle, path, status)
        if settled(look := look_of(status), now):
            self.looks.setdefault(place, {})[name] = look

    def _small(self, handle: int, path: str, status: os.stat_result) -> Iterator[bytes]:
        data = os.read(handle, status.st_size + 1)
        if len(data) != status.st_size:  # being written, or the kernel gave less than it has
            rest = [data]
            while piece := os.read(handle, WHOLE):
                rest.append(piece)
                self._count(len(piece))
            data = b"".join(rest)
        self._count(len(data))
        digest = sha256(data).digest()
        if self._place(path, status, len(data), digest):
            yield data

    def _large(self, handle: int, path: str, status: os.stat_result) -> Iterator[bytes]:
        if status.st_size in self._sizes:
            digest, size = self._digest(handle)
            if digest in self.known:
                self._place(path, status, size, digest)
                return
            os.lseek(handle, 0, os.SEEK_SET)
        whole, start = sha256(), self.size
        while piece := os.read(handle, WHOLE):
            self._count(len(piece))
            whole.update(piece)
            self.size += len(piece)
            yield piece
        size = self.size - start
        node = Node(FILE, status.st_mode & PERMISSIONS, size, whole.digest(), self.pack, start)
        self.nodes[path] = node
        self.known.setdefault(node.content, node)
        self._sizes.add(size)

    def _digest(self, handle: int) -> tuple[bytes, int]:
        whole, size = sha256(), 0
        while piece := os.read(handle, WHOLE):
            whole.update(piece)
            size += len(piece)
            self._count(len(piece))
        return whole.digest(), size

    def _place(self, path: str, status: os.stat_result, size: int, digest: bytes) -> bool:
        """Notes where the contents lie; True if they have to be stored for it."""
        mode = status.st_mode & PERMISSIONS
        if not size:
            self.nodes[path] = Node(FILE, mode, 0, digest)
            return False
        if (stored := self.known.get(digest)) is not None:
            self.nodes[path] = Node(FILE, mode, size, digest, stored.pack, stored.offset)
            return False
        self.nodes[path] = self.known[digest] = Node(FILE, mode, size, digest, self.pack, self.size)
        self._sizes.add(size)
        self.size += size
        return True

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > 2 * self.max_bytes:  # a large file may be read twice
            raise too_many_bytes(self.max_bytes)


def _open_file(directory: int, name: bytes) -> int:
    try:
        # A name leads nowhere but to what it names: the directory, or a link which is refused.
        return os.open(name, _READ, dir_fd=directory)
    except PermissionError:
        return _open_by_force(directory, name)


def _open_by_force(directory: int, name: bytes) -> int:
    """Opens a file of our own that its mode closes to us. Never as root."""
    with opened(open_beneath(directory, name, os.O_PATH | os.O_NOFOLLOW, follow=False)) as handle:
        mode, itself = os.fstat(handle).st_mode & PERMISSIONS, f"/proc/self/fd/{handle}"
        os.chmod(itself, mode | 0o400)  # noqa: PTH101 - it is no path
        try:
            return os.open(itself, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.chmod(itself, mode)  # noqa: PTH101 - it is no path
