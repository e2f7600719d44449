"""Limits on a command and all it starts together: control groups, where we may make them.

Without them each process is limited on its own (rlimits), and memory only process by process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from agentos.integrations.sandboxes.base import Limits
from agentos.integrations.sandboxes.running import SandboxFailed

_NAME = "agentos-sandboxes"
_numbers = itertools.count()
# In version 2 and in version 1: the file, and the line of memory.stat to leave out.
_USED = (
    ("memory.current", "inactive_file"),
    ("memory.usage_in_bytes", "total_inactive_file"),
)
_CPU_PERIOD = 100_000  # microseconds


@dataclass(frozen=True)
class Cgroup:
    """The control group of one command: one directory in version 2, one a controller in version 1."""

    places: tuple[Path, ...]

    def memory_ran_out(self) -> bool:
        """Whether the kernel killed something in here for want of memory."""
        for place in self.places:
            for name in ("memory.events", "memory.oom_control"):
                for line in _lines(place / name):
                    key, _, value = line.partition(" ")
                    if key == "oom_kill" and int(value) > 0:
                        return True
        return False

    def memory_bytes(self) -> int | None:
        """What is used in here, without what was only read from files and can be dropped."""
        for place in self.places:
            for used, idle in _USED:
                if lines := _lines(place / used):
                    counted = dict(line.split() for line in _lines(place / "memory.stat"))
                    return max(0, int(lines[0]) - int(counted.get(idle, 0)))
        return None

    def kill(self) -> None:
        """End every process in here. One that is being born may need a second call."""
        for place in self.places:
            for pid in _lines(place / "cgroup.procs"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def swept(self) -> bool:
        """End and remove; False while something is still ending."""
        if self.remove():
            return True
        self.kill()
        return False

    def remove(self) -> bool:
        """Take the directories away; False while something in them is still ending."""
        for place in self.places:
            try:
                place.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True


@dataclass(frozen=True)
class _Base:
    """A directory in which groups are made, with the files that get a value in each of them."""

    place: Path
    memory: tuple[str, ...] = ()
    pids: tuple[str, ...] = ()
    # With how the share of a period is written there.
    cpu: tuple[tuple[str, str], ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Cgroups:
    """Where this process may make control groups."""

    bases: tuple[_Base, ...]

    def create(self, files: ExitStack, limits: Limits, *, spare_processes: int) -> Cgroup:
        """A group with these limits, as long as `files`. `spare_processes` are the sandbox's own."""
        name = f"{os.getpid()}-{next(_numbers)}"
        group = Cgroup(tuple(base.place / name for base in self.bases))
        files.callback(group.remove)
        try:
            self._fill(group, limits, spare_processes)
        except OSError as error:
            raise SandboxFailed(f"No control group: {error.strerror}.") from error
        return group

    def can_be_entered(self) -> bool:
        """Whether a process of ours may go into a group; where it was only given, it may not."""
        with ExitStack() as files:
            group = self.create(files, Limits(), spare_processes=0)
            argv = [*entering(group), "/bin/true"]
            done = subprocess.run(argv, capture_output=True, env={}, check=False)
        return done.returncode == 0

    def _fill(self, group: Cgroup, limits: Limits, spare_processes: int) -> None:
        for base, place in zip(self.bases, group.places, strict=True):
            place.mkdir()
            for file in base.memory:
                _set(place / file, str(limits.memory_bytes))
            for file in base.pids:
                _set(place / file, str(limits.processes + spare_processes))
            if limits.cpu_percent is not None:
                quota = limits.cpu_percent * _CPU_PERIOD // 100
                for file, form in base.cpu:
                    _set(place / file, form.format(quota=quota, period=_CPU_PERIOD))
            for file, value in base.fixed:
                _set(place / file, value)

    def sweep(self) -> None:
        """Remove what processes that died without a chance to tidy up have left behind."""
        for base in self.bases:
            for place in base.place.iterdir():
                owner = place.name.partition("-")[0]
                if owner.isdigit() and not Path("/proc", owner).exists():
                    Cgroup((place,)).kill()
                    Cgroup((place,)).remove()


def entering(group: Cgroup | None) -> list[str]:
    """What to put before a command so that it enters the group first, as the same process."""
    if group is None:
        return []
    doors = [shlex.quote(str(place / "cgroup.procs")) for place in group.places]
    steps = " && ".join(f"echo 0 >{door}" for door in doors)
    return ["/bin/sh", "-c", f'{steps} && exec "$@"', "sh"]


def find_cgroups(proc: Path = Path("/proc/self")) -> Cgroups | None:
    """What can be used here, version 1 or 2; None where we may not make groups."""
    homes = _homes(proc)
    bases = [*_version_1(homes)] or [*_version_2(homes)]
    limited = {kind for base in bases for kind in (base.memory[:1] + base.pids[:1])}
    if len(limited) < 2:
        return None
    return Cgroups(tuple(bases))


def _version_1(homes: dict[str, list[Path]]) -> list[_Base]:
    wanted = (
        ("memory", _Base(Path(), memory=("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"))),
        ("pids", _Base(Path(), pids=("pids.max",))),
        # When everybody wants the processor, AgentOS itself comes before what agents run.
        (
            "cpu",
            _Base(
                Path(),
                cpu=(("cpu.cfs_period_us", "{period}"), ("cpu.cfs_quota_us", "{quota}")),
                fixed=(("cpu.shares", "512"),),
            ),
        ),
    )
    found = []
    for controller, base in wanted:
        for home in homes.get(controller, []):
            if _can_make(place := home / _NAME):
                found.append(replace(base, place=place))
                break
    return found


def _version_2(homes: dict[str, list[Path]]) -> list[_Base]:
    for home in homes.get("", []):
        place = home / _NAME
        # A group that has processes of its own cannot limit its children, except the root.
        if _enable(home) and _can_make(place) and _enable(place):
            return [
                _Base(
                    place,
                    memory=("memory.max",),
                    pids=("pids.max",),
                    cpu=(("cpu.max", "{quota} {period}"),),
                    fixed=(("memory.swap.max", "0"), ("cpu.weight", "50")),
                )
            ]
    return []


def _enable(place: Path) -> bool:
    """Whether groups below `place` can be limited in memory and processes."""
    control = place / "cgroup.subtree_control"
    for controller in ("memory", "pids", "cpu"):
        if controller not in _words(control):
            with contextlib.suppress(OSError):
                control.write_text(f"+{controller}")
    return {"memory", "pids"} <= _words(control)


def _can_make(place: Path) -> bool:
    try:
        place.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK)


def _homes(proc: Path) -> dict[str, list[Path]]:
    """By controller ("" is version 2), our own group and then the root of its hierarchy."""
    ours = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        ours.update(dict.fromkeys(controllers.split(","), path))
    homes: dict[str, list[Path]] = {}
    for line in _lines(proc / "mountinfo"):
        mount, _, system = line.partition(" - ")
        root, point = mount.split()[3:5]
        kind, _, options = system.split(" ", 2)
        for controller in {"cgroup": options.split(","), "cgroup2": [""]}.get(kind, []):
            if controller in ours:
                inside = ours[controller].removeprefix(root.rstrip("/")).lstrip("/")
                homes.setdefault(controller, [Path(point, inside), Path(point)])
    return homes


def _set(file: Path, value: str) -> None:
    # A kernel without swap accounting or without the cpu controller lacks that file.
    if file.exists():
        file.write_text(value)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _words(file: Path) -> set[str]:
    return set(" ".join(_lines(file)).split())
