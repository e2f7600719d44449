"""From a stream of events to the whole answer."""

from __future__ import annotations

from collections.abc import Iterable

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Finished,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    ToolUse,
)
from agentos.integrations.models.wires.base import MalformedAnswer


class StreamBroken(Exception):
    """A stream ended with an error instead of an answer."""

    def __init__(self, broken: Broken):
        self.broken = broken
        super().__init__(broken.message)


def fold(events: Iterable[StreamEvent]) -> Answer:
    """The answer that these events are. Raises StreamBroken, and MalformedAnswer if one is missing."""
    started: Started | None = None
    finished: Finished | None = None
    parts: dict[int, Text | Thinking | ToolUse] = {}
    for event in events:
        match event:
            case Started():
                started = event
            case Finished():
                finished = event
            case Broken():
                raise StreamBroken(event)
            case _:
                parts[event.index] = _grown(parts.get(event.index), event)
    if started is None or finished is None:
        raise MalformedAnswer("a stream without its beginning or its end")
    return Answer(
        id=started.id,
        model=started.model,
        parts=[parts[index] for index in sorted(parts)],
        finish=finished.finish,
        usage=finished.usage,
    )


def _grown(
    part: Text | Thinking | ToolUse | None,
    event: TextDelta | ThinkingDelta | ToolStarted | ToolDelta,
) -> Text | Thinking | ToolUse:
    match part, event:
        case None, TextDelta():
            return Text(event.text)
        case Text(), TextDelta():
            return Text(part.text + event.text)
        case None, ThinkingDelta():
            return Thinking(event.text, event.signature)
        case Thinking(), ThinkingDelta():
            return Thinking(part.text + event.text, event.signature or part.signature)
        case None, ToolStarted():
            return ToolUse(event.id, event.name, "")
        case ToolUse(), ToolDelta():
            return ToolUse(part.id, part.name, part.arguments + event.arguments)
    raise MalformedAnswer(f"part {event.index} of a stream changes its kind")
