"""How commands are run, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import uvloop
from tests.integrations.sandboxes.conftest import ROOT, Box
from tests.integrations.sandboxes.traces import (
    DAEMONS,
    is_there,
    open_files,
    processes_of,
    traces,
    until_there,
)

from agentos.integrations.sandboxes.base import Command, Limits, SandboxMissing
from agentos.integrations.sandboxes.commands import CommandInvalid
from agentos.integrations.sandboxes.running import SandboxFailed


@pytest.fixture(scope="module", autouse=True)
def warm_uvloop() -> None:
    """Its first loop opens files that stay."""
    uvloop.run(asyncio.sleep(0))


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    before, files = traces(), open_files()
    yield
    assert traces() <= before
    assert open_files() == files


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
async def test_exit_codes(any_box: Box, code: int) -> None:
    outcome = await any_box("sh", "-c", f"exit {code}")
    assert (outcome.ending, outcome.exit_code) == ("exited", code)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_death_by_a_signal(any_box: Box, number: signal.Signals) -> None:
    outcome = await any_box("sh", "-c", f"kill -{int(number)} $$")
    assert (outcome.ending, outcome.exit_code) == ("exited", 128 + number)


async def test_broken_pipes_end_a_command(any_box: Box) -> None:
    """Python ignores SIGPIPE; what is started by it must not."""
    outcome = await any_box("bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
    assert outcome.output == f"y\n{128 + signal.SIGPIPE}\n".encode()


async def test_command_that_does_not_exist(any_box: Box) -> None:
    outcome = await any_box("no-such-command")
    assert outcome.exit_code == 127
    assert b"no-such-command: No such file" in outcome.output


async def test_command_that_cannot_be_executed(any_box: Box) -> None:
    (any_box.workspace / "text").write_text("not a program")
    outcome = await any_box("./text")
    assert outcome.exit_code == 126


async def test_both_streams_in_order(any_box: Box) -> None:
    outcome = await any_box("sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    assert outcome.output == b"1\n2\n3\n4\n"


async def test_odd_bytes(any_box: Box) -> None:
    data = bytes(range(256)) * 400
    outcome = await any_box("cat", stdin=data)
    assert outcome.output == data


async def test_odd_arguments(any_box: Box) -> None:
    odd = ["", " ", "--", "-x", "$(id)", "'\"\\", "é😀", "a\nb", "\udcff"]
    outcome = await any_box("printf", r"%s\0", *odd)
    assert outcome.output == b"".join(os.fsencode(text) + b"\0" for text in odd)


async def test_large_stdin_that_is_not_read(any_box: Box) -> None:
    outcome = await any_box("true", stdin=b"x" * 5_000_000)
    assert outcome.exit_code == 0


async def test_no_stdin_is_empty(any_box: Box) -> None:
    assert (await any_box("cat")).output == b""


async def test_environment_is_only_what_was_given(
    any_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_SECRET_KEY", "secret")
    outcome = await any_box("env", env={"TOKEN": "a=b c", "LANG": "C"})
    seen = dict(line.split("=", 1) for line in outcome.output.decode().splitlines())
    assert seen["TOKEN"] == "a=b c"
    assert seen["LANG"] == "C"
    assert set(seen) <= {"PATH", "HOME", "LANG", "TOKEN", "TMPDIR", "GIT_CONFIG_NOSYSTEM", "PWD"}


async def test_environment_is_not_on_a_command_line(box: Box) -> None:
    """Everybody on a machine can read command lines."""
    running = asyncio.create_task(
        box("sh", "-c", "touch ready; exec sleep 600", env={"TOKEN": "very-secret-3600"})
    )
    await until_there(box.workspace / "ready")
    lines = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"])]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert any("sleep" in str(line) for line in lines)
    assert not any("very-secret" in str(line) for line in lines)


async def test_loader_variables_do_not_reach_the_sandbox_itself(box: Box) -> None:
    """LD_PRELOAD in a command's environment would otherwise run outside, even as root."""
    outcome = await box("echo", "fine", env={"LD_PRELOAD": "/nowhere.so", "PYTHONHOME": "/nowhere"})
    assert outcome.output.endswith(b"fine\n")
    assert outcome.output.count(b"/nowhere.so") <= 3  # sh, prlimit and echo complain, all inside


async def test_workspace_is_kept_and_owned(any_box: Box) -> None:
    await any_box("sh", "-c", "mkdir d && echo hello > d/f && ln -s f d/l")
    assert (any_box.workspace / "d/f").read_text() == "hello\n"
    assert (any_box.workspace / "d/f").stat().st_uid == any_box.account
    assert (await any_box("cat", "d/l")).output == b"hello\n"


async def test_temporary_files_work_and_go(any_box: Box) -> None:
    program = "import tempfile; f = tempfile.NamedTemporaryFile(delete=False); print(f.name)"
    outcome = await any_box.python(program)
    assert outcome.exit_code == 0
    assert not is_there(Path(outcome.output.decode().strip()))


async def test_useful_programs_work(any_box: Box) -> None:
    script = """set -e
    python3 -c 'import ssl, sqlite3, multiprocessing, asyncio; asyncio.run(asyncio.sleep(0))'
    mkfile() { echo "$1" > "$1"; }; mkfile a; sort a | uniq -c | awk '{print $2}'
    """
    outcome = await any_box("bash", "-c", script)
    assert (outcome.exit_code, outcome.output) == (0, b"a\n")


async def test_egress_socket_is_where_it_is_expected(box: Box, place: Path) -> None:
    if box.sandbox.name != "bubblewrap":
        pytest.skip("Landlock has no way out at all")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "proxy"))
        (place / "proxy").chmod(0o666)
        listener.listen()
        program = "import socket; s = socket.socket(1); s.connect('/run/egress.sock'); print('in')"
        outcome = await box.python(program, egress=place / "proxy")
    assert outcome.output == b"in\n"


async def test_daemons_end_with_the_command(box: Box) -> None:
    outcome = await box.python(DAEMONS)
    assert outcome.exit_code == 0
    assert (box.workspace / "ready").exists()
    assert processes_of(box) == []


async def test_daemons_end_with_the_time(box: Box) -> None:
    outcome = await box.python(DAEMONS + "time.sleep(3600)", seconds=3)
    assert (box.workspace / "ready").exists()
    assert outcome.ending == "timed_out"
    assert processes_of(box) == []


async def test_cancelling_ends_everything(box: Box) -> None:
    running = asyncio.create_task(box.python(DAEMONS + "time.sleep(3600)"))
    await until_there(box.workspace / "ready")
    assert len(processes_of(box)) >= 3
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_of(box) == []


async def test_cancelling_twice_ends_everything(box: Box) -> None:
    running = asyncio.create_task(box.python(DAEMONS + "time.sleep(3600)"))
    await until_there(box.workspace / "ready")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_of(box) == []


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_cancelling_at_any_moment_of_the_start(box: Box, turns: int) -> None:
    """What is left, if anything, is seen by the fixture of this module."""
    running = asyncio.create_task(box("sleep", "3600"))
    for _ in range(turns + 1):
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_of(box) == []


async def test_many_at_once(box: Box) -> None:
    outcomes = await asyncio.gather(*(box("echo", str(n)) for n in range(12)))
    assert [outcome.output for outcome in outcomes] == [f"{n}\n".encode() for n in range(12)]


def test_on_uvloop(box: Box) -> None:
    async def both() -> None:
        assert (await box("echo", "hello")).output == b"hello\n"
        running = asyncio.create_task(box("sleep", "3600"))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    uvloop.run(both())
    assert processes_of(box) == []


async def test_workspace_that_is_not_there(any_box: Box) -> None:
    any_box.workspace.rmdir()
    with pytest.raises((SandboxFailed, SandboxMissing)):
        await any_box("true")
    any_box.workspace.mkdir()


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        ((), {}),
        (("",), {}),
        (("echo", "a\0b"), {}),
        (("echo", "x" * 200_000), {}),
        (("true",), {"": "x"}),
        (("true",), {"A=B": "x"}),
        (("true",), {"A-B": "x"}),
        (("true",), {"A": "\0"}),
    ],
)
async def test_commands_that_cannot_be_run(
    box: Box, argv: tuple[str, ...], env: dict[str, str]
) -> None:
    with pytest.raises(CommandInvalid):
        await box(*argv, env=env)


@pytest.mark.skipif(not ROOT, reason="only root could do otherwise")
@pytest.mark.parametrize("uid", [0, None])
async def test_nothing_runs_as_root(box: Box, uid: int | None) -> None:
    command = Command(("true",), box.workspace, uid=uid, limits=Limits(seconds=5))
    with pytest.raises(SandboxMissing, match="not run as root"):
        await box.sandbox.run(command)
