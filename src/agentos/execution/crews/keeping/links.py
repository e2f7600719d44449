"""The ways out of a team's sandbox: unix sockets in its run directory, led on by the worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

_CHUNK = 256 * 1024
_CONNECT_SECONDS = 5.0
# What is in the sandbox must not use up the worker's sockets.
_MOST_CONNECTIONS = 128
_PORTS = {"nats": 4222, "tls": 4222, "http": 80, "https": 443}

Address = tuple[str, int]


def addresses_of(url: str) -> list[Address]:
    """Where a URL leads, or each of several that are separated by commas."""
    found = []
    for each in url.split(","):
        parts = urlsplit(each.strip())
        found.append((parts.hostname or "127.0.0.1", parts.port or _PORTS[parts.scheme]))
    return found


@asynccontextmanager
async def link(socket: Path, addresses: Sequence[Address], uid: int | None) -> AsyncIterator[None]:
    """Leads whoever connects to the socket on to the first address that answers."""
    open_tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        open_tasks.add(task)
        try:
            if len(open_tasks) <= _MOST_CONNECTIONS:
                await _lead(reader, writer, addresses)
        finally:
            open_tasks.discard(task)
            writer.close()

    _remove(socket)
    server = await asyncio.start_unix_server(serve, socket, limit=_CHUNK)
    try:
        _give(socket, uid)
        yield
    finally:
        server.close()
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)
        _remove(socket)


def _remove(socket: Path) -> None:
    socket.unlink(missing_ok=True)


def _give(socket: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(socket, uid, -1)
    socket.chmod(0o600)


async def _lead(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, addresses: Sequence[Address]
) -> None:
    for host, port in addresses:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                far_reader, far_writer = await asyncio.open_connection(host, port, limit=_CHUNK)
            break
    else:
        return  # the sidecar tries again
    async with AsyncExitStack() as stack:
        stack.callback(far_writer.close)
        outward = asyncio.create_task(_pump(reader, far_writer))
        inward = asyncio.create_task(_pump(far_reader, writer))
        stack.callback(outward.cancel)
        stack.callback(inward.cancel)
        # The far side's end is the end; that of the near side only says that it has no more to ask.
        await inward


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
