"""An HTTP client that connects only where its routes lead."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cache
from types import TracebackType
from typing import Any

import httpcore2
import httpx2

from agentos.integrations.tools.errors import HostRefused, HostUnreachable
from agentos.integrations.tools.routes import Routes

_CONNECT_SECONDS = 10.0
# Not counted: a stream of events may live for hours without being an oversized answer.
_EVENT_STREAM = b"text/event-stream"


class AnswerTooLong(httpx2.StreamError):
    """An answer is longer than this client reads."""


def http_client(
    routes: Routes, *, read_seconds: float, most_bytes: int, headers: dict[str, str] | None = None
) -> httpx2.AsyncClient:
    """A client without redirects, cookies of its own account, or proxies of this machine."""
    return httpx2.AsyncClient(
        transport=_RoutedTransport(routes, most_bytes),
        headers=headers,
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=read_seconds),
        follow_redirects=False,
        trust_env=False,
    )


@cache
def _tls() -> ssl.SSLContext:
    # Reading the machine's certificates takes tens of milliseconds.
    return ssl.create_default_context()


class _RoutedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the address that was checked; TLS still asks for the name."""

    def __init__(self, routes: Routes):
        self._routes = routes
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        last: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in await self._routes.addresses(host, port):
            try:
                return await self._plain.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise HostUnreachable(f"{host}:{port} does not answer.") from last

    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)


class _RoutedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, routes: Routes, most_bytes: int):
        self._most_bytes = most_bytes
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(), network_backend=_RoutedBackend(routes)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        url = request.url
        with _as_httpx():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        kinds = [value for name, value in answer.headers if name.lower() == b"content-type"]
        endless = any(kind.lower().startswith(_EVENT_STREAM) for kind in kinds)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Counted(answer.stream, None if endless else self._most_bytes),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def __aexit__(
        self,
        _kind: type[BaseException] | None = None,
        _error: BaseException | None = None,
        _trace: TracebackType | None = None,
    ) -> None:
        await self.aclose()


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, up to a number of them."""

    def __init__(self, stream: Any, most: int | None):
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        with _as_httpx():
            async for part in self._stream:
                seen += len(part)
                if self._most is not None and seen > self._most:
                    raise AnswerTooLong(f"the answer is longer than {self._most} bytes")
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    """Failures of the connection as those of the client, which knows them by the same names."""
    try:
        yield
    except (HostRefused, HostUnreachable) as error:
        raise httpx2.ConnectError(error.message) from error
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        raise getattr(httpx2, type(error).__name__, httpx2.TransportError)(str(error)) from error
