"""Commands in namespaces of their own, by bubblewrap.

Inside there is /usr to read, the workspace and a small /tmp to write, no network, no other process,
no capability and no privileged account. Bubblewrap is never started as root: a mistake in it, or in
how it is called, would be a mistake with all rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentos.integrations.sandboxes.base import Command, Inside, Limits, Outcome, SandboxMissing
from agentos.integrations.sandboxes.cgroups import Cgroups, entering
from agentos.integrations.sandboxes.commands import READABLE_ETC, account_of, check, environment
from agentos.integrations.sandboxes.processes import (
    below,
    first_child,
    has_ended,
    is_first_inside,
    proportional_bytes,
)
from agentos.integrations.sandboxes.running import kill_group, memory_file, run_to_end
from agentos.integrations.sandboxes.seccomp import filter_within_namespaces
from agentos.integrations.sandboxes.status import Status, outcome

WORKSPACE = "/workspace"
EGRESS = "/run/egress.sock"
_INSIDE = "1000"
_SHM_BYTES = 16 * 1024 * 1024
# The one of bubblewrap that waits outside, and the first process inside.
_OWN = 2
# That first process: it reaps what others leave behind, and all end with it. Bubblewrap's own would
# do so, too, but nobody waits for it: it would end after `run`, and be a zombie until then. What a
# shell has to say about a command that a signal killed is thrown away.
_FIRST = ("/bin/sh", "-c", 'exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; exit $?', "sh")
_POLL_SECONDS = 0.005
# How often it is asked for before bubblewrap is ended without it.
_PATIENCE = 20
# Node, git and others give up where the account they run as has no name.
_ETC = {
    "passwd": b"agent:x:1000:1000:agent:/workspace:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": b"agent:x:1000:\nnogroup:x:65534:\n",
    "hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
}


@dataclass(frozen=True)
class Bubblewrap:
    """The sandbox of choice: namespaces, seccomp, and control groups where we may make them."""

    cgroups: Cgroups | None = None

    @property
    def name(self) -> str:
        return "bubblewrap"

    async def run(
        self, command: Command, *, on_start: Callable[[Inside], None] | None = None
    ) -> Outcome:
        """As every sandbox does. `on_start` is told when the command itself has begun."""
        check(command)
        uid = account_of(command)
        with ExitStack() as files:
            status = Status.open(files)
            given = _Given.make(files)
            options = [*_layout(), *_own_options(command, given, status.write_end)]
            data = b"".join(os.fsencode(option) + b"\0" for option in options)
            arguments = memory_file(files, "arguments", data)
            tree = _Tree(files, self.cgroups, command.limits, status, uid)
            argv = [
                *entering(tree.group),
                *_dropping(uid),
                _program("bwrap"),
                "--args",
                str(arguments),
            ]
            if on_start is not None:
                files.callback(asyncio.create_task(tree.announce(on_start)).cancel)
            limiting = _limiting(command.limits, counted=tree.group is not None)
            ended = await run_to_end(
                [*argv, "--", *_FIRST, *limiting, *command.argv],
                files=files,
                stdin=command.stdin,
                passed=(arguments, status.write_end, *given.all),
                tree=tree,
                limits=command.limits,
                on_output=command.on_output,
            )
            return outcome(ended, status, memory_ran_out=tree.memory_ran_out)


@dataclass(frozen=True)
class _Given:
    """Files without a name that bubblewrap reads: the seccomp filter, and a small /etc."""

    seccomp: int
    etc: dict[str, int]

    @classmethod
    def make(cls, files: ExitStack) -> _Given:
        seccomp = memory_file(files, "seccomp", filter_within_namespaces())
        return cls(seccomp, {n: memory_file(files, n, data) for n, data in _ETC.items()})

    @property
    def all(self) -> tuple[int, ...]:
        return (self.seccomp, *self.etc.values())


@cache
def _layout() -> tuple[str, ...]:
    """Everything that is the same for all commands, in the order in which it is done."""
    options = [
        *("--unshare-all", "--unshare-user", "--hostname", "sandbox"),
        *("--uid", _INSIDE, "--gid", _INSIDE),
        *("--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--ro-bind", "/usr", "/usr"),
    ]
    # Since 0.8; with older ones the seccomp filter alone forbids further namespaces.
    if "--disable-userns" in _help():
        options.append("--disable-userns")
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        place = Path(name)
        if place.is_symlink():
            options += ["--symlink", str(place.readlink()), name]
        elif place.is_dir():
            options += ["--ro-bind", name, name]
    for name in READABLE_ETC:
        options += ["--ro-bind-try", name, name]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    # It is a tmpfs, too, and without a bound.
    options += ["--remount-ro", "/dev"]
    return tuple(options)


def _help() -> str:
    argv = [_program("bwrap"), "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=10, env={}, check=False)
    return done.stdout


def _own_options(command: Command, given: _Given, status_end: int) -> list[str]:
    options = []
    for name, fd in given.etc.items():
        options += ["--ro-bind-data", str(fd), f"/etc/{name}"]
    # Its own, in there.
    options += ["--size", str(command.limits.tmp_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    options += ["--bind", str(command.workspace.resolve()), WORKSPACE, "--chdir", WORKSPACE]
    if command.egress is not None:
        options += ["--bind", str(command.egress.resolve()), EGRESS]
    for mount in command.mounts:
        bind = "--bind" if mount.writable else "--ro-bind"
        options += [bind, str(mount.source.resolve()), mount.target]
    options += ["--remount-ro", "/"]
    for name, value in environment(command, WORKSPACE).items():
        options += ["--setenv", name, value]
    return [*options, "--seccomp", str(given.seccomp), "--json-status-fd", str(status_end)]


def _dropping(uid: int) -> list[str]:
    if os.geteuid() == uid:
        return []
    options = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]
    return [_program("setpriv"), *options, "--pdeathsig=KILL", "--"]


def _limiting(limits: Limits, *, counted: bool) -> list[str]:
    """Set inside, where processes are counted for this sandbox alone and not for the account."""
    seconds = limits.cpu_seconds
    cpu = [] if math.isinf(seconds) else [f"--cpu={math.ceil(seconds)}:{math.ceil(seconds) + 1}"]
    data = [f"--data={limits.memory_bytes}"] if limits.memory_by_process or not counted else []
    return [
        "/usr/bin/prlimit",
        *cpu,
        *data,
        f"--fsize={limits.file_bytes}",
        # The first process inside counts, too.
        f"--nproc={limits.processes + 1}",
        "--core=0",
        "--",
    ]


@cache
def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    if found is None:
        package = "bubblewrap" if name == "bwrap" else "util-linux"
        raise SandboxMissing(
            f"{name} is not installed.", hint=f"Install {package}: apt-get install {package}"
        )
    return found


class _Tree:
    """The processes of one sandbox. With its first one they all go: the kernel sees to it."""

    def __init__(
        self,
        files: ExitStack,
        cgroups: Cgroups | None,
        limits: Limits,
        status: Status,
        uid: int,
    ) -> None:
        self.group = (
            None if cgroups is None else cgroups.create(files, limits, spare_processes=_OWN)
        )
        self.memory_ran_out = False
        self._files = files
        self._status = status
        self._uid = uid
        self._first: int | None = None  # a pidfd
        self._first_pid = 0
        self._command: int | None = None  # a pidfd
        self._asked = 0

    def kill(self, pid: int) -> None:
        """Bubblewrap outlives the first process inside, and reaps it; so it is not killed itself."""
        self._asked += 1
        if self._first is None:
            self._find_first()
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        # Until it has told the pid of its child, bubblewrap has not let it leave its group.
        elif self._asked > _PATIENCE:
            kill_group(pid)
        if self.group is not None:
            self.memory_ran_out = self.group.memory_ran_out()

    async def announce(self, on_start: Callable[[Inside], None]) -> None:
        """Tell when the command has begun; never, if it does not."""
        while self._command is None:
            await asyncio.sleep(_POLL_SECONDS)
            self._find_command()
        on_start(self)

    def terminate(self) -> None:
        if self._command is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._command, signal.SIGTERM)

    def memory_bytes(self) -> int | None:
        if self._first is None or has_ended(self._first):
            return None
        if self.group is not None and (used := self.group.memory_bytes()) is not None:
            return used
        return proportional_bytes([self._first_pid, *below(self._first_pid)])

    def gone(self) -> bool:
        if self._first is not None and not has_ended(self._first):
            return False
        return self.group is None or self.group.swept()

    def _find_command(self) -> None:
        """The first process's own child; the signal to end is kept from that one by the kernel."""
        if self._first is None:
            self._find_first()
        if self._first is None or has_ended(self._first):
            return
        pid = first_child(self._first_pid)
        if pid is None:
            return
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            self._files.callback(os.close, fd)
            if first_child(self._first_pid) == pid:
                self._command = fd

    def _find_first(self) -> None:
        pid = self._status.told("child-pid")
        if pid is None:
            return
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            self._files.callback(os.close, fd)
            # The number may belong to another process by now, which must not be hurt.
            if is_first_inside(pid, self._uid):
                self._first, self._first_pid = fd, pid
