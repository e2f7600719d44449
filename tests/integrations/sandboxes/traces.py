"""What a sandbox could leave behind, and a command that tries to stay."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import psutil
from tests.integrations.sandboxes.conftest import TENANT, Box

from agentos.integrations.sandboxes.cgroups import find_cgroups

# Daemons: each in a session of its own, with nothing open, some deaf to what can be ignored.
DAEMONS = """
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        try:
            os.setsid()
        except OSError:
            pass
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.closerange(0, 3)
            time.sleep(3600)
        os._exit(0)
for _ in range(3):
    os.wait()
open("ready", "w").close()
"""


def processes_of(box: Box) -> list[psutil.Process]:
    """Those that sleep for an hour, as only commands of these tests do."""
    return [
        process
        for process in psutil.process_iter(["uids", "cmdline"])
        if process.info["uids"] is not None
        and process.info["uids"].real == box.account
        and "3600" in str(process.info["cmdline"])
    ]


def groups(owner: int = os.getpid()) -> list[Path]:
    cgroups = find_cgroups()
    if cgroups is None:
        return []
    return [p for b in cgroups.bases for p in b.place.glob(f"{owner}-*")]


def zombies() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if child.status() == psutil.STATUS_ZOMBIE]


def is_there(file: Path) -> bool:
    return file.exists()


async def until_there(file: Path) -> None:
    """The command says that it is ready by making a file."""
    while not is_there(file):  # noqa: ASYNC110 - it has no other way to tell
        await asyncio.sleep(0.01)


def temporary_directories(owner: int) -> list[str]:
    return [p.name for p in Path(tempfile.gettempdir()).glob(f"agentos-sandbox-{owner}-*")]


def traces() -> set[object]:
    """All there is by the means of this process and of the tenant's account."""
    processes = [p for p in psutil.process_iter(["uids"]) if _is_of_tenant(p)]
    return {*groups(), *zombies(), *temporary_directories(os.getpid()), *processes}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _is_of_tenant(process: psutil.Process) -> bool:
    uids = process.info["uids"]
    return uids is not None and uids.real == TENANT
