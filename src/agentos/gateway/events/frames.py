"""An event as it leaves: encoded once, shared by all clients."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.gateway.events.protocol import framed


class _Head(msgspec.Struct):
    """The only fields of an envelope that delivery looks at."""

    seq: int
    type: str


_head = msgspec.json.Decoder(_Head)


class Frame:
    """One JSON document and its place in the stream. `seq` is None if it has no place there."""

    __slots__ = ("_framed", "_sse", "data", "seq", "type")

    def __init__(self, seq: int | None, event_type: str, data: bytes):
        self.seq = seq
        self.type = event_type
        self.data = data
        self._framed: bytes | None = None
        self._sse: bytes | None = None

    @property
    def framed(self) -> bytes:
        """As a WebSocket message."""
        if self._framed is None:
            self._framed = framed(self.data)
        return self._framed

    @property
    def sse(self) -> bytes:
        """As a server-sent event."""
        if self._sse is None:
            position = b"" if self.seq is None else b"id: %d\n" % self.seq
            self._sse = b"%bevent: %b\ndata: %b\n\n" % (position, self.type.encode(), self.data)
        return self._sse


def parse(payload: bytes) -> Frame:
    """The frame in a message from the bus; raises msgspec.DecodeError if it holds none."""
    head = _head.decode(payload)
    if b"\n" in payload:
        # Line breaks separate events on the wire; inside of one they are only white space.
        payload = msgspec.json.format(payload, indent=-1)
    return Frame(head.seq, head.type, payload)


def truncated(oldest: int) -> Frame:
    """Tells a client that what it asked for is gone: delivery goes on with `oldest`."""
    return _control("history.truncated", None, oldest=oldest)


def live(after: int) -> Frame:
    """Tells a client that it has everything up to `after`, and gets the rest as it happens."""
    return _control("stream.live", after, after=after)


def dropped(reason: str, after: int) -> Frame:
    """The last words of an event stream; `after` is where to go on."""
    data = msgspec.json.encode({"type": "stream.dropped", "reason": reason, "after": after})
    return Frame(None, "dropped", data)


def _control(event_type: str, seq: int | None, **fields: Any) -> Frame:
    return Frame(seq, event_type, msgspec.json.encode({"type": event_type, **fields}))
