"""From a stream of events to the whole answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    parts: dict[int, _Growing] = {}
    for event in events:
        match event:
            case Started():
                started = event
            case Finished():
                finished = event
            case Broken():
                raise StreamBroken(event)
            case _:
                parts.setdefault(event.index, _Growing()).add(event)
    if started is None or finished is None:
        raise MalformedAnswer("a stream without its beginning or its end")
    return Answer(
        id=started.id,
        model=started.model,
        parts=[parts[index].grown() for index in sorted(parts)],
        finish=finished.finish,
        usage=finished.usage,
    )


@dataclass(slots=True)
class _Growing:
    """A part of which more may come."""

    kind: type[Text | Thinking | ToolUse] | None = None
    tool: ToolStarted | None = None
    signature: str | None = None
    pieces: list[str] = field(default_factory=list)

    def add(self, event: TextDelta | ThinkingDelta | ToolStarted | ToolDelta) -> None:
        match event:
            case TextDelta():
                self._be(Text)
                self.pieces.append(event.text)
            case ThinkingDelta():
                self._be(Thinking)
                self.pieces.append(event.text)
                self.signature = event.signature or self.signature
            case ToolStarted():
                self._be(ToolUse)
                self.tool = event
            case ToolDelta():
                self._be(ToolUse)
                self.pieces.append(event.arguments)

    def _be(self, kind: type[Text | Thinking | ToolUse]) -> None:
        if self.kind is None:
            self.kind = kind
        elif self.kind is not kind:
            raise MalformedAnswer("a part of a stream changes its kind")

    def grown(self) -> Text | Thinking | ToolUse:
        text = "".join(self.pieces)
        if self.kind is Text:
            return Text(text)
        if self.kind is Thinking:
            return Thinking(text, self.signature)
        if self.tool is None:
            raise MalformedAnswer("a tool's arguments without the tool")
        return ToolUse(self.tool.id, self.tool.name, text)
