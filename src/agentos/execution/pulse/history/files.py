"""The files of a session's workspace, as they were after any step."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote_from_bytes
from uuid import UUID

from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.errors import FileTooLarge, NotText
from agentos.execution.pulse.history.reading import Reader, check_step, in_force, tip_of
from agentos.execution.pulse.history.schemas import FileChange, FileChanges, FileDiff
from agentos.integrations.workspaces.errors import FileMissing
from agentos.integrations.workspaces.threads import in_thread
from agentos.integrations.workspaces.workspace import checked_path
from agentos.integrations.workspaces.workspaces import Change
from agentos.kernel.database import Transaction

_MOST_FILES = 10_000
# Held in memory as a whole, because a snapshot's file is checked before any of it is believed.
_MOST_BYTES = 64 * 1024 * 1024
# Comparing lines takes time that grows with their square.
_MOST_DIFF_BYTES = 256 * 1024
_MOST_DIFF_LINES = 5_000


@dataclass(frozen=True, slots=True)
class _Span:
    """Two steps, and the files after each of them."""

    from_seq: int
    to_seq: int
    before: UUID | None
    after: UUID | None


async def changed_files(
    reader: Reader, session_id: UUID, from_seq: int | None, to_seq: int | None
) -> FileChanges:
    """How the files changed between two steps; without them, from the start until now."""
    span = await _span(reader, session_id, from_seq, to_seq)
    changes = await reader.front.workspaces.diff(reader.tenant_id, span.before, span.after)
    return FileChanges(
        from_seq=span.from_seq,
        to_seq=span.to_seq,
        files=[changed_file(change) for change in changes[:_MOST_FILES]],
        more_files=max(0, len(changes) - _MOST_FILES),
    )


async def file_content(reader: Reader, session_id: UUID, path: str, seq: int | None) -> bytes:
    """The bytes of a file as they were after a step; now, without one."""
    async with reader.transaction() as tx:
        tip = await tip_of(tx, reader.tenant_id, session_id)
        at = tip if seq is None else check_step(seq, tip)
        snapshot = await _snapshot(tx, reader, session_id, at)
    return await _read(reader, snapshot, path, _MOST_BYTES)


async def file_diff(
    reader: Reader, session_id: UUID, path: str, from_seq: int | None, to_seq: int | None
) -> FileDiff:
    """How a small text file changed between two steps, line by line."""
    span = await _span(reader, session_id, from_seq, to_seq)
    before = await _lines(reader, span.before, path)
    after = await _lines(reader, span.after, path)
    if before is None and after is None:
        raise FileMissing()
    name = printable(path)
    return FileDiff(
        path=name,
        from_seq=span.from_seq,
        to_seq=span.to_seq,
        diff=await in_thread(_unified, name, before, after),
    )


def changed_file(change: Change) -> FileChange:
    added, removed = change.kind == "added", change.kind == "removed"
    return FileChange(
        path=printable(change.path),
        encoded_path=quote_from_bytes(os.fsencode(change.path)),
        kind=change.kind,
        size_before=None if added else change.size_before,
        size_after=None if removed else change.size_after,
    )


def printable(path: str) -> str:
    """The path as text: bytes that are no UTF-8 are shown as question marks in a diamond."""
    return os.fsencode(path).decode(errors="replace")


async def _span(
    reader: Reader, session_id: UUID, from_seq: int | None, to_seq: int | None
) -> _Span:
    async with reader.transaction() as tx:
        tip = await tip_of(tx, reader.tenant_id, session_id)
        last = tip if to_seq is None else check_step(to_seq, tip, least=0)
        if from_seq is None:
            start = await repository.first_checkpoint(tx, reader.tenant_id, session_id, "start")
            first = start["seq"] if start is not None else 0
        else:
            first = check_step(from_seq, tip, least=0)
        before = await _snapshot(tx, reader, session_id, first)
        after = await _snapshot(tx, reader, session_id, last)
    return _Span(first, last, before, after)


async def _snapshot(tx: Transaction, reader: Reader, session_id: UUID, seq: int) -> UUID | None:
    path = await in_force(tx, reader.tenant_id, session_id, seq)
    return await repository.snapshot_at(tx, reader.tenant_id, session_id, path.ranges)


async def _read(reader: Reader, snapshot: UUID | None, path: str, most: int) -> bytes:
    if snapshot is None:
        raise FileMissing()
    workspaces, tenant_id = reader.front.workspaces, reader.tenant_id
    # The list of files says how large it is before any of it is read.
    listed = await workspaces.diff(tenant_id, None, snapshot)
    name = os.fsdecode(checked_path(path))
    size = next((change.size_after for change in listed if change.path == name), 0)
    if size > most:
        _too_large(size, most)
    return await workspaces.read_at(tenant_id, snapshot, path)


def _too_large(size: int, most: int) -> NoReturn:
    raise FileTooLarge(f"The file has {size} bytes; at most {most} can be shown.", limit=most)


async def _lines(reader: Reader, snapshot: UUID | None, path: str) -> list[str] | None:
    """The lines of a text file; None if there is no such file."""
    try:
        data = await _read(reader, snapshot, path, _MOST_DIFF_BYTES)
    except FileMissing:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotText() from None
    if "\0" in text:
        raise NotText()
    lines = text.splitlines(keepends=True)
    if len(lines) > _MOST_DIFF_LINES:
        raise FileTooLarge(f"Files of more than {_MOST_DIFF_LINES} lines are not compared.")
    return lines


def _unified(name: str, before: list[str] | None, after: list[str] | None) -> str:
    old = "/dev/null" if before is None else f"a/{name}"
    new = "/dev/null" if after is None else f"b/{name}"
    return "".join(_ended(difflib.unified_diff(before or [], after or [], old, new)))


def _ended(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
