"""`agentos run` against a real gateway with an engine beside it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from fcntl import ioctl
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import HOLD, Lab, lab, script, settings

from agentos.cli.session_bodies import parse_gates, read_files
from agentos.execution.relay import Relay
from agentos.kernel.errors import AgentOSError, Invalid
from agentos.tenancy.principals import Scope

from .conftest import Cli

__all__ = ["lab", "settings"]

HAIKU = "Write a haiku generator in Python and test it"


@pytest.fixture
async def owner(cli: Cli, lab: Lab) -> Cli:
    key = await lab.gateway.api_key(lab.person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": lab.gateway.url, "AGENTOS_API_KEY": key})


@pytest.fixture
async def working(lab: Lab) -> AsyncIterator[None]:
    relay = asyncio.create_task(Relay(lab.parts.platform_db, lab.parts.bus).run())
    async with lab.engine():
        yield
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)


@pytest.mark.usefixtures("working")
async def test_the_showcase(owner: Cli, tmp_path: Path) -> None:
    done = await owner("run", HAIKU)
    order = [
        *("CREATED → QUEUED", "QUEUED → RUNNING", "▸ Write haiku.py", "write_file  haiku.py"),
        *("shell       python3 -B -m unittest test_haiku · OK", "CHECKPOINT → GATE_CHECK"),
        *(
            "GATE_CHECK → COMPLETE",
            "\nI wrote haiku.py",
            "\nFiles\n  added    haiku.py",
            "\nNext\n",
        ),
    ]
    places = [done.out.index(each) for each in order]
    assert places == sorted(places)
    assert "Ran 6 tests" in done.out
    assert "\x1b" not in done.out, "nothing moves in a pipe"
    place = tmp_path / "mine.py"
    await owner("sessions", "get-file", "last", "haiku.py", "-o", str(place))
    assert "def haiku(" in place.read_text()


@pytest.mark.usefixtures("working")
async def test_json_is_one_document(owner: Cli) -> None:
    session = (await owner("run", "What is 12 * 7?", "--title", "A sum", "--json")).json
    assert (session["state"], session["title"]) == ("COMPLETE", "A sum")
    assert session["result"]["text"].startswith("12 * 7 = 84")


@pytest.mark.usefixtures("working")
async def test_json_lines_are_all_of_its_events(owner: Cli) -> None:
    done = await owner("run", "hello", "--json-lines")
    types = [json.loads(line)["type"] for line in done.out.splitlines()]
    assert types[:3] == ["session.created", "session.queued", "session.started"]
    assert types[-1] == "session.completed"


@pytest.mark.usefixtures("working")
async def test_a_session_that_does_not_complete_ends_with_1(owner: Cli) -> None:
    done = await owner("run", "hello", "--gate", "file:missing.txt", code=1)
    assert "✗ gate        file · missing.txt does not exist." in done.out
    assert "\nFAILED · " in done.out
    failed = await owner("run", "hello", "--gate", "file:missing.txt", "--json", code=1)
    assert failed.json["error_code"] == "gate_failed"
    back = await owner("run", "hi", "--gate", "file:no", "--on-fail", "rollback", "--json", code=1)
    assert back.json["state"] == "ROLLED_BACK"


@pytest.mark.usefixtures("working")
async def test_without_the_right_to_events_it_looks_again_and_again(cli: Cli, lab: Lab) -> None:
    scopes = frozenset({Scope.SESSIONS_READ, Scope.SESSIONS_WRITE})
    key = await lab.gateway.api_key(lab.person.tenant_id, scopes)
    deaf = Cli(cli.env | {"AGENTOS_URL": lab.gateway.url, "AGENTOS_API_KEY": key})
    done = await deaf("run", script('call write_file {"path": "a", "content": "b"}', "say Done."))
    assert "COMPLETE · " in done.out
    assert "\nDone.\n" in done.out


async def test_options_become_the_configuration(owner: Cli, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in.csv").write_text("a,b\n")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    (tmp_path / "how.md").write_text("Be brief.")
    done = await owner(
        *("run", "-", "--detach", "--json", "--model", "demo", "--title", "Mine"),
        *("--file", str(tmp_path / "data/in.csv"), "--tools", "read_file, shell"),
        *("--allow-host", "example.com", "--instructions-file", str(tmp_path / "how.md")),
        *("--output-schema", str(tmp_path / "schema.json"), "--budget", "0.25"),
        *("--max-turns", "7", "--gate", "tests", "--gate", "approval:Ship it?"),
        *("--on-fail", "retry"),
        stdin="Sum it up",
    )
    session = done.json
    config = session["config"]
    assert (session["title"], session["state"], config["prompt"]) == ("Mine", "QUEUED", "Sum it up")
    assert config["files"] == {"in.csv": "a,b\n"}
    assert config["tools"] == ["read_file", "shell"]
    assert config["allowed_hosts"] == ["example.com"]
    assert config["instructions"] == "Be brief."
    assert config["output_schema"] == {"type": "object"}
    assert config["budget_micros"] == 250_000
    assert config["guards"]["max_turns"] == 7
    gates = [(gate["name"], gate["kind"], gate["on_fail"]) for gate in config["gates"]]
    assert gates == [("tests", "tests", "retry"), ("approval", "approval", "retry")]


async def test_detached_it_says_how_to_watch(owner: Cli) -> None:
    done = await owner("run", "hello", "-d")
    assert re.search(r"is QUEUED\.\nWatch it with `agentos sessions watch [0-9a-f]{8}`", done.out)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--gate", "nonsense"),
        ("--gate", "command:"),
        ("--gate", "{"),
        ("--gate", "{}"),
        ("--gate", "time:soon"),
        ("--gate", "tests", "--on-fail", "explode"),
        ("--budget", "1e3"),
        ("--tools", "no_such_tool"),
        ("--model", "nobody/nothing"),
    ],
)
async def test_wrong_options_are_refused(owner: Cli, wrong: tuple[str, ...]) -> None:
    done = await owner("run", "hello", *wrong, code=5 if "--model" in wrong else 2)
    assert done.err.startswith("Error: ")
    assert "No sessions yet." in (await owner("sessions", "list")).out


@pytest.mark.usefixtures("working")
async def test_in_a_pipe_it_says_how_to_approve(owner: Cli, lab: Lab) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "run", "hello", "--gate", "approval:Ship it?"),
        env=owner.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    approval = await _waiting(lab)
    told = ""
    # Not before it is said: what is decided already needs nobody.
    while "Decide with" not in told:
        line = await process.stderr.readline()
        assert line, told
        told += line.decode()
    assert f"Needs you. Ship it?\nDecide with `agentos approvals approve {approval}`" in told
    await owner("approvals", "approve", approval)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert "approved by" in out.decode()


async def _waiting(of: Lab) -> str:
    async with asyncio.timeout(30):
        while not (found := (await of.client.get("/api/approvals")).json()["items"]):  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)
    return str(found[0]["id"])


async def test_an_interrupt_leaves_the_session_running(owner: Cli, lab: Lab) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "run", "hello"),
        env=owner.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    first = (await process.stdout.readline()).decode()
    session_id = UUID(first.split()[1].rstrip(":"))
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert f"agentos sessions cancel {str(session_id)[-8:]}" in err.decode()
    assert (await lab.read(session_id))["state"] == "QUEUED"


# On a terminal


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, owner: Cli, width: int, *args: str, **env: str):
        argv = [sys.executable, "-m", "agentos.cli.main", *args]
        size = struct.pack("HHHH", 40, width, 0, 0)
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            ioctl(0, termios.TIOCSWINSZ, size)
            os.execve(argv[0], argv, owner.env | {"TERM": "xterm"} | env)
        self.seen = ""

    @property
    def session_id(self) -> UUID:
        """As the view says it first of all."""
        return UUID(self.seen.split("Session ", 1)[1][:36])

    async def until(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.seen:
                self.seen += await asyncio.to_thread(self._read)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    async def ended(self) -> int:
        async with asyncio.timeout(60):
            while piece := await asyncio.to_thread(self._read):
                self.seen += piece
            _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> str:
        try:
            return os.read(self._fd, 65_536).decode("utf-8", "replace")
        except OSError:
            return ""


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(("width", "arrow"), [(60, "→"), (120, " → ")])
async def test_the_live_view_asks_at_the_terminal(
    owner: Cli, lab: Lab, width: int, arrow: str
) -> None:
    plan = 'call update_plan {"steps": [{"step": "Run the tests", "status": "in_progress"}]}'
    prompt = script(plan, HOLD, "say I ran them: they pass.")
    terminal = Terminal(*(owner, width, "run", prompt, "--gate", "approval:Ship it?"), NO_COLOR="1")
    # It shows how things are now. So that this can be seen, the session stays as it is meanwhile.
    await terminal.until("[RUNNING]")
    await terminal.until("▸ Run the tests")
    (await lab.held(terminal.session_id)).unlink()
    await terminal.until("Approve? [y/N]")
    terminal.type("y\n")
    assert await terminal.ended() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.seen)
    assert arrow.join(["CHECKPOINT", "GATE_CHECK", "[COMPLETE]"]) in plain
    assert "they pass." in " ".join(plain.split())
    assert not re.search(r"\x1b\[[0-9;]*(?:3[0-7]|4[0-7])m", terminal.seen), "no colour"


@pytest.mark.usefixtures("working")
async def test_no_is_passed_on_with_the_reason(owner: Cli) -> None:
    await owner("tools", "policy", "set", "write_file", "ask")
    terminal = Terminal(owner, 100, "run", HAIKU)
    await terminal.until("Approve? [y/N/always]")
    assert "path: haiku.py" in terminal.seen
    terminal.type("\n")
    await terminal.until("Why not?")
    terminal.type("Not today.\n")
    assert await terminal.ended() == 0
    assert "did not allow this call: Not today." in terminal.seen


@pytest.mark.usefixtures("working")
async def test_always_is_for_the_rest_of_the_session(owner: Cli) -> None:
    await owner("tools", "policy", "set", "write_file", "ask")
    terminal = Terminal(owner, 100, "run", HAIKU)
    await terminal.until("Approve? [y/N/always]")
    terminal.type("always\n")
    assert await terminal.ended() == 0
    assert terminal.seen.count("Approve?") == 1
    assert "they pass." in terminal.seen


@pytest.mark.usefixtures("working")
async def test_questions_are_answered_by_number_or_in_words(owner: Cli) -> None:
    ask = 'call ask_human {"question": "Which?", "choices": ["red", "blue"]}'
    terminal = Terminal(owner, 100, "run", script(ask, ask, "result"))
    for answer in ("2\n", "green\n"):
        await terminal.until("Your answer")
        terminal.seen = terminal.seen.replace("Your answer", "Asked")
        terminal.type(answer)
    assert await terminal.ended() == 0
    assert "blue" in terminal.seen
    assert "\r\ngreen" in terminal.seen


async def test_only_the_second_interrupt_stops_watching(owner: Cli) -> None:
    terminal = Terminal(owner, 100, "run", "hello")
    await terminal.until("[QUEUED]")
    terminal.type("\x03")
    await terminal.until("Ctrl-C again stops watching.")
    terminal.type("\x03")
    assert await terminal.ended() == 130


# Options


def test_gates_get_names_of_their_own() -> None:
    given = ["command:a", "command: b", "file:c", '{"kind": "cost", "most_micros": 5, "name": "x"}']
    assert parse_gates(
        [*given, "cost:0.50", "time:1.5", "tests: make test", "rubric:Good?"], None
    ) == [
        {"kind": "command", "command": "a", "name": "command"},
        {"kind": "command", "command": "b", "name": "command 2"},
        {"kind": "file", "path": "c", "name": "file"},
        {"kind": "cost", "most_micros": 5, "name": "x"},
        {"kind": "cost", "most_micros": 500_000, "name": "cost 2"},
        {"kind": "time", "most_seconds": 1.5, "name": "time"},
        {"kind": "tests", "command": "make test", "name": "tests"},
        {"kind": "rubric", "rubric": "Good?", "name": "rubric"},
    ]


def test_a_schema_for_a_gate_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "string"}')
    (gate,) = parse_gates([f"schema:{tmp_path}/s.json"], None)
    assert gate["json_schema"] == {"type": "string"}
    (tmp_path / "s.json").write_text("[]")
    with pytest.raises(Invalid, match="not a JSON object"):
        parse_gates([f"schema:{tmp_path}/s.json"], None)


def test_files_keep_their_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "sub/deep/a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    monkeypatch.chdir(tmp_path / "sub")
    given = [Path("deep/a.txt"), Path("../b.txt"), Path("./deep/../deep/a.txt")]
    assert read_files(given) == {"deep/a.txt": "a", "b.txt": "b", "a.txt": "a"}


@pytest.mark.parametrize("make", ["missing", "directory", "binary"])
def test_what_is_no_text_file(make: str, tmp_path: Path) -> None:
    place = tmp_path / "x"
    if make == "directory":
        place.mkdir()
    elif make == "binary":
        place.write_bytes(b"\xff\xfe")
    with pytest.raises(AgentOSError) as caught:
        read_files([place])
    hint: Any = caught.value.advice
    assert hint
