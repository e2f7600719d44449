"""A model server that answers at once and notes when: what a call to it costs is what is around it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENTS: list[dict[str, object]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "bench",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]
_STREAM = b"".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in _EVENTS
)
_STREAMED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + f"{len(_STREAM):x}\r\n".encode()
    + _STREAM
    + b"\r\n0\r\n\r\n"
)
_OTHER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class ModelServer:
    """`asked` and `answered` say when the call with a mark came, and when its last byte went."""

    url: str = ""
    asked: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                came = time.perf_counter()
                if b"/messages" not in head.split(b"\r\n", 1)[0] or b'"stream":true' not in body:
                    writer.write(_OTHER)
                    continue
                writer.write(_STREAMED)
                await writer.drain()
                self._note(body, came)
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            writer.close()

    def _note(self, body: bytes, came: float) -> None:
        # The newest mark is in its own call and in no earlier one.
        mark = self.marks[-1] if self.marks else ""
        if mark and mark.encode() in body and mark not in self.asked:
            self.asked[mark] = came
            self.answered[mark] = time.perf_counter()


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    served = ModelServer()
    server = await asyncio.start_server(served._serve, "127.0.0.1", 0, limit=32 * 1024 * 1024)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
