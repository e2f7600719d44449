"""Tools that change files of the workspace: `write_file`, `edit_file`, `delete_file`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import BuiltInTool, arguments_of, failed
from agentos.integrations.tools.outputs import is_binary, size_of
from agentos.integrations.tools.reading import PATH, relative

_MOST_CHARACTERS = 4_000_000
_MOST_EDITED_BYTES = 16 * 1024 * 1024


class WriteFile(BuiltInTool):
    """Makes a file, or replaces it."""

    spec = ToolSpec(
        name="write_file",
        description=(
            "Write a text file of the workspace. Directories on its path are made. What was in "
            "the file before is replaced: to change a part of it, use edit_file."
        ),
        schema=arguments_of(
            {
                "path": PATH,
                "content": {
                    "type": "string",
                    "maxLength": _MOST_CHARACTERS,
                    "description": "All of the new content.",
                },
            },
            "path",
            "content",
        ),
        # What it replaces comes back with a rollback, like everything in the workspace.
        tier=Tier.SAFE,
        repeat=Repeat.WORKSPACE,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path, data = relative(arguments["path"]), arguments["content"].encode()
        await context.workspace.write(path, data)
        lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        return ToolResult(
            f"Wrote {path}: {lines} line{'s' * (lines != 1)}, {size_of(len(data))}.",
            details={"path": path, "bytes": len(data)},
        )


class EditFile(BuiltInTool):
    """Replaces a piece of text that occurs exactly once."""

    spec = ToolSpec(
        name="edit_file",
        description=(
            "Replace a piece of text in a file of the workspace. old_text must be exactly as in "
            "the file, with its spaces and line ends but without the line numbers of read_file, "
            "and must occur once: give enough of what is around it, or set replace_all."
        ),
        schema=arguments_of(
            {
                "path": PATH,
                "old_text": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": _MOST_CHARACTERS,
                    "description": "What is there now.",
                },
                "new_text": {
                    "type": "string",
                    "maxLength": _MOST_CHARACTERS,
                    "description": "What is to be there instead; empty removes it.",
                },
                "replace_all": {
                    "type": "boolean",
                    "default": False,
                    "description": "Replace every occurrence.",
                },
            },
            "path",
            "old_text",
            "new_text",
        ),
        tier=Tier.SAFE,
        repeat=Repeat.WORKSPACE,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = relative(arguments["path"])
        old, new = arguments["old_text"].encode(), arguments["new_text"].encode()
        if old == new:
            return failed("old_text and new_text are the same: there is nothing to change.")
        data = await context.workspace.read(path, limit=_MOST_EDITED_BYTES + 1)
        if len(data) > _MOST_EDITED_BYTES:
            return failed(f"{path} has more than {size_of(_MOST_EDITED_BYTES)}; too long to edit.")
        if is_binary(data):
            return failed(f"{path} is a binary file of {size_of(len(data))}, not text.")
        count = data.count(old)
        if count == 0:
            return failed(_not_found(path, data, old))
        if count > 1 and not arguments.get("replace_all", False):
            return failed(
                f"old_text occurs {count} times in {path}, at the lines {_lines(data, old)}. Give "
                "more of what is around the one you mean, or set replace_all."
            )
        await context.workspace.write(path, data.replace(old, new))
        return ToolResult(
            f"Changed {path} at line {_lines(data, old)}."
            if count == 1
            else f"Changed {path} at {count} places: lines {_lines(data, old)}.",
            details={"path": path, "replaced": count},
        )


def _not_found(path: str, data: bytes, old: bytes) -> str:
    text = f"old_text does not occur in {path}."
    if b"\r\n" in data and data.replace(b"\r\n", b"\n").count(old.replace(b"\r\n", b"\n")):
        return f"{text} The file ends its lines with \\r\\n: write them so in old_text, too."
    if b" ".join(old.split()) in b" ".join(data.split()):
        return f"{text} It does with other spaces or line ends: read the file and copy it exactly."
    return f"{text} Read the file to see what is there now."


def _lines(data: bytes, piece: bytes, most: int = 10) -> str:
    """The numbers of the lines on which a piece begins."""
    numbers: list[str] = []
    line, seen = 1, 0
    at = data.find(piece)
    while at >= 0 and len(numbers) < most:
        line += data.count(b"\n", seen, at)
        seen = at
        numbers.append(str(line))
        at = data.find(piece, at + len(piece))
    return ", ".join(numbers) + (" and more" if at >= 0 else "")


class DeleteFile(BuiltInTool):
    """Removes a file or a directory."""

    spec = ToolSpec(
        name="delete_file",
        description=(
            "Delete a file of the workspace, or a directory with everything in it. A symbolic link "
            "is deleted itself, not what it leads to."
        ),
        schema=arguments_of({"path": PATH}, "path"),
        tier=Tier.DANGEROUS,
        repeat=Repeat.WORKSPACE,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = relative(arguments["path"])
        await context.workspace.remove(path)
        return ToolResult(f"Deleted {path}.", details={"path": path})
