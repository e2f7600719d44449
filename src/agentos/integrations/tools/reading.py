"""Tools that look at the workspace: `read_file`, `list_files`, `search_files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import BuiltInTool, arguments_of, failed
from agentos.integrations.tools.outputs import MOST_CHARACTERS, is_binary, size_of

PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "Relative to the workspace, such as src/main.py.",
}
FOLDER: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "default": ".",
    "description": "A directory, relative to the workspace. Default: all of it.",
}
# Where a sandbox sees the workspace. Models that saw it there name files by it.
_INSIDE = "/workspace"
_MOST_BYTES = 16 * 1024 * 1024
_LONGEST_LINE = 2000
_MOST_LINES = 2000
_MOST_ENTRIES = 1000
_MOST_MATCHES = 200
_LONGEST_MATCH = 300


class ReadFile(BuiltInTool):
    """Shows a text file with line numbers, a part at a time."""

    spec = ToolSpec(
        name="read_file",
        description=(
            "Read a text file of the workspace. Lines come numbered, as `number<tab>text`; the "
            "numbers are not part of the file. A long file comes in parts: go on with offset."
        ),
        schema=arguments_of(
            {
                "path": PATH,
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 1,
                    "description": "The first line to read, counted from 1.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": _MOST_LINES,
                    "default": _MOST_LINES,
                    "description": "How many lines to read at most.",
                },
            },
            "path",
        ),
        tier=Tier.SAFE,
        repeat=Repeat.ALWAYS,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = relative(arguments["path"])
        data = await context.workspace.read(path, limit=_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            return failed(
                f"{path} has more than {size_of(_MOST_BYTES)}. Look at a part of it with the "
                "shell tool (head, tail, sed -n) or search it with search_files."
            )
        if is_binary(data):
            return failed(f"{path} is a binary file of {size_of(len(data))}, not text.")
        return _part(path, data, arguments.get("offset", 1), arguments.get("limit", _MOST_LINES))


def relative(path: str) -> str:
    """A path as the workspace knows it, also if it is written as seen from inside a sandbox."""
    if path == _INSIDE or path.startswith(_INSIDE + "/"):
        return path.removeprefix(_INSIDE).lstrip("/") or "."
    return path


def _printable(text: str) -> str:
    """Names that are not UTF-8 (PEP 383) with those bytes spelled out."""
    return text.encode(errors="backslashreplace").decode()


def _part(path: str, data: bytes, offset: int, limit: int) -> ToolResult:
    if not data:
        return ToolResult(f"[{path} is empty.]", details={"lines": 0, "bytes": 0})
    # Only \n ends a line, as for every tool that counts them.
    lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    if offset > len(lines):
        return failed(f"{path} has {len(lines)} lines; there is none with the number {offset}.")
    rows: list[str] = []
    room = MOST_CHARACTERS
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], start=offset):
        row = f"{number}\t{_cut(line.removesuffix(chr(13)), _LONGEST_LINE)}"
        room -= len(row) + 1
        if room < 0 and rows:
            break
        rows.append(row)
    last = offset + len(rows) - 1
    if last < len(lines):
        rows.append(f"[Lines {offset} to {last} of {len(lines)}. Go on with offset {last + 1}.]")
    return ToolResult("\n".join(rows), details={"lines": len(lines), "bytes": len(data)})


class ListFiles(BuiltInTool):
    """Shows what is in a directory."""

    spec = ToolSpec(
        name="list_files",
        description=(
            "List files and directories of the workspace with their sizes. Directories end with "
            "`/`, symbolic links with `@`. Use depth to see what is further down."
        ),
        schema=arguments_of(
            {
                "path": FOLDER,
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 20,
                    "default": 1,
                    "description": "How many levels down; 1 is the directory itself.",
                },
            }
        ),
        tier=Tier.SAFE,
        repeat=Repeat.ALWAYS,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = relative(arguments.get("path", "."))
        entries = await context.workspace.entries(
            path, depth=arguments.get("depth", 1), limit=_MOST_ENTRIES
        )
        if not entries:
            return ToolResult(f"[{path} is empty.]", details={"entries": 0})
        rows: list[str] = []
        room = MOST_CHARACTERS
        for entry in entries:
            row = _entry(_printable(entry.path), entry.kind, entry.size)
            room -= len(row) + 1
            if room < 0:
                break
            rows.append(row)
        if len(rows) < len(entries) or len(entries) >= _MOST_ENTRIES:
            rows.append(f"[The first {len(rows)}; there are more. List a directory of them.]")
        return ToolResult("\n".join(rows), details={"entries": len(entries)})


def _entry(path: str, kind: str, size: int) -> str:
    if kind == "directory":
        return f"{path}/"
    if kind == "symlink":
        return f"{path}@"
    return f"{path}  ({size_of(size)})" if kind == "file" else f"{path}  (not a file)"


class SearchFiles(BuiltInTool):
    """Finds lines that match a regular expression."""

    spec = ToolSpec(
        name="search_files",
        description=(
            "Search the text files of the workspace for a regular expression, line by line. "
            "Returns matches as `path:line: text`."
        ),
        schema=arguments_of(
            {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "A regular expression, such as `def \\w+_user`.",
                },
                "path": FOLDER,
                "glob": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 200,
                    "description": "Only files whose name fits, such as *.py.",
                },
            },
            "pattern",
        ),
        tier=Tier.SAFE,
        repeat=Repeat.ALWAYS,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        matches = await context.workspace.search(
            arguments["pattern"],
            path=relative(arguments.get("path", ".")),
            glob=arguments.get("glob"),
            limit=_MOST_MATCHES,
        )
        if not matches:
            return ToolResult("[Nothing matches.]", details={"matches": 0})
        rows: list[str] = []
        room = MOST_CHARACTERS
        for match in matches:
            text = _cut(match.text, _LONGEST_MATCH)
            row = _printable(f"{match.path}:{match.line}: {text}")
            room -= len(row) + 1
            if room < 0:
                break
            rows.append(row)
        if len(rows) < len(matches) or len(matches) >= _MOST_MATCHES:
            rows.append(f"[The first {len(rows)} matches; there may be more. Narrow it down.]")
        return ToolResult("\n".join(rows), details={"matches": len(matches)})


def _cut(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    return f"{line[:most]} [{len(line) - most} more characters in this line]"
