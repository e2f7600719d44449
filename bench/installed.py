"""An installation as users start it: `agentos up` in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from bench.stack import free_port

AGENTOS = str(Path(sys.executable).with_name("agentos"))


@dataclass(frozen=True)
class Installed:
    pid: int
    url: str
    api_key: str
    seconds_to_ready: float

    def environment(self) -> dict[str, str]:
        """For commands that talk to it."""
        return {**os.environ, "AGENTOS_URL": self.url, "AGENTOS_API_KEY": self.api_key}


@contextmanager
def installed(place: Path, env: Mapping[str, str] | None = None) -> Iterator[Installed]:
    """`agentos up` in this data directory, ready to serve."""
    port = free_port()
    started = time.perf_counter()
    child = subprocess.Popen(
        [AGENTOS, "up", "--port", str(port), "--json"],
        env={**os.environ, "AGENTOS_DATA_DIR": str(place), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(port, child)
        seconds = time.perf_counter() - started
        said = json.loads(cast(IO[bytes], child.stdout).readline())
        yield Installed(child.pid, said["url"], said["demo"]["api_key"], seconds)
    finally:
        child.terminate()
        child.wait(30)


def _wait_until_ready(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.01)
        finally:
            connection.close()
    raise RuntimeError("`agentos up` never became ready")
