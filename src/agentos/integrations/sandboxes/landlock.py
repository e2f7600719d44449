"""Commands under Landlock, for machines on which bubblewrap cannot run, such as most containers.

Weaker than namespaces: the command sees that other files and processes exist, though it can neither
read, change nor signal them; it cannot open any socket, so the egress proxy is out of its reach; and
the workspace has its real path.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import marshal
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agentos.integrations.sandboxes.base import Command, Limits, Outcome, SandboxMissing
from agentos.integrations.sandboxes.cgroups import Cgroups, entering
from agentos.integrations.sandboxes.commands import READABLE_ETC, account_of, check, environment
from agentos.integrations.sandboxes.running import memory_file, run_to_end
from agentos.integrations.sandboxes.seccomp import filter_without_namespaces
from agentos.integrations.sandboxes.status import Status, outcome

_CREATE_RULESET, _ASK_VERSION = 444, 1
# From here on signals and abstract sockets stay inside; before, only another account helps.
_SCOPES_SINCE = 6
_TRUNCATE_SINCE = 3
_LAUNCHER = Path(__file__).with_name("landlock_launcher.py")
_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Under bubblewrap these are not there; here they are, and programs that may not read them give up.
_READABLE_TOO = ("/etc/ssl/openssl.cnf",)
_ENV = {"GIT_CONFIG_NOSYSTEM": "1"}
_TEMPORARY = "agentos-sandbox-"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@cache
def landlock_version() -> int:
    """What the kernel offers; 0: nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)))


@dataclass(frozen=True)
class Landlock:
    """The sandbox for want of a better one: Landlock, seccomp, and an account of its own."""

    cgroups: Cgroups | None = None
    version: int = field(default_factory=landlock_version)

    @property
    def name(self) -> str:
        return "landlock"

    async def run(self, command: Command) -> Outcome:
        check(command)
        if command.mounts:
            raise SandboxMissing("Landlock cannot show a command more than its workspace.")
        uid = account_of(command)
        self._check_kernel(uid)
        async with AsyncExitStack() as places:
            temporary = _temporary_directory(places, uid)
            files = places.enter_context(ExitStack())
            status = Status.open(files)
            plan = memory_file(files, "plan", marshal.dumps(self._plan(command, uid, temporary)))
            tree = _Tree(files, self.cgroups, command.limits)
            # Apart from the site-packages and from every variable that could lead Python astray.
            launcher = [
                sys.executable,
                "-I",
                "-S",
                str(_LAUNCHER),
                str(plan),
                str(status.write_end),
            ]
            ended = await run_to_end(
                [*entering(tree.group), *launcher],
                files=files,
                stdin=command.stdin,
                passed=(plan, status.write_end),
                tree=tree,
                limits=command.limits,
                on_output=command.on_output,
            )
            return outcome(ended, status, memory_ran_out=tree.memory_ran_out)

    def _check_kernel(self, uid: int) -> None:
        if self.version == 0:
            raise SandboxMissing("This kernel has no Landlock.")
        if self.version < _SCOPES_SINCE and uid == os.geteuid():
            raise SandboxMissing(
                "This kernel's Landlock cannot keep a command from signalling the worker.",
                hint="Install bubblewrap: apt-get install bubblewrap; or run the worker as root.",
            )

    def _plan(self, command: Command, uid: int, temporary: Path) -> dict[str, Any]:
        limits = command.limits
        workspace = str(command.workspace.resolve())
        filter_ = filter_without_namespaces(
            owns_files_outside=uid == os.geteuid(),
            truncate_unguarded=self.version < _TRUNCATE_SINCE,
        )
        return {
            "parent": os.getpid(),
            "uid": uid,
            "abi": self.version,
            "argv": list(command.argv),
            "env": {**_ENV, "TMPDIR": str(temporary), **environment(command, workspace)},
            "workspace": workspace,
            "readable": [*_READABLE, *READABLE_ETC, *_READABLE_TOO],
            "writable": [workspace, str(temporary)],
            "devices": list(_DEVICES),
            "processes": limits.processes,
            "rlimits": [
                (resource.RLIMIT_CPU, *_cpu(limits.cpu_seconds)),
                (resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes),
                (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
                (resource.RLIMIT_CORE, 0, 0),
            ],
            "seccomp": filter_,
        }


def _cpu(seconds: float) -> tuple[int, int]:
    if math.isinf(seconds):
        return (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    return (math.ceil(seconds), math.ceil(seconds) + 1)


class _Tree:
    """The processes of one command; the launcher, which stands outside, ends them."""

    def __init__(self, files: ExitStack, cgroups: Cgroups | None, limits: Limits) -> None:
        self.group = None if cgroups is None else cgroups.create(files, limits, spare_processes=1)
        self.memory_ran_out = False

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        if self.group is not None:
            self.memory_ran_out = self.group.memory_ran_out()

    def gone(self) -> bool:
        return self.group is None or self.group.swept()


def _temporary_directory(places: AsyncExitStack, uid: int) -> Path:
    place = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-"))
    # In a thread: the command may have filled it with a million files.
    places.push_async_callback(asyncio.to_thread, shutil.rmtree, place, ignore_errors=True)
    if os.geteuid() != uid:
        os.chown(place, uid, uid)
    return place


def sweep_temporary_directories() -> None:
    """Remove those of workers that died without a chance to tidy up."""
    for place in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        owner = place.name.removeprefix(_TEMPORARY).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(place, ignore_errors=True)
