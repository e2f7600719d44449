"""What processes cost, as the kernel counts it: CPU time and memory, with all their children."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    command: str
    cpu_seconds: float
    # Shared pages are split among those who share them, so that a sum counts each once.
    pss_mb: float
    rss_mb: float


def tree(root: int) -> dict[int, Usage]:
    """`root` and everything under it."""
    children: dict[int, list[int]] = defaultdict(list)
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and (fields := _stat(int(place.name))):
            children[int(fields[1])].append(int(place.name))
    found: dict[int, Usage] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        if (usage := of(pid)) is not None:
            found[pid] = usage
    return found


def of(pid: int) -> Usage | None:
    """One process with the children it has outlived; None if it is gone."""
    fields = _stat(pid)
    try:
        memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
        name = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode()
        own = cpu_seconds(pid)
    except OSError:
        return None
    if fields is None:
        return None
    kilobytes = {
        line.split(":")[0]: int(line.split()[1]) for line in memory.splitlines() if "kB" in line
    }
    outlived = (int(fields[13]) + int(fields[14])) / _TICK
    return Usage(
        Path((name.split() or ["?"])[0]).name.strip(":"),
        own + outlived,
        kilobytes["Pss"] / 1024,
        kilobytes["Rss"] / 1024,
    )


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads that live, in steps far below a clock tick."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


def _stat(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
