"""The egress proxy: the one way out of a sandbox, and only to hosts that are allowed.

It speaks what every HTTP client speaks to a proxy: CONNECT for a tunnel, and whole URLs for plain
HTTP. It listens on a unix socket of its own for each command, which the sandbox binds inside.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentos.integrations.tools.errors import HostRefused, HostUnreachable
from agentos.integrations.tools.routes import Routes

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
STREAMS_GREETING = b"AGENTOS STREAMS\r\n\r\n"

_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_CHUNK = 64 * 1024
_MOST_CONNECTIONS = 256
_MOST_REMEMBERED = 20
# Meant for the proxy, or for this connection only.
_HOP_HEADERS = frozenset(
    (
        "connection",
        "proxy-connection",
        "keep-alive",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
        "host",
    )
)


class _BadRequest(Exception):
    """What arrived is not a request to a proxy; the text says why."""

    def __init__(self, status: str, text: str):
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Request:
    host: str
    port: int
    # What is sent to the host first; None: a tunnel was asked for.
    head: bytes | None
    body_bytes: int = 0


@dataclass(slots=True)
class Egress:
    """A proxy that is listening."""

    socket: Path
    routes: Routes
    # The hosts that were asked for and refused, to tell the model about.
    refused: dict[str, None] = field(default_factory=dict)
    # Takes the one connection that is not for the proxy, but the command's standard streams.
    streams: asyncio.Future[Streams] | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_CONNECTIONS:
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def close(self) -> None:
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The other side may go away at any moment; there is nobody left to tell.
        with suppress(OSError), closing(writer):
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            if head == STREAMS_GREETING and self.streams is not None and not self.streams.done():
                self.streams.set_result((reader, writer))
                await writer.wait_closed()
                return
            request = _parsed(head)
            far_reader, far_writer = await self._connect(request)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            return
        except _BadRequest as error:
            await _say(writer, error.status, str(error))
            return
        except HostRefused as error:
            await _say(writer, "403 Forbidden", error.message)
            return
        except HostUnreachable as error:
            await _say(writer, "502 Bad Gateway", error.message)
            return
        try:
            await _carry(request, reader, writer, far_reader, far_writer)
        finally:
            far_writer.close()

    async def _connect(self, request: _Request) -> Streams:
        try:
            addresses = await self.routes.addresses(request.host, request.port)
        except HostRefused:
            if len(self.refused) < _MOST_REMEMBERED:
                host = request.host[:100] if request.host.isprintable() else "?"
                self.refused[f"{host}:{request.port}"] = None
            raise
        for address in addresses:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(address, request.port, limit=_CHUNK)
        raise HostUnreachable(f"{request.host}:{request.port} does not answer.")


@asynccontextmanager
async def egress_at(socket: Path, routes: Routes, uid: int | None = None) -> AsyncIterator[Egress]:
    """A proxy that listens on this socket, for the account `uid` or our own."""
    egress = Egress(socket, routes)
    server = await asyncio.start_unix_server(egress.accept, socket, limit=_HEAD_BYTES)
    try:
        _give(socket, uid)
        yield egress
    finally:
        server.close()
        await egress.close()


def _give(socket: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(socket, uid, -1)
    socket.chmod(0o600)


@asynccontextmanager
async def egress_proxy(routes: Routes, uid: int | None = None) -> AsyncIterator[Egress]:
    """A proxy of its own for one command; `uid` is the account the command runs as."""
    directory = Path(tempfile.mkdtemp(prefix="egress-"))
    try:
        if uid is not None:
            os.chown(directory, uid, -1)
        async with egress_at(directory / "egress.sock", routes, uid) as egress:
            yield egress
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _parsed(head: bytes) -> _Request:
    try:
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        raise _BadRequest("400 Bad Request", "This is not an HTTP request.") from None
    if not (method.isascii() and method.isalpha()):
        raise _BadRequest("400 Bad Request", "This is not an HTTP request.")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise _BadRequest("505 HTTP Version Not Supported", "Only HTTP/1.1 is spoken here.")
    if method == "CONNECT":
        host, port = _place("//" + target)
        if port is None:
            raise _BadRequest("400 Bad Request", "CONNECT needs a host and a port.")
        return _Request(host, port, None)
    if not target.lower().startswith("http://"):
        raise _BadRequest("400 Bad Request", "This is a proxy: ask for a whole http:// URL.")
    host, port = _place(target)
    return _plain_request(method, target, host, port or 80, lines)


def _place(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port == 0:
        raise _BadRequest("400 Bad Request", "There is no host in this request.")
    return host, port


def _plain_request(method: str, target: str, host: str, port: int, lines: list[str]) -> _Request:
    """A request as it is sent on: for its host, and the only one on its connection.

    Its body must have a length. If anything could follow it, it would be a request to the same
    machine in the name of another host.
    """
    parts = urlsplit(target)
    place = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [f"{method} {path} HTTP/1.1", f"Host: {place}"]
    lengths: list[str] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise _BadRequest("400 Bad Request", "A header line is malformed.")
        if name.lower() == "transfer-encoding":
            raise _BadRequest("411 Length Required", "Send the body with a Content-Length.")
        if name.lower() == "content-length":
            lengths.append(value.strip())
        if name.lower() not in _HOP_HEADERS:
            kept.append(line)
    if len(lengths) > 1 or not all(length.isascii() and length.isdigit() for length in lengths):
        raise _BadRequest("400 Bad Request", "Content-Length is malformed.")
    body_bytes = int(lengths[0]) if lengths else 0
    kept += ["Connection: close", "", ""]
    return _Request(host, port, "\r\n".join(kept).encode("latin-1"), body_bytes)


async def _carry(
    request: _Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Takes bytes both ways until the far side has ended."""
    if request.head is None:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        outward = asyncio.create_task(_pump(reader, far_writer, None))
    else:
        far_writer.write(request.head)
        outward = asyncio.create_task(_pump(reader, far_writer, request.body_bytes))
    try:
        await _pump(far_reader, writer, None)
        await writer.drain()
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int | None) -> None:
    """Moves bytes until the source ends, or `most` were moved."""
    left = most
    while left is None or left > 0:
        data = await source.read(_CHUNK if left is None else min(_CHUNK, left))
        if not data:
            break
        if left is not None:
            left -= len(data)
        sink.write(data)
        await sink.drain()
    # A tunnel's end is passed on; a plain request is over with its body and waits for the answer.
    if most is None and sink.can_write_eof():
        sink.write_eof()


async def _say(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"AgentOS: {text}\n".encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("latin-1")
        + body
    )
    await writer.drain()
