"""The embedded stack and server processes for benchmarks, in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentos.kernel.installation import (
    Addresses,
    embedded_engines,
    prepare_database,
)
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings


@dataclass(frozen=True)
class Stack:
    settings: Settings
    secret_key: bytes
    where: Addresses

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "AGENTOS_DATA_DIR": str(self.settings.data_dir),
            "AGENTOS_LOG_LEVEL": "error",
        }


@contextmanager
def data_directory() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="aos-bench-", dir="/tmp"))
    place.chmod(0o711)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@asynccontextmanager
async def stack() -> AsyncIterator[Stack]:
    """Real engines with real syncing to disk, as `agentos up` runs them."""
    with data_directory() as place:
        settings = Settings(data_dir=place)
        key = load_secret_key(settings)
        async with embedded_engines(settings, key, lambda _: None) as where:
            await prepare_database(settings, key, where, lambda _: None)
            yield Stack(settings, key, where)


@contextmanager
def process(
    argv: list[str], env: dict[str, str], *, ready: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process on the second core; the load and the engines take what is left."""
    command = ["taskset", "-c", "1", sys.executable, *argv]
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    try:
        _wait_for(ready, child)
        yield child
    finally:
        child.terminate()
        child.wait(15)


def _wait_for(url: str, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and child.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{url} never answered")


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
