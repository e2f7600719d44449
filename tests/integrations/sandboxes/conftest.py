"""Sandboxes under test, and a machine around them with things worth stealing."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pickle
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.conftest import Engines

from agentos.integrations.sandboxes.base import Command, Limits, Outcome, Sandbox, SandboxMissing
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import Cgroups, find_cgroups
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.kernel.engines.account import Account, can_reach

ROOT = os.geteuid() == 0
SRC = Path(__file__).parents[3] / "src"
SECRET = "a secret of the host"
# Far from the accounts of people and of daemons.
# Each process that runs tests has its own: the tests look at all that the account does.
TENANT, OTHER_TENANT, USER = (base + os.getpid() for base in (10_000_000, 20_000_000, 30_000_000))
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin") or "/usr/bin/python3"


class Ordinary:
    """A sandbox that a user without rights has started, in a process of its own."""

    def __init__(self, name: str, uid: int) -> None:
        self.name = name
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
        program = str(Path(__file__).with_name("ordinary.py"))
        self._process = subprocess.Popen(
            [*drop, PYTHON, program, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    async def run(self, command: Command) -> Outcome:
        return await asyncio.to_thread(self._run, command)

    def _run(self, command: Command) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(command, self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        if isinstance(answer, str):
            raise SandboxMissing(answer)
        assert isinstance(answer, Outcome)
        return answer

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Box:
    """A sandbox with a workspace for it."""

    sandbox: Sandbox
    workspace: Path
    # The account whose files and processes the sandbox must keep apart from its command.
    account: int
    cgroups: Cgroups | None
    # What a command is told to run as.
    uid: int | None

    async def __call__(
        self,
        *argv: str,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        egress: Path | None = None,
        **limits: Any,
    ) -> Outcome:
        command = Command(
            argv,
            self.workspace,
            uid=self.uid,
            stdin=stdin,
            env=env or {},
            limits=Limits(**({"seconds": 60} | limits)),
            egress=egress,
        )
        return await self.sandbox.run(command)

    async def python(self, program: str, *argv: str, **more: Any) -> Outcome:
        return await self(PYTHON, "-c", program, *argv, **more)


def _made(kind: str, cgroups: Cgroups | None) -> Sandbox:
    return Bubblewrap(cgroups) if kind == "bubblewrap" else Landlock(cgroups)


@pytest.fixture(scope="module")
def ordinary() -> Iterator[dict[str, Ordinary]]:
    if not BY_USER:
        yield {}
        return
    running = {name: Ordinary(name, USER) for name in ("bubblewrap", "landlock")}
    yield running
    for each in running.values():
        each.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every account can pass through."""
    place = Path(tempfile.mkdtemp(prefix="aos-box-", dir="/tmp"))
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


BOXES = ["bubblewrap", "landlock"]
ORDINARY_BOXES = ["bubblewrap by a user", "landlock by a user"]
# A checkout in the home of root can be read by root only.
BY_USER = ROOT and can_reach(SRC, Account("user", USER, USER))


@pytest.fixture(params=BOXES)
def box(request: pytest.FixtureRequest, place: Path) -> Box:
    """Each sandbox, as the worker would have it."""
    return _box(request.param, place)


@pytest.fixture(params=BOXES + ORDINARY_BOXES if BY_USER else BOXES)
def any_box(request: pytest.FixtureRequest, place: Path, ordinary: dict[str, Ordinary]) -> Box:
    """Each sandbox, also as a worker without rights would have it."""
    name, _, by_user = request.param.partition(" ")
    if not by_user:
        return _box(name, place)
    return Box(ordinary[name], _workspace(place, USER), USER, None, None)


def _box(kind: str, place: Path) -> Box:
    account = TENANT if ROOT else os.geteuid()
    cgroups = find_cgroups()
    return Box(_made(kind, cgroups), _workspace(place, account), account, cgroups, account)


def _workspace(place: Path, uid: int) -> Path:
    workspace = place / "workspace"
    workspace.mkdir()
    if ROOT:
        os.chown(workspace, uid, uid)
    return workspace


@dataclass
class Machine:
    """What is outside: files, processes and sockets, and what an attempt is told of them."""

    given: dict[str, Any]
    victim: subprocess.Popen[bytes]

    def json(self) -> str:
        return json.dumps(self.given)

    def is_unharmed(self) -> bool:
        files = [Path(self.given[n]) for n in ("readable", "writable", "own", "of_worker")]
        return self.victim.poll() is None and all(
            f.read_text() == SECRET and f.stat().st_mode & 0o777 == 0o666 for f in files
        )


@pytest.fixture
def machine(any_box: Box, place: Path, engines: Engines) -> Iterator[Machine]:
    with ExitStack() as stack:
        yield furnish(stack, place, any_box.account, engines)


def furnish(stack: ExitStack, place: Path, account: int, engines: Engines) -> Machine:
    files = _files(place, account)
    victim = subprocess.Popen(as_account(account, ["sleep", "3600"]))
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    return Machine(
        {
            **files,
            **_sockets(stack, place),
            "worker": os.getpid(),
            "victim": victim.pid,
            "shared_memory": _shared_memory(stack),
            "postgres": str(engines.postgres.socket_dir / ".s.PGSQL.5432"),
            "nats": urlsplit(engines.nats.url).port,
        },
        victim,
    )


def as_account(uid: int, argv: list[str]) -> list[str]:
    if os.geteuid() == uid:
        return argv
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", *argv]


def _files(place: Path, account: int) -> dict[str, str]:
    """As open as can be, so that nothing but the sandbox protects them."""
    directory, other = place / "open", place / "other"
    names = {n: directory / n for n in ("readable", "writable", "own", "of_worker")}
    for made in (directory, other):
        made.mkdir()
        made.chmod(0o777)
    for file in (*names.values(), other / "notes"):
        file.write_text(SECRET)
        file.chmod(0o666)
    if ROOT:
        os.chown(names["own"], account, account)
        os.chown(other / "notes", OTHER_TENANT, OTHER_TENANT)
        # Who runs the sandbox: root for a tenant's account, or the user itself.
        if account != TENANT:
            os.chown(names["of_worker"], account, account)
    return {n: str(p) for n, p in names.items()} | {
        "open_directory": str(directory),
        "other_workspace": str(other),
    }


def _sockets(stack: ExitStack, place: Path) -> dict[str, Any]:
    path, abstract = str(place / "socket"), f"aos-{os.getpid()}-{place.name}"
    for address in (path, f"\0{abstract}"):
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen()
    Path(path).chmod(0o666)
    tcp = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
    echo = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    echo.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=_echo, args=(echo,))
    thread.start()
    stack.callback(thread.join)
    stack.callback(_stop_echo, echo.getsockname())
    return {
        "socket": path,
        "abstract": abstract,
        "address": (_own_address(), tcp.getsockname()[1]),
        "datagrams": echo.getsockname()[1],
    }


_STOP = b"stop"


def _echo(echo: socket.socket) -> None:
    while True:
        data, sender = echo.recvfrom(16)
        if data == _STOP:
            return
        echo.sendto(data, sender)


def _stop_echo(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(_STOP, address)


def _own_address() -> str:
    """This machine's address in the network, or loopback where it is in none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing: it only asks the routing table
        except OSError:
            return "127.0.0.1"
        return str(s.getsockname()[0])


def _shared_memory(stack: ExitStack) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    key = int.from_bytes(os.urandom(3), "big") + 1
    identifier = libc.shmget(key, 4096, 0o1666)
    assert identifier != -1
    stack.callback(libc.shmctl, identifier, 0, None)
    return key
