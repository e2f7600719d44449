"""What the kernel tells about processes of a sandbox, seen from outside it."""

from __future__ import annotations

import select
from pathlib import Path

_PROC = Path("/proc")


def is_first_inside(pid: int, uid: int) -> bool:
    """Whether this is a first process of a sandbox of that account."""
    status = _status(pid)
    pids = status.get("NSpid", "").split()
    return pids[1:] == ["1"] and status["Uid"].split()[0] == str(uid)


def has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def first_child(pid: int) -> int | None:
    """The oldest of the children that a first process has; orphans become its children, too."""
    # Inside, numbers rise; outside, they may have begun anew.
    return min(_children(pid), key=_number_inside, default=None)


def below(pid: int) -> list[int]:
    """All that the process started, and what those started."""
    parents = _parents()
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def proportional_bytes(pids: list[int]) -> int | None:
    """The memory of these processes, with each shared page counted once; None: nobody may know."""
    sizes = [size for pid in pids if (size := _proportional(pid)) is not None]
    return sum(sizes) if sizes else None


def _proportional(pid: int) -> int | None:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _children(pid: int) -> list[int]:
    try:
        return [
            int(n) for n in (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
        ]
    except OSError:
        # Not every kernel has this file.
        return [child for child, parent in _parents().items() if parent == pid]


def _number_inside(pid: int) -> int:
    numbers = _status(pid).get("NSpid", "").split()
    return int(numbers[-1]) if numbers else 0


def _parents() -> dict[int, int]:
    found = {}
    for place in _PROC.iterdir():
        if place.name.isdigit():
            try:
                stat = (place / "stat").read_text()
            except OSError:
                continue
            # The name before it may hold spaces and brackets.
            found[int(place.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _status(pid: int) -> dict[str, str]:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines)
