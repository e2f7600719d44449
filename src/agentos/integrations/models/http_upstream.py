"""The HTTP/1.1 client towards providers: small, because every model call goes through it.

A general client was the largest single cost of a call. This one does what calls to models need, and
no more: keep-alive, TLS, streaming in both framings, time-outs by silence, cancelling by closing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from types import TracebackType
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from agentos.integrations.models.hosts import Hosts, guarded_socket
from agentos.integrations.models.upstream import UpstreamLost, UpstreamTimeout

_CONNECT_SECONDS = 10.0
# Providers close idle connections after a minute or more; we do it first, so that a request is
# rarely sent into one just being closed.
_KEEP_ALIVE_SECONDS = 30.0
_DEFAULT_SILENCE = 60.0
# So much of a body may wait to be read before the socket is left alone.
_HIGH_WATER = 256 * 1024
_MOST_HEADERS = 200


class _Origin(NamedTuple):
    secure: bool
    host: str
    port: int
    # As the Host header says it.
    name: str


class _Connection(asyncio.Protocol):
    """One connection, used by one exchange at a time."""

    def __init__(self, origin: _Origin, forget: Callable[[_Connection], None]):
        self.origin = origin
        self._forget = forget
        self._transport: asyncio.Transport | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.reused = False
        self.lost: BaseException | None = None
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._paused = False
        self._heard_at = self._loop.time()
        self._headers: list[tuple[bytes, bytes]] = []
        self._framed = False
        self._until_eof = False
        self._unasked = False
        self._keep_alive = False
        self.status = 0
        self.heard = False
        self.started = False
        self.complete = False
        self.silent = False

    # Towards the exchange

    def send(self, request: bytes, silence: float) -> None:
        assert self._transport is not None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._heard_at = self._loop.time()
        self._silence = silence
        self._alarm = self._loop.call_later(silence, self._check_silence)
        self._transport.write(request)

    async def wait(self) -> None:
        """Until something has changed; raises what went wrong."""
        if self.silent:
            raise UpstreamTimeout
        if self.lost is not None:
            raise UpstreamLost(type(self.lost).__name__)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def header(self, name: str) -> str | None:
        wanted = name.lower().encode()
        for key, value in self._headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None

    def take(self) -> bytes | None:
        """What has arrived of the body; None if nothing is waiting."""
        if not self._chunks:
            return None
        if len(self._chunks) == 1:
            data = self._chunks.popleft()
        else:
            data = b"".join(self._chunks)
            self._chunks.clear()
        self._waiting_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def end(self) -> bool:
        """Ends an exchange; says whether the connection can be used again."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        transport = self._transport
        good = (
            self.complete
            and self.lost is None
            and not self._until_eof
            and not self._unasked
            and not self._chunks
            and transport is not None
            and not transport.is_closing()
            and self._keep_alive
        )
        if not good:
            self.close()
        return good

    def rest(self) -> None:
        """Waits for the next exchange, for a while."""
        self._reset()
        self.reused = True
        self._expiry = self._loop.call_later(_KEEP_ALIVE_SECONDS, self.close)

    def close(self) -> None:
        for timer in (self._alarm, self._expiry):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            # Not close(): what is written and not yet sent is of no use to anybody.
            self._transport.abort()

    def _check_silence(self) -> None:
        # One timer for an exchange, put off when it goes off too early: cheaper than one a chunk.
        left = self._heard_at + self._silence - self._loop.time()
        if left > 0 or self._paused:
            self._alarm = self._loop.call_later(max(left, 0.01), self._check_silence)
            return
        self.silent = True
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if self.silent:
                waiter.set_exception(UpstreamTimeout())
            elif self.lost is not None and not self.complete:
                waiter.set_exception(UpstreamLost(type(self.lost).__name__))
            else:
                waiter.set_result(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are not of that class, only of its kind.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        self._heard_at = self._loop.time()
        if self.complete or self._alarm is None:
            # Nobody asked: what comes now must not be taken for the answer to the next request.
            self._unasked = True
            self.lost = ConnectionAbortedError()
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                self.lost = error
                self.close()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._until_eof and error is None:
            # A body without a length ends with the connection.
            self.complete = True
        self.lost = self.lost or error or ConnectionResetError()
        self._forget(self)
        self._wake()

    # httptools

    def on_message_begin(self) -> None:
        if self.complete:
            self._unasked = True
        else:
            self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) >= _MOST_HEADERS:
            raise ValueError("too many headers")
        self._headers.append((name, value))
        if len(name) in (14, 17) and name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self._framed = False
            return  # 100 Continue and the like: the answer is still to come
        self.started = True
        self._keep_alive = self._parser.should_keep_alive()
        self._until_eof = not self._framed and self.status not in (204, 304)

    def on_body(self, data: bytes) -> None:
        if self.complete:
            return
        self._chunks.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.started:
            self.complete = True


class HttpAnswer:
    """An answer of a provider whose body is still arriving."""

    __slots__ = ("_connection", "status")

    def __init__(self, connection: _Connection):
        self._connection = connection
        self.status = connection.status

    def header(self, name: str) -> str | None:
        return self._connection.header(name)

    async def body(self, most: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > most:
                raise UpstreamLost(f"the answer is longer than {most} bytes")
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        connection = self._connection
        while True:
            data = connection.take()
            if data is not None:
                yield data
            elif connection.complete:
                return
            else:
                await connection.wait()


class _Exchange:
    """One request and its answer."""

    __slots__ = ("_connection", "_origin", "_pool", "_request", "_silence")

    def __init__(self, pool: HttpUpstream, origin: _Origin, request: bytes, silence: float):
        self._pool = pool
        self._origin = origin
        self._request = request
        self._silence = silence
        self._connection: _Connection | None = None

    async def __aenter__(self) -> HttpAnswer:
        while True:
            self._connection = connection = await self._pool.connection(self._origin)
            try:
                connection.send(self._request, self._silence)
                while not connection.started:
                    await connection.wait()
            except UpstreamLost:
                connection.end()
                # A kept connection that the other side had closed without reading from it.
                if connection.reused and not connection.heard:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            return HttpAnswer(connection)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Closing it is what tells a provider to stop generating.
        if self._connection is not None and self._connection.end():
            self._pool.keep(self._connection)


class HttpUpstream:
    def __init__(self, hosts: Hosts = "any", tls: ssl.SSLContext | None = None):
        """`tls`: whom to trust, if not those whom the system trusts."""
        self._make_socket = guarded_socket(hosts)
        self._tls = tls
        self._idle: dict[_Origin, list[_Connection]] = {}
        self._all: set[_Connection] = set()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> _Exchange:
        origin, path = _place(url)
        request = _written(method, path, origin.name, headers, body)
        return _Exchange(self, origin, request, timeout or _DEFAULT_SILENCE)

    async def close(self) -> None:
        for connection in list(self._all):
            connection.close()

    async def connection(self, origin: _Origin) -> _Connection:
        """One that is idle, or a new one. Raises UpstreamLost, UpstreamTimeout."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.lost is None:
                return connection
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await self._connect(origin)
        except TimeoutError:
            raise UpstreamTimeout from None
        except OSError as error:
            # The class says enough (refused, no such host, bad certificate).
            raise UpstreamLost(type(error).__name__) from None

    def keep(self, connection: _Connection) -> None:
        """Takes back a connection that can be used again."""
        connection.rest()
        self._idle.setdefault(connection.origin, []).append(connection)

    async def _connect(self, origin: _Origin) -> _Connection:
        loop = asyncio.get_running_loop()
        places = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        failure: OSError = OSError("no address")
        for place in places:
            try:
                made = self._make_socket(place)
            except OSError as error:
                failure = error
                continue
            try:
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(made, place[4])
                _, connection = await loop.create_connection(
                    lambda: _Connection(origin, self._forget),
                    sock=made,
                    ssl=(self._tls or _system_trust()) if origin.secure else None,
                    server_hostname=origin.host if origin.secure else None,
                )
            except OSError as error:
                made.close()
                failure = error
                continue
            except BaseException:
                made.close()
                raise
            self._all.add(connection)
            return connection
        raise failure

    def _forget(self, connection: _Connection) -> None:
        self._all.discard(connection)
        idle = self._idle.get(connection.origin, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.origin, None)


@cache
def _system_trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _place(url: str) -> tuple[_Origin, str]:
    known = _PLACES.get(url)
    if known is None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        path = parts.path or "/"
        if parts.query:
            path += f"?{parts.query}"
        known = _Origin(secure, host, port, parts.netloc.rpartition("@")[2]), path
        if len(_PLACES) >= 4096:
            _PLACES.clear()
        _PLACES[url] = known
    return known


# A tenant's providers have a handful of URLs, and splitting one takes longer than all the rest.
_PLACES: dict[str, tuple[_Origin, str]] = {}


def _written(
    method: str, path: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "accept-encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise UpstreamLost("a header that cannot be sent")
    head = "\r\n".join(lines) + "\r\n\r\n"
    return head.encode("latin-1") + (body or b"")
