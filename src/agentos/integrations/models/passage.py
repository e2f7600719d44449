"""A stream on its way to the caller: passed through as it is, or translated."""

from __future__ import annotations

from typing import Protocol

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
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    StreamMeter,
    Translating,
    Wire,
)
from agentos.integrations.models.wires.registry import TRANSLATING

_CHARACTERS_PER_TOKEN = 4


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

    __slots__ = ("_last", "_meter", "_opening", "_wire")

    def __init__(self, wire: Wire, glance: Glance):
        self._meter: StreamMeter = wire.meter(glance)
        self._wire = TRANSLATING[wire.name]
        self._opening = b""
        self._last = b""

    @property
    def usage(self) -> Usage | None:
        return self._meter.usage

    @property
    def delivered(self) -> bool:
        return self._meter.delivered

    @property
    def ended(self) -> bool:
        return self._meter.ended

    def carry(self, data: bytes) -> bytes:
        self._last = data
        passed = self._meter.pass_on(data)
        if not self._meter.delivered:
            self._opening += data
        return passed

    def broken(self) -> Broken | None:
        # Not read as it goes by: only an opening can still be answered by another provider, and
        # only the end of a stream that was cut says why.
        return self._find_break(self._last if self._meter.delivered else self._opening)

    def _find_break(self, data: bytes) -> Broken | None:
        try:
            events = self._wire.reader().feed(data)
        except MalformedAnswer:
            if self._meter.delivered:
                return None  # the chunk began in the middle of an event
            raise
        return next((event for event in events if isinstance(event, Broken)), None)

    def estimate(self) -> int:
        return self._meter.estimate()


class Translated:
    """The provider's events, said again in the caller's dialect."""

    __slots__ = ("_broken", "_characters", "_reader", "_writer", "delivered", "usage")

    def __init__(self, provider: Translating, face: Translating, glance: Glance):
        self._reader = provider.reader()
        self._writer = face.writer(glance)
        self._characters = 0
        self.usage: Usage | None = None
        self.delivered = False
        self._broken: Broken | None = None

    @property
    def ended(self) -> bool:
        return self._reader.ended

    def carry(self, data: bytes) -> bytes:
        events = self._reader.feed(data)
        for event in events:
            self._note(event)
        return b"".join([self._writer.write(event) for event in events])

    def broken(self) -> Broken | None:
        return self._broken

    def estimate(self) -> int:
        return -(-self._characters // _CHARACTERS_PER_TOKEN)

    def _note(self, event: StreamEvent) -> None:
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                self.delivered = True
                self._characters += len(text)
            case ToolStarted(name=text) | ToolDelta(arguments=text):
                self.delivered = True
                self._characters += len(text)
            case Started(usage=usage) if usage.total:
                self.usage = usage
            case Finished(usage=usage):
                self.usage = usage
            case Broken():
                self._broken = event
            case _:
                pass


def passage(provider: Wire, face: Wire, glance: Glance) -> Passage:
    if provider is face:
        return PassThrough(face, glance)
    return Translated(TRANSLATING[provider.name], TRANSLATING[face.name], glance)
