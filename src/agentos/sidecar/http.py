"""A small HTTP/1.1 client for a server on this machine: whole answers, and streams of events.

One connection for each call: there are few of them, and none is worth keeping open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
import msgspec

from agentos.sidecar.json_reading import NotJson, read_json

_READ = 64 * 1024
# Nothing that a server on this machine answers is larger.
_MOST_BYTES = 64 * 1024 * 1024


class HttpFailed(Exception):
    """The server cannot be reached, went away, or does not speak HTTP."""


class HttpRefused(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, body: bytes):
        super().__init__(f"HTTP {status}: {body[:500].decode(errors='replace')}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Speaks to one server."""

    port: int
    host: str = "127.0.0.1"
    headers: Mapping[str, str] = field(default_factory=dict)
    # How long the server may be silent before it counts as gone.
    silence: float = 60.0

    async def get(self, path: str) -> Any:
        """What the server answers, read as JSON. Raises HttpFailed, HttpRefused."""
        return await self.call("GET", path)

    async def post(self, path: str, body: Any = None) -> Any:
        """What the server answers, read as JSON; None if nothing. Raises HttpFailed, HttpRefused."""
        return await self.call("POST", path, body)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers, read as JSON; None if nothing. Raises HttpFailed, HttpRefused."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with self._exchange(method, path, data, "application/json") as exchange:
            status = await exchange.status()
            answer = await exchange.whole()
        if status >= 400:
            raise HttpRefused(status, answer)
        try:
            return read_json(answer) if answer.strip() else None
        except NotJson as error:
            raise HttpFailed(f"{method} {path} was not answered with JSON: {error}") from error

    async def events(self, path: str) -> AsyncGenerator[Any]:
        """The server-sent events of a path, each read as JSON, until the server ends the stream.
        Raises HttpFailed, HttpRefused. What is not JSON is left out."""
        async with self._exchange("GET", path, b"", "text/event-stream") as exchange:
            status = await exchange.status()
            if status >= 400:
                raise HttpRefused(status, await exchange.whole())
            reader = EventReader()
            while (data := await exchange.some()) is not None:
                for text in reader.feed(data):
                    try:
                        yield read_json(text)
                    except NotJson:
                        continue

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, body: bytes, accept: str
    ) -> AsyncGenerator[_Exchange]:
        writer = None
        try:
            async with asyncio.timeout(self.silence):
                reader, writer = await asyncio.open_connection(self.host, self.port)
            exchange = _Exchange(reader, writer, self.silence)
            headers = {
                "Host": f"{self.host}:{self.port}",
                "Connection": "close",
                "Accept": accept,
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **self.headers,
            }
            await exchange.send(h11.Request(method=method, target=path, headers=[*headers.items()]))
            await exchange.send(h11.Data(data=body))
            await exchange.send(h11.EndOfMessage())
            yield exchange
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            raise HttpFailed(f"{method} {path}: {str(error) or type(error).__name__}") from error
        finally:
            if writer is not None:
                writer.close()


class _Exchange:
    """One request and its answer on a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._silence = silence
        self._state = h11.Connection(h11.CLIENT)

    async def send(self, event: h11.Event) -> None:
        self._writer.write(self._state.send(event) or b"")
        await self._writer.drain()

    async def status(self) -> int:
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event.status_code

    async def some(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def whole(self) -> bytes:
        body = bytearray()
        while (data := await self.some()) is not None:
            body += data
            if len(body) > _MOST_BYTES:
                raise HttpFailed("the answer is too large")
        return bytes(body)

    async def _next(self) -> h11.Event | None:
        """What comes next; None when there is no more."""
        while (event := self._state.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(self._silence):
                data = await self._reader.read(_READ)
            self._state.receive_data(data)
        return event if isinstance(event, h11.Event) else None


class EventReader:
    """Finds the data of server-sent events in what comes piece by piece."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece completes."""
        found: list[bytes] = []
        self._line += piece
        if b"\n" not in piece:
            return found
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found
