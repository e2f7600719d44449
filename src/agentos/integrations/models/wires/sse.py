"""Server-sent events: cutting a stream into them, reading one, writing one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentos.integrations.models.wires.base import MalformedAnswer

# No vendor sends an event of this size; a stream without blank lines must not fill the memory.
MOST_EVENT = 32 * 1024 * 1024

# The standard also allows lines that end in a bare CR, which no vendor sends.
_BLANK_LINE = re.compile(rb"\n\r?\n")
# The same in any piece of a stream, which may begin with what is left of a blank line.
_END = re.compile(rb"\n\r?\n|\A\r?\n")


class Blocks:
    """Cuts a stream after its last whole event, so that what comes out is whole events only."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The events that are complete by now, byte for byte and in one piece; often none.

        Raises MalformedAnswer if an event grows without an end.
        """
        rest = self._rest
        if not rest:
            end = _last_end(data, 0)
            if end == len(data):
                return data
            rest += data[end:]
            return data[:end]
        # A blank line may have been cut through: at most two of its bytes have come before.
        start = max(0, len(rest) - 2)
        rest += data
        if len(rest) > MOST_EVENT:
            raise MalformedAnswer("an event of the stream has no end")
        end = _last_end(rest, start)
        block = bytes(rest[:end])
        del rest[:end]
        return block

    def waits_with(self, beginning: bytes) -> bool:
        """Whether the event that is not complete begins so."""
        return self._rest.startswith(beginning)

    def take(self) -> bytes:
        """What has come of an event that is not complete; it is then no longer waited for."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class Cutter:
    """Cuts a stream into whole events, each with the blank line that ends it, byte for byte."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks = Blocks()

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete by now. Raises MalformedAnswer for one without an end."""
        return split(self._blocks.feed(data))


def split(block: bytes) -> list[bytes]:
    """The events of a block, each with its blank line; together they are the block."""
    events: list[bytes] = []
    start = 0
    for found in _BLANK_LINE.finditer(block):
        events.append(block[start : found.end()])
        start = found.end()
    if start < len(block):
        events.append(block[start:])
    return events


def pieces(data: bytes) -> Iterator[bytes]:
    """A piece of a stream, cut after each event that ends in it."""
    start = 0
    while (found := _END.search(data, start)) is not None:
        yield data[start : found.end()]
        start = found.end()
    if start < len(data):
        yield data[start:]


def around(block: bytes, mark: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Where the events that hold a mark begin and end; the others are not even cut out."""
    at = 0
    while (found := mark.search(block, at)) is not None:
        start, at = bounds(block, found.start(), at)
        yield start, at


def bounds(block: bytes, place: int, after: int = 0) -> tuple[int, int]:
    """Where the event at a place begins, from `after` on, and ends."""
    blank = _BLANK_LINE.search(block, place)
    end = len(block) if blank is None else blank.end()
    return max(after, _last_end(block, after, place)), end


def parse(event: bytes) -> tuple[bytes, bytes]:
    """The name of an event (empty if it has none) and its data."""
    name = b""
    data: list[bytes] = []
    for line in event.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return name, data[0] if len(data) == 1 else b"\n".join(data)


def frame(data: bytes, name: str | None = None) -> bytes:
    """One event. `data` is JSON as msgspec writes it, so it holds no line end."""
    if name is None:
        return b"data: " + data + b"\n\n"
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def _last_end(data: bytes | bytearray, start: int, stop: int | None = None) -> int:
    """Where the last whole event before `stop` ends; 0 if there is none from `start` on."""
    bare = data.rfind(b"\n\n", start, stop)
    # Not all over again: only one that comes later ends later.
    with_cr = data.rfind(b"\n\r\n", max(start, bare), stop)
    return max(bare + 2 if bare >= 0 else 0, with_cr + 3 if with_cr >= 0 else 0)
