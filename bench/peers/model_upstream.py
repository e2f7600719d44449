"""A model provider that costs next to nothing: OpenAI's wire on a bare protocol, finished answers.

`python -m bench.peers.model_upstream PORT`. The model says how it answers: `bench-paced` streams a
chunk every 2 ms, as models do, every other model as fast as its reader takes them. Each chunk is
written by itself, so that whoever stands between has to read it by itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import msgspec
import uvloop

CHUNKS = 200
PACED_CHUNKS = 50
PACE_SECONDS = 0.002

MODEL, PACED_MODEL = "bench", "bench-paced"
TEXT = " word" * 10
USAGE = {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}


class Asked(msgspec.Struct):
    model: str
    stream: bool = False
    stream_options: dict[str, Any] | None = None


_asked = msgspec.json.Decoder(Asked)


def _answer() -> bytes:
    """About 600 bytes of body, as a short answer has."""
    body = json.dumps(
        {
            "id": "chatcmpl-bench0000000000000000000000",
            "object": "chat.completion",
            "created": 1_750_000_000,
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": TEXT * 5, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": USAGE,
            "system_fingerprint": "fp_bench",
        }
    ).encode()
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req_bench\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def _chunk(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
    event = {
        "id": "chatcmpl-bench0000000000000000000000",
        "object": "chat.completion.chunk",
        "created": 1_750_000_000,
        "model": MODEL,
        "choices": choices,
        "usage": usage,
    }
    return _framed(b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode())


def _framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _choice(delta: dict[str, str], finish: str | None = None) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "finish_reason": finish}]


ANSWER = _answer()
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)
# LiteLLM breaks off a stream that repeats itself.
PIECES = [_chunk(_choice({"content": f"{number:4} {TEXT}"})) for number in range(CHUNKS)]
LAST_PIECE = _chunk(_choice({}, "stop"))
USAGE_PIECE = _chunk([], USAGE)
END = _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Stream:
    """What one answer still has to send."""

    def __init__(self, transport: asyncio.Transport, pieces: int, with_usage: bool):
        self._transport = transport
        self._left = pieces
        self._last = LAST_PIECE + (USAGE_PIECE if with_usage else b"") + END
        transport.write(STREAM_HEAD)

    def send_one(self) -> bool:
        """One chunk; False when that was the last."""
        self._left -= 1
        self._transport.write(PIECES[self._left] if self._left else self._last)
        return self._left > 0


class Pump:
    """Gives every stream one chunk a turn of the loop; a turn is what makes each write its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._streams: dict[Connection, Stream] = {}
        self._turning = False

    def add(self, connection: Connection, stream: Stream) -> None:
        self._streams[connection] = stream
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def take(self, connection: Connection) -> Stream | None:
        return self._streams.pop(connection, None)

    def _turn(self) -> None:
        for connection, stream in list(self._streams.items()):
            if not stream.send_one():
                self._streams.pop(connection, None)
        if self._streams:
            self._loop.call_soon(self._turn)
        else:
            self._turning = False


class Connection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, pump: Pump):
        self._loop = loop
        self._pump = pump
        self._rest = b""
        self._paused: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._pump.take(self)

    def pause_writing(self) -> None:
        self._paused = self._pump.take(self)

    def resume_writing(self) -> None:
        if self._paused is not None:
            self._pump.add(self, self._paused)
            self._paused = None

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        self._rest = b""
        head_end = data.find(b"\r\n\r\n")
        if head_end < 0:
            self._rest = data
        elif data.startswith(b"GET "):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        elif len(data) < (end := head_end + 4 + _content_length(data[:head_end])):
            self._rest = data
        else:
            self._answer(_asked.decode(memoryview(data)[head_end + 4 : end]))

    def _answer(self, asked: Asked) -> None:
        if not asked.stream:
            self._transport.write(ANSWER)
            return
        with_usage = bool(asked.stream_options and asked.stream_options.get("include_usage"))
        if asked.model == PACED_MODEL:
            self._pace(Stream(self._transport, PACED_CHUNKS, with_usage))
        else:
            self._pump.add(self, Stream(self._transport, CHUNKS, with_usage))

    def _pace(self, stream: Stream) -> None:
        if not self._transport.is_closing() and stream.send_one():
            self._loop.call_later(PACE_SECONDS, self._pace, stream)


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    pump = Pump(loop)
    server = await loop.create_server(lambda: Connection(loop, pump), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
