"""Load on an AI proxy from a process of its own, small enough not to be what is measured.

`python -m bench.model_load` reads a `Task` as JSON from each line of its input and answers with a
line of `Done`. `generator()` starts it and talks to it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, cast

import msgspec
import uvloop

_LAST_CHUNK = b"\r\n0\r\n\r\n"
# A contestant that answers nothing for so long has failed.
PATIENCE_SECONDS = 30.0


class Task(msgspec.Struct, frozen=True):
    """Send `request` over and over on `concurrency` connections for so long."""

    port: int
    request: str
    concurrency: int
    seconds: float


class Done(msgspec.Struct, frozen=True):
    """All answers were complete and 200, or `wrong` says what came instead."""

    answered: int
    seconds: float
    chunks: int
    # In microseconds: to the first byte of the body, and to the end of it.
    first: list[int]
    whole: list[int]
    wrong: str = ""


def request(path: str, credential: str, body: bytes) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {credential}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body.decode()}"
    )


class _Connection(asyncio.Protocol):
    """Sends the next request when an answer is complete, until the time is over."""

    def __init__(self, task: Task, until: float, done: asyncio.Future[None]):
        self._request = task.request.encode()
        self._until = until
        self._done = done
        self._parts: list[bytes] = []
        self._length = -1
        self._got = 0
        self._sent = 0.0
        self._first_at = 0.0
        self.first: list[int] = []
        self.whole: list[int] = []
        self.chunks = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the connection was closed in the middle of an answer ({error})")

    def _send(self) -> None:
        self._parts, self._length, self._got, self._first_at = [], -1, 0, 0.0
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._length == -1:
            data = b"".join(self._parts) + data
            self._parts.clear()
            head_end = data.find(b"\r\n\r\n")
            if head_end < 0:
                self._parts.append(data)
                return
            head = data[:head_end].lower()
            if not head.startswith(b"http/1.1 200"):
                self._fail(data.decode(errors="replace"))
                return
            _, sized, rest = head.partition(b"\r\ncontent-length:")
            self._length = int(rest.partition(b"\r\n")[0]) if sized else -2
            # Keeps the end of the head, so that an empty answer also ends like a chunked one.
            data = data[head_end + 2 :]
            self._got = -2
        self._got += len(data)
        self._parts.append(data)
        if self._got > 0 and not self._first_at:
            self._first_at = time.perf_counter()
        if self._is_complete(data):
            self._finish()

    def _is_complete(self, data: bytes) -> bool:
        if self._length >= 0:
            return self._got >= self._length
        if len(data) >= len(_LAST_CHUNK):
            return data.endswith(_LAST_CHUNK)
        return b"".join(self._parts[-len(_LAST_CHUNK) :]).endswith(_LAST_CHUNK)

    def _finish(self) -> None:
        now = time.perf_counter()
        self.whole.append(round((now - self._sent) * 1e6))
        self.first.append(round((self._first_at - self._sent) * 1e6))
        if self._length == -2:
            body = _unframed(b"".join(self._parts))
            self.chunks += body.count(b"data: {")
            if not body.endswith(b"data: [DONE]\n\n"):
                self._fail(f"a stream ended without [DONE]: {body[-300:]!r}")
                return
        if now < self._until:
            self._send()
            return
        self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
        self._transport.close()

    def _fail(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError(reason[:2000]))
            self._transport.close()


def _unframed(body: bytes) -> bytes:
    """A chunked body without its frames; it begins with the end of the head."""
    parts: list[bytes] = []
    place = 2
    while size := int(body[place : (start := body.index(b"\r\n", place))], 16):
        parts.append(body[start + 2 : start + 2 + size])
        place = start + size + 4
    return b"".join(parts)


async def _perform(task: Task) -> Done:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    connections: list[_Connection] = []
    futures: list[asyncio.Future[None]] = []
    wrong = ""
    for _ in range(task.concurrency):
        done: asyncio.Future[None] = loop.create_future()
        connection = _Connection(task, started + task.seconds, done)
        connections.append(connection)
        futures.append(done)
        await loop.create_connection(lambda c=connection: c, "127.0.0.1", task.port)  # type: ignore[misc]
    try:
        await asyncio.wait_for(asyncio.gather(*futures), task.seconds + PATIENCE_SECONDS)
    except (ConnectionError, TimeoutError) as error:
        wrong = str(error) or f"no answer for {PATIENCE_SECONDS:.0f} seconds"
    whole = [latency for each in connections for latency in each.whole]
    first = [latency for each in connections for latency in each.first]
    chunks = sum(each.chunks for each in connections)
    return Done(len(whole), time.perf_counter() - started, chunks, first, whole, wrong)


async def _serve(lines: IO[bytes], answers: IO[bytes]) -> None:
    for line in lines:
        answers.write(msgspec.json.encode(await _perform(msgspec.json.decode(line, type=Task))))
        answers.write(b"\n")
        answers.flush()


class Generator:
    def __init__(self, child: asyncio.subprocess.Process):
        self._input = cast(asyncio.StreamWriter, child.stdin)
        self._output = cast(asyncio.StreamReader, child.stdout)

    async def perform(self, task: Task) -> Done:
        """Raises RuntimeError unless every answer was complete and 200."""
        self._input.write(msgspec.json.encode(task) + b"\n")
        done = msgspec.json.decode(await self._output.readline(), type=Done)
        if done.wrong:
            raise RuntimeError(f"port {task.port} answered: {done.wrong}")
        return done


@asynccontextmanager
async def generator(core: int) -> AsyncIterator[Generator]:
    child = await asyncio.create_subprocess_exec(
        *("taskset", "-c", str(core), sys.executable, "-m", "bench.model_load"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,  # a line of many latencies
    )
    try:
        yield Generator(child)
    finally:
        cast(asyncio.StreamWriter, child.stdin).close()
        await child.wait()


if __name__ == "__main__":
    uvloop.run(_serve(sys.stdin.buffer, sys.stdout.buffer))
