"""A stream on its way to the caller: passed through as it is, or translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

import msgspec

from agentos.integrations.models.conversation import (
    Broken,
    Finished,
    Started,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    Usage,
)
from agentos.integrations.models.wires import sse
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    StreamMeter,
    StreamReader,
    Translating,
    Wire,
)
from agentos.integrations.models.wires.registry import TRANSLATING

_CHARACTERS_PER_TOKEN = 4

# An error's name or its type; responses without one say null. Within a text, the quotes would be
# escaped.
_ERROR = re.compile(rb'"error"(?!\s*+:\s*+null)')
_FAILED = b"response.failed"


class Passage(Protocol):
    """What the router needs to know of a stream while it carries it."""

    @property
    def usage(self) -> Usage | None: ...

    @property
    def delivered(self) -> bool:
        """Whether anything has gone by that a second start would repeat."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the stream said that it is over."""
        ...

    def broken(self) -> Broken | None:
        """An error that the provider reported in the opening, or at the end, of its stream."""
        ...

    def carry(self, data: bytes) -> bytes: ...

    def estimate(self) -> int:
        """Output tokens so far, by their length."""
        ...


class PassThrough:
    """The provider's bytes are the caller's bytes."""

    __slots__ = ("_before", "_early", "_last", "_meter", "_opening", "_wire")

    def __init__(self, wire: Wire, glance: Glance):
        self._meter: StreamMeter = wire.meter(glance)
        self._wire = TRANSLATING[wire.name]
        # Reads until something is said: up to there another provider can still take over.
        self._opening: StreamReader | None = self._wire.reader()
        self._early: Broken | None = None
        # The last two chunks: an event may be cut in two.
        self._before = b""
        self._last = b""

    @property
    def usage(self) -> Usage | None:
        return self._meter.usage

    @property
    def delivered(self) -> bool:
        return self._opening is None

    @property
    def ended(self) -> bool:
        return self._meter.ended

    def carry(self, data: bytes) -> bytes:
        if self._opening is not None:
            self._read_opening(self._opening, data)
        self._before, self._last = self._last, data
        return self._meter.pass_on(data)

    def _read_opening(self, reader: StreamReader, data: bytes) -> None:
        # One at a time: what comes after the first word is the caller's to understand, not ours.
        for piece in sse.pieces(data):
            for event in reader.feed(piece):
                if isinstance(event, Broken):
                    self._early = event
                    return
                if isinstance(event, TextDelta | ThinkingDelta | ToolStarted | ToolDelta):
                    self._opening = None
                    return

    def broken(self) -> Broken | None:
        # Not read as it goes by: only the end of a stream that was cut says why.
        if self._early is not None:
            return self._early
        last = self._before + self._last
        return _find_break(self._events(last)) if self._may_be_broken(last) else None

    def _may_be_broken(self, last: bytes) -> bool:
        # From behind is faster, and most streams have none.
        if last.rfind(b'"error"') >= 0 and _ERROR.search(last) is not None:
            return True
        # It need not say of which error.
        return not self._meter.ended and _FAILED in last

    def _events(self, last: bytes) -> Iterator[StreamEvent]:
        """What can be read of the end. Each event by itself, for what it builds on is gone."""
        for event in sse.split(last):
            with suppress(MalformedAnswer):
                yield from self._wire.reader().feed(event)

    def estimate(self) -> int:
        return self._meter.estimate()


class Translated:
    """The provider's events, said again in the caller's dialect."""

    __slots__ = ("_broken", "_characters", "_mask", "_reader", "_writer", "delivered", "usage")

    def __init__(
        self,
        provider: Translating,
        face: Translating,
        glance: Glance,
        mask: Callable[[str], str],
    ):
        self._reader = provider.reader()
        self._writer = face.writer(glance)
        self._mask = mask
        self._characters = 0
        self.usage: Usage | None = None
        self.delivered = False
        self._broken: Broken | None = None

    @property
    def ended(self) -> bool:
        return self._reader.ended

    def carry(self, data: bytes) -> bytes:
        events = [self._fit_to_be_said(event) for event in self._reader.feed(data)]
        for event in events:
            self._note(event)
        return b"".join([self._writer.write(event) for event in events])

    def broken(self) -> Broken | None:
        return self._broken

    def estimate(self) -> int:
        return -(-self._characters // _CHARACTERS_PER_TOKEN)

    def _fit_to_be_said(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, Broken):
            return msgspec.structs.replace(event, message=self._mask(event.message))
        return event

    def _note(self, event: StreamEvent) -> None:
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                self.delivered = True
                self._characters += len(text)
            case ToolStarted(name=text) | ToolDelta(arguments=text):
                self.delivered = True
                self._characters += len(text)
            # None at all means that nobody said.
            case Started(usage=usage) | Finished(usage=usage) if usage.total:
                self.usage = usage
            case Broken():
                self._broken = event
            case _:
                pass


def _find_break(events: Iterable[StreamEvent]) -> Broken | None:
    return next((event for event in events if isinstance(event, Broken)), None)


def passage(
    provider: Wire, face: Wire, glance: Glance, mask: Callable[[str], str] = str
) -> Passage:
    """`mask` takes the provider's key out of its error messages."""
    if provider is face:
        return PassThrough(face, glance)
    return Translated(TRANSLATING[provider.name], TRANSLATING[face.name], glance, mask)
