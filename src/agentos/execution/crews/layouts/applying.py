"""Brings a layout into a workspace that belongs to the agents, and to people.

What is ours there is listed in a manifest, and only that is written over or removed. Whatever else
is in our way is moved aside, as `<path>.yours`. The manifest is in the workspace, too: an agent
that forges it can lose its own files, and nothing beyond. It names each path before the first
byte is written there, so after a crash our half-done files are still known to be ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import msgspec

from agentos.execution.crews.layouts.layout import Layout, Link
from agentos.integrations.workspaces.errors import (
    BadPath,
    FileMissing,
    NotADirectory,
    NotAFile,
)
from agentos.integrations.workspaces.workspace import Entry, Workspace, checked_path

MANIFEST = ".agentos/managed.json"

_MOST_MANIFEST_BYTES = 4_000_000
# What is larger was not written here.
_MOST_FILE_BYTES = 4_000_000
_MOST_ENTRIES = 1_000_000
_YOURS = ".yours"


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done to bring a layout in. Nothing, if it was there already."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    # What was in the way, and where it is now.
    moved: Mapping[str, str]


async def apply(workspace: Workspace, layout: Layout) -> Applied:
    """Makes the files of a layout be there, and those of earlier ones be gone."""
    return await _Applying(workspace, layout, await _manifest(workspace)).run()


async def _manifest(workspace: Workspace) -> dict[str, str]:
    """What is ours, as it was written; nothing if that cannot be read. It may be forged."""
    try:
        data = await workspace.read(MANIFEST, limit=_MOST_MANIFEST_BYTES)
        managed = msgspec.json.decode(data, type=dict[str, str])
    except (FileMissing, NotAFile, NotADirectory, BadPath, msgspec.DecodeError):
        return {}
    return {path: mark for path, mark in managed.items() if _is_plain(path)}


def _is_plain(path: str) -> bool:
    try:
        return checked_path(path) == path.encode() and path not in (".", MANIFEST)
    except BadPath:
        return False


def _mark(content: bytes | Link) -> str:
    if isinstance(content, Link):
        return f"link:{content.target}"
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class _Applying:
    workspace: Workspace
    layout: Layout
    managed: dict[str, str]
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    # By directory; forgotten where something was changed.
    _listings: dict[str, dict[str, Entry]] = field(default_factory=dict)

    async def run(self) -> Applied:
        for path in sorted(self.layout):
            await self._make_way_above(path)
            if path not in self.managed:
                await self._make_way(path)
        marks = {path: _mark(content) for path, content in sorted(self.layout.items())}
        await self._note(self.managed | marks)
        for path in sorted(self.managed.keys() - marks.keys()):
            await self._retire(path)
        for path, content in sorted(self.layout.items()):
            await self._put(path, content)
        await self._note(marks)
        return Applied(tuple(self.written), tuple(self.removed), self.moved)

    async def _note(self, marks: dict[str, str]) -> None:
        text = json.dumps(marks, indent=1, sort_keys=True)
        await self._make_way_above(MANIFEST)
        await self._put_file(MANIFEST, text.encode())

    async def _make_way_above(self, path: str) -> None:
        """What has to be a directory, and is none, is moved aside.

        A link to one, too: through it, two paths of a layout could be the same place.
        """
        for above in reversed(PurePosixPath(path).parents[:-1]):
            entry = await self._look(str(above))
            if entry is None:
                return
            if entry.kind != "directory":
                await self._move_aside(str(above))

    async def _make_way(self, path: str) -> None:
        """What is at a path that was not ours so far is moved aside, unless it is the same."""
        entry = await self._look(path)
        if entry is not None and await self._mark_of(entry) != _mark(self.layout[path]):
            await self._move_aside(path)

    async def _retire(self, path: str) -> None:
        """What was ours is removed. What somebody has made of it is kept, where no agent reads it."""
        try:
            entry = await self._look(path)
        except (BadPath, NotADirectory):
            return
        if entry is None or entry.kind == "directory":
            return
        if await self._mark_of(entry) == self.managed[path]:
            await self.workspace.remove(path)
            self._forget(path)
            self.removed.append(path)
        else:
            await self._move_aside(path)

    async def _put(self, path: str, content: bytes | Link) -> None:
        entry = await self._look(path)
        if entry is not None and await self._mark_of(entry) == _mark(content):
            return
        if entry is not None and entry.kind == "directory":
            await self._move_aside(path)
        if isinstance(content, Link):
            await self.workspace.link(path, content.target)
            self._forget(path)
        else:
            await self._put_file(path, content)
        self.written.append(path)

    async def _put_file(self, path: str, data: bytes) -> None:
        entry = await self._look(path)
        if entry is not None and await self._mark_of(entry) == _mark(data):
            return
        if entry is not None and entry.kind == "directory":
            await self._move_aside(path)
        elif entry is not None and entry.kind != "file":
            # Writing through a link would change what it leads to.
            await self.workspace.remove(path)
        await self.workspace.write(path, data)
        self._forget(path)

    async def _mark_of(self, entry: Entry) -> str:
        """What is there; of something that is never ours, a mark that nothing has."""
        if entry.kind == "symlink":
            return _mark(Link(await self.workspace.link_target(entry.path)))
        if entry.kind == "file" and entry.size <= _MOST_FILE_BYTES:
            return _mark(await self.workspace.read(entry.path))
        return entry.kind

    async def _move_aside(self, path: str) -> None:
        aside, n = path + _YOURS, 1
        while await self._look(aside) is not None:
            n += 1
            aside = f"{path}{_YOURS}{n}"
        await self.workspace.move(path, aside)
        self._forget(path)
        self.moved[path] = aside

    async def _look(self, path: str) -> Entry | None:
        """What is at a path itself, links not followed."""
        folder = str(PurePosixPath(path).parent)
        if folder not in self._listings:
            try:
                found = await self.workspace.entries(folder, limit=_MOST_ENTRIES)
            except FileMissing:
                found = []
            self._listings[folder] = {entry.path: entry for entry in found}
        return self._listings[folder].get(path)

    def _forget(self, path: str) -> None:
        """Also what is beneath it, and the directories above, which may be new."""
        for folder in list(self._listings):
            if folder == path or folder.startswith(f"{path}/") or path.startswith(f"{folder}/"):
                del self._listings[folder]
        self._listings.pop(".", None)
