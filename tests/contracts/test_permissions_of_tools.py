"""What the permissions of an agent let pass of the tools that native agents have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.contracts.crew import AgentPermissions
from agentos.contracts.permissions.judging import Ask, Deny, judge

NOWHERE = Path("/nowhere/files")


def may(tool: str, arguments: dict[str, Any], **permissions: Any) -> bool:
    judged = judge(AgentPermissions(**permissions), tool, arguments, NOWHERE)
    return not isinstance(judged, Deny)


def runs(command: str, **permissions: Any) -> bool:
    return may("shell", {"command": command}, **permissions)


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf x",
        "rm",
        "/bin/rm x",
        "true; rm x",
        "true && rm x",
        "true|rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "(rm x)",
        "if true\nthen rm x; fi",
        "A=1 rm x",
        "sudo rm x",
        "true & rm x",
        "'rm' x",
        "true\n rm x",
    ],
)
def test_a_denied_command_is_found_wherever_it_is(line: str) -> None:
    assert not runs(line, denied_commands=("rm *",))


def test_commands_that_are_not_denied() -> None:
    for line in ("rmdir x", "echo rm", "git rm x"):
        assert runs(line, denied_commands=("rm *",)), line


def test_each_command_of_a_line_has_to_be_allowed() -> None:
    allowed = {"allowed_commands": ("git *", "pytest*")}
    for line in ("git status", "git", "pytest -q", "git add . && pytest"):
        assert runs(line, **allowed), line
    for line in (
        "ls",
        "git log | sh",
        # It may be what makes git run something else.
        "GIT_PAGER=x git log",
        "git log $(ls)",
        "git log; curl x",
        "gitx",
        "git log > x\nls",
    ):
        assert not runs(line, **allowed), line
    assert not runs("ls", allowed_commands=())


def test_python_is_a_command() -> None:
    assert may("python", {"code": "1"})
    assert not may("python", {"code": "1"}, allowed_commands=("git *",))
    assert may("python", {"code": "1"}, allowed_commands=("python3 *",))
    assert not may("python", {"code": "1"}, files=("src/**",))


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("src/a.py", True),
        ("src/a/b.py", True),
        ("./src//a.py", True),
        ("srcs/a.py", False),
        ("a.py", False),
        ("docs/a.md", True),
        ("docs/a/b.md", False),
    ],
)
def test_files(path: str, allowed: bool) -> None:
    assert may("write_file", {"path": path}, files=("src/**", "docs/*.md")) == allowed


def test_folders() -> None:
    assert may("list_files", {"path": "src"}, files=("src/**",))
    assert not may("list_files", {}, files=("src/**",))
    assert may("list_files", {}, files=("**",))


def test_tools_and_asking() -> None:
    assert may("read_file", {"path": "x"}, tools=("read_file",))
    assert not may("write_file", {"path": "x"}, tools=("read_file",))
    assert not may("web__search", {}, tools=("read_file",))
    assert may("web__search", {}, tools=("web__*",))
    shell, code = {"command": "ls"}, {"code": "1"}
    assert judge(AgentPermissions(ask=("*",)), "shell", shell, NOWHERE) == Ask()
    assert judge(AgentPermissions(ask=("shell",)), "python", code, NOWHERE) != Ask()
