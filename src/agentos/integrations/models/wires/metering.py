"""What the meters of all event streams share."""

from __future__ import annotations

import re

from agentos.integrations.models.conversation import (
    TextDelta,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    Usage,
)
from agentos.integrations.models.wires import sse
from agentos.integrations.models.wires.base import MalformedAnswer, StreamReader

# So much of a stream is kept to estimate its tokens by, should it end before it says.
SAMPLE_BYTES = 32 * 1024
# A token is about so many characters, over languages and vendors.
CHARACTERS_PER_TOKEN = 4

# Within a text, the quotes would be escaped.
USAGE = re.compile(rb'"usage"\s*:\s*\{')


class Sample:
    """The beginning of a stream, and how long all of it was."""

    __slots__ = ("_bytes", "_chunks", "_total")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        if self._bytes < SAMPLE_BYTES:
            self._bytes += len(data)
            self._chunks.append(data)

    def tokens(self, reader: StreamReader) -> int:
        """Output tokens of the whole stream, reckoned from its beginning."""
        if not self._bytes:
            return 0
        try:
            events = reader.feed(b"".join(self._chunks))
        except MalformedAnswer:
            events = []
        characters = deltas = 0
        for event in events:
            match event:
                case TextDelta(text=text) | ThinkingDelta(text=text) | ToolDelta(arguments=text):
                    characters += len(text)
                    deltas += 1
                case ToolStarted(name=name):
                    characters += len(name)
                case _:
                    pass
        # No vendor sends less than a token at a time.
        tokens = max(-(-characters // CHARACTERS_PER_TOKEN), deltas)
        return -(-tokens * self._total // self._bytes)


class EventMeter:
    """Lets a stream of events pass and looks only at those that can matter.

    Those are the ones that tell usage and, by the wire's `end` mark, the end; a wire reads them in
    `_see`.
    """

    __slots__ = ("_blocks", "_end", "_reader", "_sample", "ended", "usage")

    def __init__(self, end: bytes, reader: StreamReader) -> None:
        self.usage: Usage | None = None
        self.ended = False
        self._blocks = sse.Blocks()
        self._end = end
        self._reader = reader
        self._sample = Sample()

    def pass_on(self, data: bytes) -> bytes:
        """Raises MalformedAnswer if an event has no end."""
        self._sample.add(data)
        block = self._blocks.feed(data)
        if block:
            for start, end in sse.around(block, USAGE):
                self._see(block[start:end])
            self._look_for_end(block)
        return data

    def estimate(self) -> int:
        return self._sample.tokens(self._reader)

    def _look_for_end(self, block: bytes) -> None:
        # From behind, where the end is; what is before may only talk of it.
        start = len(block)
        while not self.ended and (place := block.rfind(self._end, 0, start)) >= 0:
            start, end = sse.bounds(block, place)
            self._see(block[start:end])

    def _see(self, event: bytes) -> None:
        raise NotImplementedError


class NoStream:
    """The meter of wires whose answers never stream."""

    __slots__ = ("ended", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.ended = True

    def pass_on(self, data: bytes) -> bytes:
        return data

    def estimate(self) -> int:
        return 0
