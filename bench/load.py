"""A load generator small enough not to be what is measured: HTTP/1.1 on bare asyncio streams."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import httptools


@dataclass(frozen=True)
class Load:
    requests: int
    seconds: float
    latencies: list[float]

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    def percentile(self, part: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000


class _Connection(asyncio.Protocol):
    """One keep-alive connection that sends the next request when an answer is complete."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None]):
        self._requests = requests
        self._done = done
        self._parser = httptools.HttpResponseParser(self)
        self._sent = 0.0
        self.latencies: list[float] = []
        self.wrong: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send(next(self._requests))

    def _send(self, request: bytes) -> None:
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        if self._parser.get_status_code() != 200:
            self.wrong = self._parser.get_status_code()
        request = next(self._requests, None) if self.wrong is None else None
        if request is not None:
            self._parser = httptools.HttpResponseParser(self)
            self._send(request)
        else:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("closed in the middle"))


async def get(
    port: int, path: str, *, headers: dict[str, str], concurrency: int, seconds: float
) -> Load:
    """Asks for `path` again and again over `concurrency` connections; all must answer 200."""
    request = _request(path, headers)
    until = time.perf_counter() + seconds

    def again() -> Iterator[bytes]:
        yield request
        while time.perf_counter() < until:
            yield request

    return await _send_all(port, path, [again() for _ in range(concurrency)])


async def get_in_turn(port: int, path: str, headers: list[dict[str, str]]) -> Load:
    """Asks for `path` once with each of the headers, over one connection; all must answer 200."""
    return await _send_all(port, path, [iter([_request(path, each) for each in headers])])


def _request(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: bench", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _send_all(port: int, path: str, streams: list[Iterator[bytes]]) -> Load:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    connections = []
    futures = []
    for requests in streams:
        done: asyncio.Future[None] = loop.create_future()
        connection = _Connection(requests, done)
        await loop.create_connection(lambda c=connection: c, "127.0.0.1", port)  # type: ignore[misc]
        connections.append(connection)
        futures.append(done)
    await asyncio.gather(*futures)
    wrong = {connection.wrong for connection in connections} - {None}
    if wrong:
        raise RuntimeError(f"{path} on port {port} answered {wrong}")
    latencies = [latency for connection in connections for latency in connection.latencies]
    return Load(len(latencies), time.perf_counter() - started, latencies)


def median_rate(loads: list[Load]) -> float:
    return statistics.median(load.per_second for load in loads)
