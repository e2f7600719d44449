"""What an earlier PostgreSQL may have left behind: lock files, a postmaster, backends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentos.kernel.engines.process import wait_pid

# Fast shutdown, then immediate shutdown, then force; the next start recovers from the log.
_STEPS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))


async def stop_orphan(pgdata: Path, on_notice: Callable[[str], None]) -> None:
    """Stop the postmaster of `pgdata` that outlived the AgentOS which started it."""
    pid = _locked_by(pgdata / "postmaster.pid")
    if pid is None or not _is_postmaster(pid, pgdata):
        return
    on_notice(f"stopping the PostgreSQL left behind by an earlier run (process {pid})")
    for step, patience in _STEPS:
        with suppress(ProcessLookupError):
            os.kill(pid, step)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await wait_pid(pid)
                return


def remove_stale_lock(lock: Path, pgdata: Path) -> None:
    """Remove a lock file whose pid now belongs to something else, or that holds none.

    PostgreSQL copes with a pid that is gone, but refuses to start when the number was taken over
    by another process, which is common in containers.
    """
    pid = _locked_by(lock)
    if pid is None or (Path(f"/proc/{pid}").exists() and not _is_postmaster(pid, pgdata)):
        lock.unlink(missing_ok=True)


def quit_backends(cluster: str, uid: int) -> None:
    """End the backends of a dead postmaster.

    They end by themselves once they wait for a client, but one busy with a long statement would
    keep the shared memory, and so the restart, for as long as that takes.
    """
    title = f"postgres: {cluster}: ".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if entry.stat().st_uid == uid and (entry / "cmdline").read_bytes().startswith(title):
                os.kill(int(entry.name), signal.SIGQUIT)


def _locked_by(lock: Path) -> int | None:
    try:
        return abs(int(lock.read_text().split("\n", 1)[0]))
    except (FileNotFoundError, ValueError):
        return None


def _is_postmaster(pid: int, pgdata: Path) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(argv[0])).name == "postgres" and os.fsencode(pgdata) in argv
