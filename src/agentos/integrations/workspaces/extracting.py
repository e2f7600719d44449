"""Cutting files out of packs as the packs arrive."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from agentos.integrations.workspaces.beneath import open_root, opened
from agentos.integrations.workspaces.errors import SnapshotLost, WorkspaceChanging
from agentos.integrations.workspaces.index import Index
from agentos.integrations.workspaces.manifest import Node, Tree
from agentos.integrations.workspaces.packing import WHOLE
from agentos.integrations.workspaces.packs import Packs
from agentos.integrations.workspaces.restoring import Restore
from agentos.integrations.workspaces.threads import in_thread
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.ids import TenantId

_ATTEMPTS = 5
# What is read at once, and what is rather read in vain than asked for twice.
_PIECE = 8 * 1024 * 1024
_GAP = 256 * 1024
# What the kernel answers if a path is not any more what it was a moment ago.
_DISTURBED = (
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOTEMPTY,
    errno.ELOOP,
    errno.EXDEV,
    errno.EAGAIN,
    errno.EOPNOTSUPP,  # the mode of a symbolic link was to be set
)


@dataclass(slots=True)
class _Content:
    """Bytes in a pack, and the paths that have them."""

    node: Node
    paths: list[str]

    @property
    def end(self) -> int:
        return self.node.offset + self.node.size


async def bring_to(packs: Packs, workspace: Workspace, known: Index, tree: Tree) -> Index:
    """Makes the directory what the tree says; WorkspaceChanging if somebody keeps us from it."""
    for _ in range(_ATTEMPTS):
        with _opened(workspace, tree) as restore:
            try:
                await in_thread(restore.prepare, known)
                for pack, contents in wanted_contents(restore.wanted).items():
                    extraction = Extraction(restore, contents)
                    await _extract(packs, workspace.tenant_id, tree.packs[pack], extraction)
                return await in_thread(restore.finish)
            except OSError as error:
                if error.errno not in _DISTURBED:
                    raise
    raise WorkspaceChanging()


async def _extract(packs: Packs, tenant_id: TenantId, pack: UUID, extraction: Extraction) -> None:
    try:
        spans = list(spans_of(extraction.contents))
        async with aclosing(_pieces(packs, tenant_id, pack, spans)) as pieces:
            async for start, piece in pieces:
                await in_thread(extraction.feed, start, piece)
    finally:
        extraction.close()


async def _pieces(
    packs: Packs, tenant_id: TenantId, pack: UUID, spans: list[tuple[int, int]]
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Parts of a pack, each read while the one before is being used. Must be closed."""
    reads = (packs.read(tenant_id, pack, start, end) for start, end in spans)
    ahead = asyncio.ensure_future(next(reads))
    try:
        for start, _ in spans:
            piece = await ahead
            if (following := next(reads, None)) is not None:
                ahead = asyncio.ensure_future(following)
            yield start, piece
    finally:
        ahead.cancel()
        await asyncio.wait({ahead})
        # What went wrong in it has been raised above, or nobody wants to know any more.
        ahead.cancelled() or ahead.exception()


@contextmanager
def _opened(workspace: Workspace, tree: Tree) -> Iterator[Restore]:
    places = workspace.places
    with (
        opened(open_root(places.files)) as root,
        opened(open_root(places.staging)) as staging,
        opened(open_root(places.trash)) as trash,
    ):
        restore = Restore(workspace.uid, tree, root, staging, trash)
        try:
            yield restore
        finally:
            restore.close()


@dataclass(slots=True)
class Extraction:
    """Writes the files of one pack, whose parts are fed to it in order."""

    restore: Restore
    contents: list[_Content]
    _next: int = 0
    _held: list[memoryview] = field(default_factory=list)
    _large: _LargeFile | None = None

    def feed(self, start: int, piece: bytes) -> None:
        """Takes the bytes of the pack from `start` on."""
        view = memoryview(piece)
        while self._next < len(self.contents):
            content = self.contents[self._next]
            node = content.node
            first, last = node.offset - start, node.offset - start + node.size
            if first >= len(piece):
                break
            if first >= 0 and last <= len(piece) and node.size <= WHOLE:
                self._write(content, view[first:last])
            else:
                self._take(content, view[max(0, first) : last])
                if last > len(piece):
                    break
                self._complete(content)
            self._next += 1

    def close(self) -> None:
        if self._large is not None:
            self._large.close()

    def _take(self, content: _Content, data: memoryview) -> None:
        if content.node.size <= WHOLE:
            self._held.append(data)
            return
        if self._large is None:
            self._large = _LargeFile(self.restore)
        self._large.write(data)

    def _complete(self, content: _Content) -> None:
        if self._large is not None:
            self._large.place(content)
            self._large = None
            return
        data = self._held[0] if len(self._held) == 1 else memoryview(b"".join(self._held))
        self._held.clear()
        self._write(content, data)

    def _write(self, content: _Content, data: memoryview) -> None:
        if sha256(data).digest() != content.node.content:
            raise SnapshotLost()
        for path in content.paths:
            self.restore.write(path, lambda handle: write_all(handle, data))


class _LargeFile:
    """A file that is written as its bytes arrive, because they do not fit into memory."""

    def __init__(self, restore: Restore):
        self._restore = restore
        self._closing = ExitStack()
        self._staged, self._handle = self._closing.enter_context(restore.new_file())
        self._digest = sha256()

    def write(self, data: memoryview) -> None:
        self._digest.update(data)
        write_all(self._handle, data)

    def place(self, content: _Content) -> None:
        with self._closing:
            if self._digest.digest() != content.node.content:
                raise SnapshotLost()
            for path in content.paths[1:]:
                self._restore.write(path, self._copy)
            self._restore.place(self._staged, self._handle, content.paths[0])

    def close(self) -> None:
        self._closing.close()

    def _copy(self, handle: int) -> None:
        offset = 0
        while copied := os.sendfile(handle, self._handle, offset, 1 << 30):
            offset += copied


def wanted_contents(wanted: list[tuple[str, Node]]) -> dict[int, list[_Content]]:
    """What to cut out of each pack, in order; `wanted` is sorted by pack and offset."""
    found: dict[int, list[_Content]] = {}
    latest: _Content | None = None
    for path, node in wanted:
        if latest and (latest.node.pack, latest.node.offset) == (node.pack, node.offset):
            latest.paths.append(path)
        else:
            latest = _Content(node, [path])
            found.setdefault(node.pack, []).append(latest)
    return found


def spans_of(contents: list[_Content]) -> Iterator[tuple[int, int]]:
    """Which parts of a pack to read, in order: neighbours together, each fits into memory."""
    start = end = contents[0].node.offset
    for content in contents:
        if content.node.offset - end > _GAP:
            yield from _cut(start, end)
            start = content.node.offset
        end = max(end, content.end)
    yield from _cut(start, end)


def _cut(start: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, _PIECE):
        yield at, min(at + _PIECE, end)


def write_all(handle: int, data: memoryview) -> None:
    while (written := os.write(handle, data)) < len(data):
        data = data[written:]
