from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from agentos import __version__
from agentos.cli.failures import EXIT_CODES, INTERRUPTED, READER_GONE, GatewayError
from agentos.cli.main import COMMANDS, app, run
from agentos.kernel.errors import AgentOSError, Kind, SetupError

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def _walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), (*path, name))


ALL = dict(_walk(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_of_every_command(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: agentos")
    assert ALL[path].help, "every command says what it does"


def test_every_command_has_json() -> None:
    without = {
        " ".join(path)
        for path, command in ALL.items()
        if not isinstance(command, TyperGroup)
        and not any("--json" in parameter.opts for parameter in command.params)
    }
    # They run until they are stopped, and log.
    assert without == {"serve", "worker", "sidecar"}


def test_short_help_in_the_list_is_the_first_sentence_of_the_command() -> None:
    for name, lazy in COMMANDS.items():
        if lazy.only:
            assert ALL[(name,)].help.startswith(lazy.help)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agentos.cli.main import run; run(['--help']);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncpg", "fastapi", "pydantic", "sqlalchemy", "nats", "cryptography"}
    assert not heavy & set(done.stderr.split())
    assert not {"rich", "httpx", "asyncio", "ssl"} & set(done.stderr.split())


def test_modules_of_commands_import_nothing_heavy() -> None:
    modules = sorted({f"agentos.cli.{lazy.module}" for lazy in COMMANDS.values()})
    code = (
        f"import sys, {', '.join(modules)};"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncpg", "fastapi", "pydantic", "sqlalchemy", "nats", "cryptography", "rich"}
    assert not heavy & set(done.stdout.split())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"agentos {__version__}\n"


@pytest.mark.parametrize("args", [["frobnicate"], ["members", "role"], ["up", "--port", "x"]])
def test_wrong_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: agentos" in captured.err


def test_a_mistyped_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tenant", "list"]) == 2
    assert "Did you mean tenants?" in capsys.readouterr().err


def test_every_kind_has_its_exit_code_and_the_docs_list_them() -> None:
    assert set(EXIT_CODES) == set(Kind)
    assert len(set(EXIT_CODES.values())) == len(Kind)
    documented = dict(re.findall(r"^\| (\d+) \| `?(\w+)`?", DOCS.read_text(), re.MULTILINE))
    assert {
        str(code): kind.value for kind, code in EXIT_CODES.items()
    }.items() <= documented.items()
    assert {"0", str(INTERRUPTED), str(READER_GONE)} <= documented.keys()


def test_the_docs_mention_every_command() -> None:
    text = DOCS.read_text()
    for path, command in ALL.items():
        if path and not isinstance(command, TyperGroup):
            assert f"agentos {' '.join(path)}" in text, path


class _Refused(AgentOSError):
    """You cannot have that."""

    code = "refused"
    kind = Kind.FORBIDDEN
    hint = "Ask somebody who can."


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (_Refused(), 4, "Error: You cannot have that.\n  Ask somebody who can.\n"),
        (SetupError("No.", hint="Do."), 11, "Error: No.\n  Do.\n"),
        (
            GatewayError(Kind.INTERNAL, "internal", "Oh.", "Again.", "r1"),
            1,
            "Error: Oh.\n  Again.\n  Request id: r1\n",
        ),
        (GatewayError(Kind.NOT_FOUND, "x", "\x1b[2Jgone"), 5, "Error: \\x1b[2Jgone\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (PermissionError(13, "Permission denied", "/x"), 11, "Error: /x: Permission denied.\n"),
    ],
)
def test_how_a_failure_is_told(
    error: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(typer.main, "get_command", fail)
    assert run([]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", told)


def test_what_nobody_expected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("secret-in-message")

    monkeypatch.setattr(typer.main, "get_command", fail)
    assert run([]) == 1
    told = capsys.readouterr().err
    assert "AGENTOS_DEBUG=1" in told
    assert "secret-in-message" not in told
    monkeypatch.setenv("AGENTOS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run([])


@pytest.mark.parametrize(
    ("args", "call"),
    [
        (
            ["up", "--data-dir", "/d", "--host", "::1", "--port", "0", "--no-demo", "--json"],
            (
                "up",
                {"data_dir": Path("/d"), "host": "::1", "port": 0, "demo": False, "as_json": True},
            ),
        ),
        (
            ["up"],
            ("up", {"data_dir": None, "host": None, "port": None, "demo": True, "as_json": False}),
        ),
        (["serve", "--port", "1"], ("serve", {"host": None, "port": 1})),
        (["worker"], ("worker", {})),
    ],
)
def test_processes_get_their_options(
    args: list[str], call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    runner = ModuleType("agentos.cli.runner")
    for name in ("up", "serve", "worker"):
        setattr(runner, name, lambda name=name, **options: calls.append((name, options)))
    monkeypatch.setitem(sys.modules, "agentos.cli.runner", runner)
    monkeypatch.setattr("agentos.cli.runner", runner, raising=False)
    assert run(args) == 0
    assert calls == [call]


def test_failure_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whoami", "--json"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert '"code": "not_signed_in"' in captured.err


def test_a_reader_that_went_away() -> None:
    read, write = os.pipe()
    os.close(read)
    code = "import sys; from agentos.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "config", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (READER_GONE, b"")
