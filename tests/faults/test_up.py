"""`agentos up` as people run it: starting, stopping, being killed, and being started wrongly.

The other files in this directory start their processes with what is defined here.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import pytest

import agentos

SOURCES = Path(agentos.__file__).resolve().parents[1]
PACKAGES = Path(httpx.__file__).resolve().parents[1]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


async def until(condition: Callable[[], bool], within: float = 60) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 -- what is watched belongs to another process
            await asyncio.sleep(0.02)


@dataclass
class Command:
    """`agentos …` in a process of its own, its output in files."""

    process: asyncio.subprocess.Process
    name: str
    _out: Path
    _err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def output(self) -> str:
        return self.out + self.err

    @property
    def ended(self) -> bool:
        return self.process.returncode is not None

    async def line(self, word: str) -> dict[str, Any]:
        """The first line of JSON with this word in it; it says that the process is at work."""
        found: list[str] = []

        def is_there() -> bool:
            assert not self.ended, f"{self.name} ended: {self.output}"
            found[:] = [line for line in self.output.splitlines(True) if word in line]
            return bool(found) and found[0].endswith("\n")

        await until(is_there)
        return cast(dict[str, Any], json.loads(found[0]))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def wait(self, within: float = 60) -> int:
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return await self.wait()


@dataclass
class Place:
    """A directory of its own, and the processes that were started in it."""

    path: Path
    env: dict[str, str]
    _commands: list[Command] = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        return Path(self.env["AGENTOS_DATA_DIR"])

    async def run(
        self, *args: str, python: list[str] | None = None, user: int | None = None, **env: str
    ) -> Command:
        name = f"{len(self._commands)}-{args[0]}"
        out, err = self.path / f"{name}.out", self.path / f"{name}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(python or [sys.executable]),
                *("-m", "agentos.cli.main", *args),
                env=self.env | env,
                cwd=self.path,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                user=user,
                group=None if user is None else pwd.getpwuid(user).pw_gid,
                extra_groups=None if user is None else [],
            )
        command = Command(process, name, out, err)
        self._commands.append(command)
        return command

    async def up(self, *args: str, **options: Any) -> tuple[Command, Installation]:
        """Everything, running."""
        command = await self.run("up", "--json", "--port", "0", *args, **options)
        told = await command.line('"url"')
        return command, Installation(told["url"], told["demo"])

    async def fails(self, *args: str, **options: Any) -> tuple[int, str]:
        """The exit code and what was said of a command that must not succeed."""
        command = await self.run(*args, **options)
        code = await command.wait()
        assert code != 0
        assert "Traceback" not in command.output
        return code, command.output

    async def close(self) -> None:
        for command in self._commands:
            if not command.ended:
                with suppress(ProcessLookupError):
                    command.send(signal.SIGCONT)
                    command.send(signal.SIGTERM)
        for command in self._commands:
            try:
                await command.wait(30)
            except TimeoutError:
                command.process.kill()
                await command.wait()


@dataclass(frozen=True)
class Installation:
    url: str
    demo: dict[str, str]

    @asynccontextmanager
    async def client(self, key: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {key or self.demo['api_key']}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20) as client:
            yield client


def new_directory() -> Path:
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    # The account that runs the engines has to pass through.
    path.chmod(0o711)
    return path


@asynccontextmanager
async def new_place() -> AsyncIterator[Place]:
    path = new_directory()
    place = Place(
        path,
        {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "PYTHONPATH": str(SOURCES),
            "PYTHONWARNINGS": "error",
            "AGENTOS_DATA_DIR": str(path / "data"),
            "AGENTOS_LOG_FORMAT": "json",
            "AGENTOS_SIGNUP": "open",
            "AGENTOS_ANONYMOUS_REQUESTS_PER_MINUTE": "100000",
        },
    )
    try:
        yield place
    finally:
        await place.close()
        shutil.rmtree(path, ignore_errors=True)


def first_number(path: Path) -> int:
    return int(path.read_text().split("\n", 1)[0])


def postmaster(data_dir: Path) -> int:
    return first_number(data_dir / "postgres" / "postmaster.pid")


def nats_server(data_dir: Path) -> int:
    return first_number(data_dir / "nats" / "nats.pid")


def is_gone(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def family(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with new_place() as here:
        yield here


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_everything_in_order(place: Place, number: signal.Signals) -> None:
    up, installation = await place.up()
    children = family(up.pid)
    assert {postmaster(place.data_dir), nats_server(place.data_dir)} <= set(children)
    async with installation.client() as client:
        assert (await client.get("/api/auth/me")).status_code == 200
    assert await up.stop(number) == 0
    assert [pid for pid in children if not is_gone(pid)] == []
    assert not (place.data_dir / "postgres" / "postmaster.pid").exists()
    assert "Traceback" not in up.output


async def test_the_next_start_finds_everything_again(place: Place) -> None:
    up, first = await place.up()
    async with first.client() as client:
        stored = await client.put("/api/vault/kept", json={"value": "s3cret-canary"})
        assert stored.status_code == 200, stored.text
        events = (await client.get("/api/events?limit=200")).json()["items"]
    assert await up.stop() == 0
    up, second = await place.up()
    assert second.demo == first.demo
    async with second.client(first.demo["api_key"]) as client:
        listed = (await client.get("/api/vault")).json()["items"]
        assert [secret["name"] for secret in listed] == ["kept"]
        again = (await client.get("/api/events?limit=200")).json()["items"]
        assert again[: len(events)] == events
        # What was asked for just before the end is announced, if not before then after it.
        assert "secret.stored" in [event["type"] for event in again]
    assert "s3cret-canary" not in up.output
    # The account of the engines passes through; others see names at most.
    assert place.data_dir.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
    assert (place.data_dir / "secrets").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("start", ["first", "later"])
async def test_ctrl_c_while_starting_stops_at_once(place: Place, start: str) -> None:
    if start == "later":
        up, _ = await place.up()
        assert await up.stop() == 0
    up = await place.run("up", "--port", "0")
    await until(lambda: "Starting PostgreSQL" in up.err)
    children = family(up.pid)
    assert await up.stop(signal.SIGINT) == 0, up.output
    assert "AgentOS is running" not in up.out
    assert "Traceback" not in up.output
    await until(lambda: all(is_gone(pid) for pid in children))
    up, _ = await place.up()
    assert await up.stop() == 0


async def test_a_killed_parent_leaves_no_engines(place: Place) -> None:
    up, first = await place.up()
    children = family(up.pid)
    assert len(children) >= 2
    async with first.client() as client:
        assert (await client.put("/api/vault/kept", json={"value": "x"})).status_code == 200
    assert await up.stop(signal.SIGKILL) == -signal.SIGKILL
    await until(lambda: all(is_gone(pid) for pid in children), within=10)
    up, second = await place.up()
    async with second.client(first.demo["api_key"]) as client:
        assert len((await client.get("/api/vault")).json()["items"]) == 1
    assert await up.stop() == 0


async def test_a_start_right_after_a_kill_works(place: Place) -> None:
    up, _ = await place.up()
    up.send(signal.SIGKILL)
    # Not waited for: the engines of the first are still on their way out.
    up, _ = await place.up()
    assert await up.stop() == 0


async def test_a_second_one_on_the_same_directory_is_refused(place: Place) -> None:
    up, installation = await place.up()
    engines = postmaster(place.data_dir), nats_server(place.data_dir)
    _, said = await place.fails("up", "--json", "--port", "0")
    told = json.loads(said)
    assert told["code"] == "data_directory_in_use"
    assert str(place.data_dir) in told["message"]
    assert str(up.pid) in told["message"]
    assert f"kill {up.pid}" in told["hint"]
    assert engines == (postmaster(place.data_dir), nats_server(place.data_dir))
    async with installation.client() as client:
        assert (await client.get("/api/auth/me")).status_code == 200
    assert await up.stop() == 0


async def test_a_port_in_use_is_said_before_anything_starts(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        _, said = await place.fails("up", "--port", str(port))
    assert f"127.0.0.1:{port}" in said
    assert "--port" in said
    assert "Starting" not in said
    assert not place.data_dir.exists()


async def test_two_on_one_port_cannot_both_believe_to_have_it(place: Place) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    first = await place.run("up", "--json", "--port", port)
    # From the moment the first could have said that the port is taken.
    second = await place.run(
        "up", "--json", "--port", port, AGENTOS_DATA_DIR=str(place.path / "other")
    )
    await until(lambda: first.ended or second.ended)
    ended, left = (first, second) if first.ended else (second, first)
    assert ended.process.returncode != 0
    assert "Cannot listen" in ended.err
    told = await left.line('"url"')
    assert told["url"].endswith(f":{port}")
    assert await left.stop() == 0


@pytest.mark.parametrize("kind", ["below a file", "in a place without writing"])
async def test_an_unusable_data_directory_is_named(place: Place, kind: str) -> None:
    if kind == "below a file":
        (place.path / "file").write_text("")
        data_dir = place.path / "file" / "data"
    else:
        data_dir = Path("/proc/agentos")
    _, said = await place.fails("up", "--port", "0", AGENTOS_DATA_DIR=str(data_dir))
    assert str(data_dir) in said
    assert "cannot be created" in said
    assert "Choose a directory" in said


@as_root
async def test_a_directory_the_engines_cannot_reach_is_named(place: Place) -> None:
    private = place.path / "private"
    private.mkdir(mode=0o700)
    _, said = await place.fails("up", "--port", "0", AGENTOS_DATA_DIR=str(private / "data"))
    assert str(private) in said
    assert "chmod o+x" in said


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("AGENTOS_SECRET_KEY", "xyz-canary"),
        ("AGENTOS_PORT", "many-canary"),
        ("AGENTOS_LOG_LEVEL", "canary"),
    ],
)
async def test_a_broken_setting_is_named(place: Place, setting: str, value: str) -> None:
    _, said = await place.fails("up", **{setting: value})
    assert setting in said
    if "SECRET" in setting:
        assert value not in said
    assert not place.data_dir.exists()


async def test_an_engine_that_cannot_start_takes_the_others_with_it(place: Place) -> None:
    up, _ = await place.up()
    assert await up.stop() == 0
    (place.data_dir / "postgres" / "PG_VERSION").write_text("12\n")
    before = {child.pid for child in psutil.process_iter() if child.name() == "nats-server"}
    _, said = await place.fails("up", "--port", "0")
    assert "PostgreSQL 12" in said
    ours = str(place.data_dir)
    assert not [
        child.pid
        for child in psutil.process_iter(["name", "cmdline"])
        if child.pid not in before and ours in " ".join(child.info["cmdline"] or [])
    ]


def interpreters() -> Iterator[list[str]]:
    yield [sys.executable]
    yield ["/usr/bin/python3"]


def somebody_can_run(python: list[str], user: int, env: dict[str, str]) -> bool:
    try:
        outcome = subprocess.run(
            [*python, "-c", "import agentos.cli.runner"],
            env=env,
            cwd="/",
            user=user,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return outcome.returncode == 0


@as_root
async def test_an_ordinary_user_can_run_it(place: Place) -> None:
    nobody = pwd.getpwnam("nobody")
    place.env["PYTHONPATH"] = f"{SOURCES}:{PACKAGES}"
    python = next(
        (p for p in interpreters() if somebody_can_run(p, nobody.pw_uid, place.env)), None
    )
    if python is None:
        pytest.skip(
            "no Python 3.11 on this machine that an ordinary user may run with our packages"
        )
    home = place.path / "home"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    options: dict[str, Any] = {
        "python": python,
        "user": nobody.pw_uid,
        "AGENTOS_DATA_DIR": str(home / "data"),
    }
    up, installation = await place.up(**options)
    for pid in (postmaster(home / "data"), nats_server(home / "data"), up.pid):
        assert psutil.Process(pid).uids().real == nobody.pw_uid
    async with installation.client() as client:
        assert (await client.put("/api/vault/kept", json={"value": "x"})).status_code == 200
    assert (home / "data").stat().st_mode & 0o777 == 0o700
    children = family(up.pid)
    assert await up.stop(signal.SIGINT) == 0
    assert [pid for pid in children if not is_gone(pid)] == []
    # A directory that this user may not write to.
    _, said = await place.fails(
        "up", "--port", "0", **(options | {"AGENTOS_DATA_DIR": str(place.path / "theirs")})
    )
    assert str(place.path / "theirs") in said
    assert "cannot be created" in said
