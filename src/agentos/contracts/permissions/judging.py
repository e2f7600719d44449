"""The gate before every tool call: what a team's permissions say about it.

In this order: the tools it may use, the commands it must not run, those it may run, the files it
may touch, and then whether a person is asked. The sandbox is the wall; this is the sign on the
door. A command can reach files in ways that no reading of it shows, so `files` binds a shell only
by what its words and redirections say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentos.contracts.crew import AgentPermissions, TeamSpec
from agentos.contracts.permissions.commands import Command, commands_of
from agentos.contracts.permissions.shell_words import Unjudgeable

# Runs what it is given as a program; the same as this command.
_PYTHON, _PYTHON_LINE = "python", "python3 -"
_SHELL_TOOLS = frozenset({"bash", "execute", "run_command", "shell", "terminal"})
# They look through the whole workspace unless they are told where.
_SEARCH_TOOLS = frozenset({"glob", "grep", "list", "list_files", "ls", "search", "search_files"})
_FILE_KEYS = frozenset(
    {
        "cwd", "destination", "dir", "directory", "file", "file_path", "filename", "filepath",
        "files", "folder", "new_path", "notebook_path", "old_path", "path", "paths", "root",
        "target_file", "uri", "workdir", "working_directory",
    }
)  # fmt: skip
_HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class Allow:
    """It may be made."""


@dataclass(frozen=True, slots=True)
class Deny:
    """It must not be made; the agent is told why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides."""


def permissions_of(spec: TeamSpec, agent: str | None) -> AgentPermissions:
    """Those of the named worker; of the leader, if there is no such worker."""
    leader = AgentPermissions()
    for one in spec.agents:
        if agent is not None and one.name == agent:
            return one.permissions
        if one.leader:
            leader = one.permissions
    return leader


def judge(
    permissions: AgentPermissions, tool: str, arguments: Mapping[str, Any], workspace: Path
) -> Allow | Deny | Ask:
    """What is to be done about a tool call."""
    if permissions.tools is not None and not _named(tool, permissions.tools):
        return Deny(f"The tool {tool} is not among those that this agent may use.")
    reason = _command_reason(permissions, tool, arguments, workspace)
    if reason is None and permissions.files is not None:
        reason = _file_reason(permissions.files, _files_of(tool, arguments), workspace)
    if reason is not None:
        return Deny(reason)
    return Ask() if _named(tool, permissions.ask) else Allow()


def _named(tool: str, names: Iterable[str]) -> bool:
    # The providers disagree on capitals: Bash and bash are one tool.
    return any(fnmatchcase(tool.lower(), name.lower()) for name in names)


# Commands -----------------------------------------------------------------------------------------


def _command_reason(
    permissions: AgentPermissions, tool: str, arguments: Mapping[str, Any], workspace: Path
) -> str | None:
    """Why a shell command must not be run; None if nothing speaks against it."""
    if tool.lower() not in _SHELL_TOOLS and tool.lower() != _PYTHON:
        return None
    if (
        not permissions.denied_commands
        and permissions.allowed_commands is None
        and permissions.files is None
    ):
        return None
    if tool.lower() == _PYTHON and permissions.files is not None:
        return "A program can reach any file: use the tools for files."
    line = _PYTHON_LINE if tool.lower() == _PYTHON else _line_of(arguments)
    if line is None:
        return "The call names no command that could be checked."
    try:
        commands = commands_of(line)
    except Unjudgeable as error:
        return f"The command cannot be checked: {error}. Write it more simply."
    for command in commands:
        for glob in permissions.denied_commands:
            if _is_denied(command, glob):
                return f"The command `{command.text}` is denied by the rule `{glob}`."
    if permissions.allowed_commands is not None:
        for command in commands:
            if not _is_allowed(command, permissions.allowed_commands):
                return f"The command `{command.text}` is not among those that this agent may run."
    if permissions.files is not None:
        return _file_reason(permissions.files, _files_named(commands), workspace)
    return None


def _line_of(arguments: Mapping[str, Any]) -> str | None:
    line = arguments.get("command", arguments.get("cmd"))
    if isinstance(line, str):
        return line
    if isinstance(line, list) and line and all(isinstance(word, str) for word in line):
        return " ".join("'" + word.replace("'", "'\\''") + "'" for word in line)
    return None


def _is_denied(command: Command, glob: str) -> bool:
    # `rm` denies `rm -r x` too, in whatever directory the program lies.
    globs = (glob, f"{glob} *", _alone(glob))
    if any(fnmatchcase(text, one) for one in globs for text in (command.text, command.bare_text)):
        return True
    # What is known only at run time might make it fit.
    first = glob.split(" ", 1)[0]
    return command.expands and fnmatchcase(command.name, first)


def _is_allowed(command: Command, globs: Iterable[str]) -> bool:
    if command.possible or not command.text:
        return True
    # `git *` is `git` alone, too.
    return any(fnmatchcase(command.text, one) for glob in globs for one in (glob, _alone(glob)))


def _alone(glob: str) -> str:
    return glob.removesuffix(" *")


def _files_named(commands: Iterable[Command]) -> Iterator[str]:
    for command in commands:
        for word in command.files:
            yield "/" if word.expands else word.text
        for word in command.words[1:]:
            path = word.text.partition("=")[2] or word.text
            if path.startswith(("/", "~")) or ".." in path.split("/"):
                yield path


# Files --------------------------------------------------------------------------------------------


def _files_of(tool: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """What a call names as files, by the keys that are known for it."""
    if tool.lower() in _SHELL_TOOLS:
        arguments = {key: value for key, value in arguments.items() if key != "command"}
    named = False
    for key, value in arguments.items():
        if _snake(key) in _FILE_KEYS:
            for path in _texts(value):
                named = True
                yield path.removeprefix("file://")
    if tool.lower() in _SEARCH_TOOLS:
        pattern = arguments.get("pattern")
        if tool.lower() == "glob" and isinstance(pattern, str):
            before = _WILDCARD.split(pattern, maxsplit=1)[0]
            if before.startswith(("/", "~")) or ".." in pattern.split("/"):
                yield before if ".." not in pattern.split("/") else "/"
            elif not named:
                yield before.rpartition("/")[0] or "."
        elif not named:
            yield "."


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()


def _file_reason(globs: tuple[str, ...], paths: Iterable[str], workspace: Path) -> str | None:
    """Why the files must not be touched; None if all lie where they may."""
    root = os.path.realpath(workspace)
    for path in paths:
        if path in _HARMLESS_FILES:
            continue
        if path.startswith("~") or "\0" in path:
            return f"The file {path!r} is outside the files that this agent may touch."
        # Links are followed first: what counts is the file that would be touched.
        real = os.path.realpath(Path(root, path))
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            return f"The file {path} is outside the workspace."
        below = os.path.relpath(real, root)
        if not any(_path_pattern(glob).fullmatch(below) for glob in globs):
            return f"The file {path} is outside the files that this agent may touch."
    return None


@lru_cache(maxsize=1024)
def _path_pattern(glob: str) -> re.Pattern[str]:
    """`*` stays within a directory, `**` does not; a directory stands for all that is below it."""
    glob = glob.removeprefix("./").rstrip("/") or "."
    if glob in {".", "**", "**/*"}:
        return re.compile(r"(?s).*")
    split = re.split(r"(/\*\*$|\*\*/|\*\*|\*|\?)", glob)
    pieces = [_PIECES.get(piece) or re.escape(piece) for piece in split]
    return re.compile("(?s)" + "".join(pieces) + "(?:/.*)?")


_PIECES = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
