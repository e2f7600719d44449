"""Server processes on one core and what drives them on the other, the same for all that are compared."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DRIVER_CORE, SERVER_CORE = 0, 1


@contextmanager
def pinned(
    argv: list[str],
    *,
    core: int,
    port: int,
    log: Path,
    env: Mapping[str, str],
    patience: float = 30,
) -> Iterator[int]:
    """The process id of a command that listens on `port`; what it prints goes to `log`."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *argv], env=env, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, child, log, patience)
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_for(port: int, child: subprocess.Popen[bytes], log: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    said = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{child.args!r} never listened on port {port}: {said}")
