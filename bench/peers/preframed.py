"""The limit: a server that writes finished WebSocket frames to all its clients, and nothing else.

`python -m bench.peers.preframed PORT`; `GET /send?events=N&per_second=R` sends N events of 256 bytes
to everybody, each event by itself; R = 0 means as fast as the clients take them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
import time
from typing import cast
from urllib.parse import parse_qs, urlsplit

import uvloop

from bench.listeners import stamp

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

clients: set[Client] = set()
paused: set[Client] = set()
resumed = asyncio.Event()


class Client(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports do not inherit from asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        clients.discard(self)
        paused.discard(self)

    def pause_writing(self) -> None:
        paused.add(self)

    def resume_writing(self) -> None:
        paused.discard(self)
        resumed.set()

    def data_received(self, data: bytes) -> None:
        if self in clients:
            return
        lines = data.split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines if b": " in line)
        if b"upgrade" in headers:
            self._accept(next(line[19:] for line in lines if line.startswith(b"Sec-WebSocket-Key")))
            return
        query = parse_qs(urlsplit(lines[0].split()[1].decode()).query)
        if query:
            asyncio.get_running_loop().create_task(
                send(int(query["events"][0]), float(query["per_second"][0]))
            )
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def _accept(self, key: bytes) -> None:
        answer = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + answer + b"\r\n\r\n" + frame(b'{"type":"stream.live"}')
        )
        clients.add(self)


def frame(payload: bytes) -> bytes:
    size = len(payload)
    head = bytes([0x81, size]) if size < 126 else b"\x81\x7e" + size.to_bytes(2)
    return head + payload


async def send(events: int, per_second: float) -> None:
    started = time.monotonic()
    for number in range(events):
        if per_second:
            await asyncio.sleep(started + number / per_second - time.monotonic())
        payload = f'{{"seq":{number},"data":"{stamp()}'.ljust(254, ".") + '"}'
        finished = frame(payload.encode())
        for client in clients:
            client.transport.write(finished)
        # One turn of the loop an event, or the loop would join the frames of several.
        await asyncio.sleep(0)
        while paused:
            resumed.clear()
            await resumed.wait()


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Client, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
