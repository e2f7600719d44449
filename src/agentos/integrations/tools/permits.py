"""What the agents of a team may do with their tools, checked before each call.

A fence, not the wall: a program that an agent is allowed to run does what its author wrote. What
no command may reach is kept away by the sandbox.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol

from agentos.integrations.workspaces.errors import BadPath
from agentos.integrations.workspaces.workspace import checked_path

# Where a shell begins another command; quotes are not looked at, so that none hides one.
_BREAKS = re.compile(r"\|\||&&|\$\(|[;&|\n(){}`]|<\(|>\(")
# What stands before a command without being it.
_BEFORE = re.compile(
    r"^(?:(?:!|if|then|else|elif|do|while|until|time|exec|command|builtin|nohup|env|sudo)\s+"
    r"|\w+=\S*\s+)+"
)
# What the tool `python` runs, as commands are written.
_PYTHON = "python3 -"
_FOLDER_TOOLS = frozenset({"list_files", "search_files"})


class Permits(Protocol):
    """What restricts an agent; None does not."""

    @property
    def tools(self) -> Sequence[str] | None: ...
    @property
    def denied_commands(self) -> Sequence[str]: ...
    @property
    def allowed_commands(self) -> Sequence[str] | None: ...
    @property
    def files(self) -> Sequence[str] | None: ...
    @property
    def ask(self) -> Sequence[str]: ...


def refusal(permits: Permits, tool: str, arguments: Mapping[str, Any]) -> str | None:
    """Why an agent may not make this call; None if it may."""
    if permits.tools is not None and not _named(tool, permits.tools):
        return f"Your permissions do not include the tool {tool}."
    if tool in ("shell", "python"):
        return _command_refusal(permits, arguments["command"] if tool == "shell" else _PYTHON)
    if permits.files is not None:
        return _path_refusal(permits.files, tool, arguments)
    return None


def is_asked(permits: Permits, tool: str) -> bool:
    """Whether a person has to be asked about the call."""
    return _named(tool, permits.ask)


def _named(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def _command_refusal(permits: Permits, line: str) -> str | None:
    commands = simple_commands(line)
    for pattern in permits.denied_commands:
        if any(_is_like(command, pattern) for command in (line.strip(), *commands)):
            return f"Your permissions deny commands like `{pattern}`."
    if permits.allowed_commands is not None:
        for command in commands:
            if not any(_is_like(command, pattern) for pattern in permits.allowed_commands):
                allowed = ", ".join(f"`{pattern}`" for pattern in permits.allowed_commands)
                return f"Your permissions allow only {allowed or 'no commands'}: not `{command[:200]}`."
    elif permits.files is not None:
        return (
            "Your permissions name the files that you may use, and no commands: use the file tools."
        )
    return None


def simple_commands(line: str) -> list[str]:
    """The commands that a line may run, as far as it can be seen: rather too many than too few."""
    plain = line.replace("\\\n", " ")
    found = []
    for part in _BREAKS.split(plain):
        command = " ".join(part.split())
        command = _BEFORE.sub("", command + " ").strip()
        if command and not command.startswith("#"):
            found.append(command)
    return found


def _is_like(command: str, pattern: str) -> bool:
    """`git *` is also `git` alone, and `/usr/bin/git push`."""
    program, space, rest = command.partition(" ")
    plain = program.strip("'\"\\").rpartition("/")[2] + space + rest
    wanted = " ".join(pattern.split())
    return any(
        fnmatchcase(text, wanted) or (wanted.endswith(" *") and text == wanted[:-2])
        for text in (command, plain)
    )


def _path_refusal(patterns: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> str | None:
    given = arguments.get("path", "." if tool in _FOLDER_TOOLS else None)
    if not isinstance(given, str):
        return None
    try:
        path = os.fsdecode(checked_path(given))
    except BadPath:
        return None  # the tool itself says so
    folder = tool in _FOLDER_TOOLS
    if any(_glob(pattern, folder).fullmatch(path) for pattern in patterns):
        return None
    allowed = ", ".join(f"`{pattern}`" for pattern in patterns)
    return f"Your permissions allow only these files: {allowed or 'none'}."


@lru_cache(maxsize=1000)
def _glob(pattern: str, folder: bool) -> re.Pattern[str]:
    """`**` goes through folders, `*` does not. `src/**` is the folder `src`, too."""
    pattern = pattern.removeprefix("./").rstrip("/") or "."
    if pattern == "**":
        return re.compile(r".*", re.DOTALL)
    if folder and pattern.endswith("/**"):
        return re.compile(f"{_expression(pattern[:-3])}(?:/.*)?", re.DOTALL)
    return re.compile(_expression(pattern), re.DOTALL)


def _expression(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part) or re.escape(part) for part in parts)
