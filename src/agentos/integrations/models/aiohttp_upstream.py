"""The HTTP client towards providers for those behind a proxy, on aiohttp."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import NoReturn

import aiohttp
from yarl import URL

from agentos.integrations.models.hosts import Hosts, guarded_socket
from agentos.integrations.models.upstream import UpstreamLost, UpstreamTimeout

_CONNECT_SECONDS = 10.0
# Providers close idle connections after a minute or more; we do it first, so that a request is
# rarely sent into one just being closed.
_KEEP_ALIVE_SECONDS = 30.0
_DEFAULT_SILENCE = 60.0
_LOST = (aiohttp.ClientError, OSError)


class AiohttpAnswer:
    """An answer of a provider whose body is still arriving."""

    __slots__ = ("_response", "status")

    def __init__(self, response: aiohttp.ClientResponse):
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

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
        content = self._response.content
        try:
            while True:
                chunk = await content.readany()
                if not chunk:
                    return
                yield chunk
        except TimeoutError:
            raise UpstreamTimeout from None
        except _LOST as error:
            _lost(error)


class _Exchange:
    """One request and its answer. A class and not a generator, for a tenth of the cost."""

    __slots__ = ("_body", "_headers", "_method", "_response", "_session", "_timeout", "_url")

    def __init__(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
    ):
        self._session = session
        self._method = method
        self._url = URL(url, encoded=True)
        self._headers = headers
        self._body = body
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=timeout
        )
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> AiohttpAnswer:
        try:
            try:
                self._response = await self._request()
            except aiohttp.ServerDisconnectedError:
                # Nearly always a kept connection that the other side had just closed, unread.
                self._response = await self._request()
        except TimeoutError:
            raise UpstreamTimeout from None
        except _LOST as error:
            _lost(error)
        return AiohttpAnswer(self._response)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._response is not None:
            # Closes the connection unless the body was read to its end: that is what tells a
            # provider to stop generating.
            self._response.release() if self._response.content.at_eof() else self._response.close()

    async def _request(self) -> aiohttp.ClientResponse:
        return await self._session.request(
            self._method,
            self._url,
            headers=self._headers,
            data=self._body,
            timeout=self._timeout,
            # A redirect would carry the key to wherever it points.
            allow_redirects=False,
        )


class AiohttpUpstream:
    def __init__(self, hosts: Hosts = "any"):
        self._hosts = hosts
        self._open: aiohttp.ClientSession | None = None

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> _Exchange:
        return _Exchange(self._session(), method, url, headers, body, timeout or _DEFAULT_SILENCE)

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()

    def _session(self) -> aiohttp.ClientSession:
        # Not in the constructor: aiohttp wants to be made inside the running loop.
        if self._open is None:
            self._open = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_KEEP_ALIVE_SECONDS,
                    socket_factory=guarded_socket(self._hosts),
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                # Usage is read from the bytes as they pass, so they must not be compressed.
                headers={"Accept-Encoding": "identity"},
                skip_auto_headers=("User-Agent",),
                trust_env=True,
            )
        return self._open


def _lost(error: Exception) -> NoReturn:
    # The class says enough (refused, reset, no such host); texts may quote the request.
    raise UpstreamLost(type(error).__name__) from None
