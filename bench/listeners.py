"""Many WebSocket clients in one process of their own, which counts what reaches them.

`python -m bench.listeners PORT PATH CREDENTIAL COUNT` prints `ready` once all are live. Then each
line `N` on its input means: wait until each has N more events, and print what that took as JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvloop

from bench.percentiles import percentile
from bench.sockets import connect

# Events carry the time at which they were sent; the clock is the same in all processes.
STAMP = re.compile(rb"@(\d{19})")


def stamp() -> str:
    return f"@{time.monotonic_ns():019d}"


@dataclass(frozen=True)
class Arrival:
    """From the first to the last delivery, and how long after their sending they came."""

    seconds: float
    p50_ms: float
    p99_ms: float


class Listeners:
    """The other end of the process."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    async def expect(self, events: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % events)
        await self._line()

    async def arrival(self) -> Arrival:
        return Arrival(**json.loads(await self._line()))

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        if not line:
            raise RuntimeError("the listeners have stopped")
        return line


@asynccontextmanager
async def listeners(port: int, path: str, credential: str, count: int) -> AsyncIterator[Listeners]:
    # On the first core: the second is for the server.
    command = ["taskset", "-c", "0", sys.executable, "-m", "bench.listeners"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *(str(port), path, credential, str(count)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    running = Listeners(process)
    try:
        await running._line()
        yield running
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class _Counter:
    def __init__(self, clients: int):
        self._clients = clients
        self.expect(0)

    def expect(self, events: int) -> None:
        self._left = events * self._clients
        self._first = 0
        self._latencies: list[float] = []
        self.done = asyncio.Event()

    def lose(self) -> None:
        raise SystemExit("a client was disconnected")

    def receive(self, data: bytes, start: int, end: int) -> None:
        now = time.monotonic_ns()
        self._first = self._first or now
        self._left -= data.count(b'"seq"', start, end)
        # The first event of a message waited longest; the others would cost more than they tell.
        if sent := STAMP.search(data, start, end):
            self._latencies.append((now - int(sent[1])) / 1e9)
        if self._left <= 0:
            self._last = now
            self.done.set()

    def arrival(self) -> dict[str, float]:
        assert self._left == 0, f"{-self._left} deliveries too many"
        return {
            "seconds": (self._last - self._first) / 1e9,
            "p50_ms": percentile(self._latencies, 0.5) * 1000,
            "p99_ms": percentile(self._latencies, 0.99) * 1000,
        }


async def _listen(port: int, path: str, credential: str, count: int) -> None:
    counter = _Counter(count)
    sockets = [
        await connect(port, path, credential, counter.receive, counter.lose) for _ in range(count)
    ]
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        counter.expect(int(line))
        print("armed", flush=True)
        await counter.done.wait()
        print(json.dumps(counter.arrival()), flush=True)
    for socket in sockets:
        socket.close()


if __name__ == "__main__":
    uvloop.run(_listen(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
