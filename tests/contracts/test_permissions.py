"""The gate before tool calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sidecar.fakes import spec_of

from agentos.contracts.crew import AgentPermissions, AgentSpec
from agentos.contracts.permissions.judging import Allow, Ask, Deny, judge, permissions_of
from agentos.kernel.ids import uuid7


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    (tmp_path / "outside").mkdir()
    (root / "src" / "leak").symlink_to(tmp_path / "outside")
    (root / "src" / "to_docs").symlink_to(root / "docs")
    (root / "src" / "dangling").symlink_to("/etc/nothing-here")
    return root


def verdict(rules: AgentPermissions, tool: str, workspace: Path, **arguments: Any) -> str:
    return type(judge(rules, tool, arguments, workspace)).__name__.lower()


@pytest.mark.parametrize(
    ("rules", "tool", "expected"),
    [
        (AgentPermissions(), "Bash", "allow"),
        (AgentPermissions(tools=()), "Read", "deny"),
        (AgentPermissions(tools=("Read", "Bash")), "bash", "allow"),
        (AgentPermissions(tools=("Read",)), "Bash", "deny"),
        (AgentPermissions(tools=("mcp__git__*",)), "mcp__git__log", "allow"),
        (AgentPermissions(tools=("mcp__git__*",)), "mcp__hub__log", "deny"),
        (AgentPermissions(ask=("Bash",)), "Bash", "ask"),
        (AgentPermissions(ask=("*",)), "Read", "ask"),
        (AgentPermissions(ask=("Bash",)), "Read", "allow"),
        # The order: what is not allowed is denied, not asked about.
        (AgentPermissions(tools=("Read",), ask=("*",)), "Bash", "deny"),
        (AgentPermissions(denied_commands=("ls",), ask=("*",)), "Bash", "deny"),
    ],
)
def test_tools_and_asking(
    rules: AgentPermissions, tool: str, expected: str, workspace: Path
) -> None:
    assert verdict(rules, tool, workspace, command="ls") == expected


DENIED = AgentPermissions(denied_commands=("rm *", "git push*", "curl"))


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "ls && rm x",
        "ls || rm x",
        "ls | rm x",
        "ls & rm x",
        "ls\nrm x",
        "ls |& rm x",
        "(rm x)",
        "{ rm x; }",
        "echo $(rm x)",
        'echo "a $(rm x) b"',
        "echo `rm x`",
        "cat <(rm x)",
        "if true; then rm x; fi",
        "for f in a b; do rm $f; done",
        "while rm x; do :; done",
        "! rm x",
        "r''m x",
        r"\rm x",
        '"rm" x',
        "rm    x",
        "rm \\\n x",
        "/bin/rm x",
        "./rm x",
        "FOO=1 rm x",
        "sudo rm x",
        "sudo -u root rm x",
        "env A=1 rm x",
        "nohup nice -n 5 rm x",
        "timeout 5 rm x",
        "xargs -n1 rm x",
        "find . -name a -exec rm {} +",
        "bash -c 'rm x'",
        "sh -ec 'ls; rm x'",
        "sudo bash -c 'rm x'",
        "eval rm x",
        "eval 'ls; rm x'",
        "rm $X",
        "rm x > out.txt",
        "2>/dev/null rm x",
        "curl",
        "curl http://x",
        "git push",
        "git push origin",
        "echo hi # fine\nrm x",
        "cat <<EOF\nbody\nEOF\nrm x",
        # What cannot be judged.
        "$X x",
        "${X} x",
        "/bin/r? x",
        "{rm,x}",
        "$'rm' x",
        "echo $((1+1))",
        "echo ${X:-$(rm x)}",
        "cat <<EOF\n$(rm x)\nEOF",
        "case a in a) rm x;; esac",
        "f() { rm x; }; f",
        "alias l=rm; l x",
        "eval $X",
        "bash -c $X",
        "echo 'unclosed",
        'echo "unclosed',
        "echo `unclosed",
        "(ls",
        "ls)",
        "ls >",
        "sudo $X",
        "echo " + "$(" * 40 + ")" * 40,
        "a" * 300_000,
    ],
)
def test_denied_commands_are_found_wherever_they_hide(command: str, workspace: Path) -> None:
    assert verdict(DENIED, "Bash", workspace, command=command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "rmdir x",
        "echo 'rm x'",
        "echo rm",
        "git status",
        "git commit -m 'rm old; git push later'",
        "grep -r 'rm x' . | head -5 2>&1",
        "echo $HOME",
        "make && ./run --flag=$X",
        "cat <<'EOF' > a.txt\nrm x\n$(rm x)\nEOF",
        "python3 -c 'print(1)' &> log.txt",
        "echo a;echo b",
        "# rm x",
        "",
        "if [ -f a ]; then echo b; fi",
        "ls *.py",
        "echo {a,b}",
        "echo a\\;b",
    ],
)
def test_what_no_rule_denies_may_be_run(command: str, workspace: Path) -> None:
    assert verdict(DENIED, "bash", workspace, command=command) == "allow"


ALLOWED = AgentPermissions(allowed_commands=("git *", "pytest*", "ls"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", "allow"),
        ("git   log | git shortlog", "allow"),
        ("pytest", "allow"),
        ("pytest -q && git add .", "allow"),
        ("git log $(git rev-parse HEAD)", "allow"),
        ("git log $(whoami)", "deny"),
        ("git status; whoami", "deny"),
        ("git status\nwhoami", "deny"),
        ("git status & whoami", "deny"),
        ("ls -la", "deny"),
        ("PATH=/tmp git status", "deny"),
        ("PATH=/tmp; git status", "deny"),
        ("/tmp/git status", "deny"),
        ("sudo git status", "deny"),
        ("bash -c 'git status'", "deny"),
        ("g$X status", "deny"),
        ("git status <(whoami)", "deny"),
    ],
)
def test_allowed_commands_are_the_only_ones(command: str, expected: str, workspace: Path) -> None:
    assert verdict(ALLOWED, "execute", workspace, command=command) == expected


def test_denied_comes_before_allowed(workspace: Path) -> None:
    rules = AgentPermissions(allowed_commands=("git *",), denied_commands=("git push*",))
    assert verdict(rules, "Bash", workspace, command="git pull") == "allow"
    assert verdict(rules, "Bash", workspace, command="git push") == "deny"


@pytest.mark.parametrize("arguments", [{}, {"command": 7}, {"command": ["ls", 7]}])
def test_a_shell_call_without_a_command_is_denied(
    arguments: dict[str, Any], workspace: Path
) -> None:
    assert isinstance(judge(ALLOWED, "Bash", arguments, workspace), Deny)
    assert isinstance(judge(AgentPermissions(), "Bash", arguments, workspace), Allow)


def test_a_command_may_be_a_list(workspace: Path) -> None:
    assert verdict(ALLOWED, "shell", workspace, command=["git", "a; whoami"]) == "allow"
    assert verdict(ALLOWED, "shell", workspace, command=["whoami"]) == "deny"


SOURCES = AgentPermissions(files=("src/**", "*.md"))


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Read", {"file_path": "src/a.py"}, "allow"),
        ("Read", {"file_path": "src/deep/er/a.py"}, "allow"),
        ("Read", {"filePath": "README.md"}, "allow"),
        ("Read", {"file_path": "docs/README.md"}, "deny"),
        ("Read", {"file_path": "src/../docs/a"}, "deny"),
        ("Read", {"file_path": "../outside/a"}, "deny"),
        ("Read", {"file_path": "/etc/passwd"}, "deny"),
        ("Read", {"file_path": "~/.ssh/id"}, "deny"),
        ("Read", {"file_path": "a\0b"}, "deny"),
        ("Read", {"path": "file:///etc/passwd"}, "deny"),
        ("Write", {"file_path": "src/leak/a"}, "deny"),
        ("Write", {"file_path": "src/to_docs/a"}, "deny"),
        ("Write", {"file_path": "src/dangling"}, "deny"),
        ("NotebookEdit", {"notebook_path": "docs/a.ipynb"}, "deny"),
        ("MultiEdit", {"files": ["src/a", "docs/a"]}, "deny"),
        ("Grep", {"pattern": "x"}, "deny"),
        ("Grep", {"pattern": "x", "path": "src"}, "allow"),
        ("Glob", {"pattern": "src/**/*.py"}, "allow"),
        ("Glob", {"pattern": "**/*.py"}, "deny"),
        ("Glob", {"pattern": "/etc/*"}, "deny"),
        ("Glob", {"pattern": "src/../../*"}, "deny"),
        ("WebFetch", {"url": "http://x/"}, "allow"),
        ("Bash", {"command": "ls"}, "allow"),
        ("Bash", {"command": "cat /etc/passwd"}, "deny"),
        ("Bash", {"command": "cat --file=/etc/passwd"}, "deny"),
        ("Bash", {"command": "cat ../x"}, "deny"),
        ("Bash", {"command": "echo a > docs/a"}, "deny"),
        ("Bash", {"command": "echo a > src/a 2> /dev/null"}, "allow"),
        ("Bash", {"command": "echo a > $X"}, "deny"),
    ],
)
def test_files_are_judged_by_where_they_really_are(
    tool: str, arguments: dict[str, Any], expected: str, workspace: Path
) -> None:
    assert verdict(SOURCES, tool, workspace, **arguments) == expected


def test_an_absolute_path_in_the_workspace_is_within_it(workspace: Path) -> None:
    assert verdict(SOURCES, "Read", workspace, file_path=str(workspace / "src/a")) == "allow"


def test_without_a_file_scope_the_sandbox_alone_is_the_border(workspace: Path) -> None:
    assert verdict(AgentPermissions(), "Read", workspace, file_path="/etc/passwd") == "allow"


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("src", "src/a/b", "allow"),
        ("src/", "src/a", "allow"),
        ("src/*", "src/a", "allow"),
        ("src/*.py", "src/a.txt", "deny"),
        ("**/*.py", "a.py", "allow"),
        ("**/*.py", "x/y/a.py", "allow"),
        ("**", "x/y", "allow"),
        ("a?.txt", "ab.txt", "allow"),
        ("a?.txt", "a/.txt", "deny"),
        ("a+b", "aab", "deny"),
    ],
)
def test_path_globs(glob: str, path: str, expected: str, workspace: Path) -> None:
    assert verdict(AgentPermissions(files=(glob,)), "Read", workspace, path=path) == expected


def test_a_worker_has_its_own_permissions_and_a_stranger_the_leaders() -> None:
    strict, loose = AgentPermissions(tools=()), AgentPermissions(ask=("*",))
    spec = spec_of(uuid7(), uuid7(), permissions=loose)
    worker = AgentSpec("worker", leader=False, permissions=strict)
    spec = type(spec)(
        tenant_id=spec.tenant_id,
        team_id=spec.team_id,
        version=1,
        provider="acp",
        model="demo",
        agents=(worker, *spec.agents),
    )
    assert permissions_of(spec, "worker") == strict
    assert permissions_of(spec, "nobody") == loose
    assert permissions_of(spec, None) == loose
    assert isinstance(judge(loose, "Bash", {"command": "ls"}, Path("/")), Ask)
