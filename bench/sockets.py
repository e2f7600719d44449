"""A WebSocket client that costs next to nothing: it reads frames by hand and answers pings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

# The buffer, and where in it the payload of one text frame begins and ends.
OnText = Callable[[bytes, int, int], None]
OnLost = Callable[[], None]

_TEXT = 0x81  # a whole text message in one frame
_PING = 0x89
# Clients have to mask what they send; a mask of zeros leaves it as it is.
_PONG, _MASKED = 0x8A, 0x80


class Socket(asyncio.Protocol):
    def __init__(self, port: int, path: str, credential: str, on_text: OnText, on_lost: OnLost):
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Authorization: Bearer {credential}\r\n\r\n"
        ).encode()
        self._on_text = on_text
        self._on_lost = on_lost
        self._rest = b""
        self._open = False
        self._closing = False
        self.live: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.live.done():
            self.live.set_exception(ConnectionError(f"{error or self._rest!r}"))
        elif not self._closing:
            self._on_lost()

    def close(self) -> None:
        self._closing = True
        self._transport.close()

    def _pong(self, payload: bytes) -> None:
        self._transport.write(bytes([_PONG, _MASKED | len(payload), 0, 0, 0, 0]) + payload)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        place = 0
        if not self._open:
            # A refusal stays in the rest, for the error that reports the end of the connection.
            self._open = data.startswith(b"HTTP/1.1 101") and b"\r\n\r\n" in data
            if not self._open:
                self._rest = data
                return
            place = data.index(b"\r\n\r\n") + 4
        size = len(data)
        while size - place >= 2:
            length, head = data[place + 1], 2
            if length == 126:
                length, head = int.from_bytes(data[place + 2 : place + 4]), 4
            elif length == 127:
                length, head = int.from_bytes(data[place + 2 : place + 10]), 10
            end = place + head + length
            if size < place + head or size < end:
                break
            if data[place] == _TEXT and self.live.done():
                self._on_text(data, place + head, end)
            elif data[place] == _TEXT:
                self.live.set_result(None)  # the first message says so
            elif data[place] == _PING:
                self._pong(data[place + head : end])
            place = end
        self._rest = data[place:]


async def connect(
    port: int, path: str, credential: str, on_text: OnText, on_lost: OnLost
) -> Socket:
    """A socket that is on the live stream."""
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(
        lambda: Socket(port, path, credential, on_text, on_lost), "127.0.0.1", port
    )
    await socket.live
    return socket
