"""Worker processes, ours and others', and what they and the engines cost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import usage
from bench.stack import Stack

_STOP_SECONDS = 15


@contextmanager
def command(
    argv: Sequence[str], env: Mapping[str, str], *, out: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, ended in order with the block; what it writes is appended to the two files."""
    with out.open("ab") as stdout, log.open("ab") as stderr:
        child = subprocess.Popen(argv, env=env, stdout=stdout, stderr=stderr)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def commands(
    many: Sequence[Sequence[str]], env: Mapping[str, str], *, out: Path, log: Path
) -> Iterator[list[int]]:
    """The process ids of several at once, which are also told to stop at once."""
    with ExitStack() as stack:
        children = [stack.enter_context(command(argv, env, out=out, log=log)) for argv in many]
        try:
            yield [child.pid for child in children]
        finally:
            for child in children:
                child.terminate()


AGENTOS_WORKER = (sys.executable, "-m", "agentos.cli.main", "worker")


def worker_environment(running: Stack, *, sessions: int | None = None) -> dict[str, str]:
    """As `agentos worker` is started; `sessions` is how many it takes at once, if not as usual."""
    env = running.environment()
    return env if sessions is None else {**env, "AGENTOS_WORKER_SESSIONS": str(sessions)}


def cpu(*pids: int) -> float:
    """Seconds that processes and everything under them have taken."""
    return sum(each.cpu_seconds for pid in pids for each in usage.tree(pid).values())


def nats_cpu() -> float:
    ours = usage.tree(os.getpid()).values()
    return sum(each.cpu_seconds for each in ours if each.command == "nats-server")


def load_of_machine() -> str:
    """What else the machine does; a figure taken above two is not comparable with a calm one."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
