"""Messages, whole and as a stream, read into answers and written from them."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Finish,
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
from agentos.integrations.models.wires import anthropic_errors, anthropic_usage, sse
from agentos.integrations.models.wires.anthropic_requests import block_id, tool_use_block
from agentos.integrations.models.wires.anthropic_usage import MessageUsage
from agentos.integrations.models.wires.base import MalformedAnswer
from agentos.integrations.models.wires.decoding import UNREADABLE

_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL_USE,
    "refusal": Finish.FILTERED,
}
_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_USE: "tool_use",
    Finish.FILTERED: "refusal",
}

_PartDelta = TextDelta | ThinkingDelta | ToolStarted | ToolDelta


class _Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Message(msgspec.Struct):
    id: str = ""
    model: str = ""
    content: list[_Block] = []
    stop_reason: str | None = None
    usage: MessageUsage = msgspec.field(default_factory=MessageUsage)


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: MessageUsage | None = None
    error: Any = None


_MESSAGE = msgspec.json.Decoder(_Message)
_EVENT = msgspec.json.Decoder(_Event)


def _finish(reason: str | None) -> Finish:
    return _FINISHES.get(reason or "end_turn", Finish.STOP)


# Whole answers


def read(body: bytes) -> Answer:
    """Raises MalformedAnswer."""
    try:
        message = _MESSAGE.decode(body)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not a message: {error}") from None
    if not message.id:
        raise MalformedAnswer("a message without an id")
    parts = [part for block in message.content if (part := _part(block)) is not None]
    return Answer(
        id=message.id,
        model=message.model,
        parts=parts,
        finish=_finish(message.stop_reason),
        usage=message.usage.read(),
    )


def _part(block: _Block) -> Text | Thinking | ToolUse | None:
    """A part of the answer; None for what only Claude's own tools have to say."""
    match block.type:
        case "text":
            return Text(block.text or "")
        case "thinking":
            return Thinking(block.thinking or "", block.signature or None)
        case "tool_use":
            return ToolUse(block.id, block.name, bytes(block.input).decode())
        case _:
            return None


def write(answer: Answer) -> bytes:
    return msgspec.json.encode(
        {
            **_head(answer.id, answer.model),
            "content": [_written(part) for part in answer.parts],
            "stop_reason": _STOP_REASONS[answer.finish],
            "usage": anthropic_usage.written(answer.usage),
        }
    )


def _head(message_id: str, model: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _written(part: Text | Thinking | ToolUse) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            signature = part.signature or ""
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case ToolUse():
            return tool_use_block(part)


# Streams


class MessagesReader:
    """Reads the stream of a message."""

    def __init__(self) -> None:
        self._cutter = sse.Cutter()
        self._usage = MessageUsage()
        self._reason: str | None = None
        # Our index of each block; blocks that are not carried over have none.
        self._indexes: dict[int, int] = {}
        self.ended = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for event in self._cutter.feed(data):
            payload = sse.parse(event)[1]
            if payload and not self.ended:
                events += self._read(_decode_event(payload))
        return events

    def _read(self, event: _Event) -> list[StreamEvent]:
        match event:
            case _Event(type="message_start", message=_Message() as message):
                self._usage = message.usage
                return [Started(message.id, message.model, message.usage.read())]
            case _Event(type="content_block_start", content_block=_Block() as block):
                return self._block_started(event.index, block)
            case _Event(type="content_block_delta", delta=_Delta() as delta):
                return self._delta(event.index, delta)
            case _Event(type="message_delta"):
                self._ending(event)
                return []
            case _Event(type="message_stop"):
                self.ended = True
                return [Finished(_finish(self._reason), self._usage.read())]
            case _Event(type="error"):
                return [Broken(*anthropic_errors.broken_class({"error": event.error}))]
            case _:
                return []

    def _ending(self, event: _Event) -> None:
        if event.usage is not None:
            self._usage = self._usage.then(event.usage)
        if event.delta is not None:
            self._reason = event.delta.stop_reason or self._reason

    def _block_started(self, place: int, block: _Block) -> list[StreamEvent]:
        if block.type not in ("text", "thinking", "tool_use"):
            return []
        index = self._indexes[place] = len(self._indexes)
        if block.type == "tool_use":
            return [ToolStarted(index, block.id, block.name)]
        if block.text:
            return [TextDelta(index, block.text)]
        if block.thinking or block.signature:
            return [ThinkingDelta(index, block.thinking or "", block.signature or None)]
        return []

    def _delta(self, place: int, delta: _Delta) -> list[StreamEvent]:
        index = self._indexes.get(place)
        if index is None:
            return []
        match delta.type:
            case "text_delta" if delta.text:
                return [TextDelta(index, delta.text)]
            case "thinking_delta" if delta.thinking:
                return [ThinkingDelta(index, delta.thinking)]
            case "signature_delta" if delta.signature:
                return [ThinkingDelta(index, "", delta.signature)]
            case "input_json_delta" if delta.partial_json:
                return [ToolDelta(index, delta.partial_json)]
            case _:
                return []


def _decode_event(payload: bytes) -> _Event:
    try:
        return _EVENT.decode(payload)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not an event of a message: {error}") from None


class MessagesWriter:
    """Writes the stream of a message: one block after the other, as Anthropic does.

    Other vendors may write the arguments of several tools by turns; then a block waits until the
    one before it is complete.
    """

    def __init__(self) -> None:
        self._open: int | None = None
        # What was written of the open block's arguments, if it is a tool use.
        self._arguments: str | None = None
        self._blocks = 0
        self._closed: set[int] = set()
        self._waiting: dict[int, list[_PartDelta]] = {}

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case Started():
                message = _head(event.id, event.model)
                message["usage"] = anthropic_usage.written(event.usage)
                return _event("message_start", {"message": message})
            case Finished():
                return self._finished(event)
            case Broken():
                return anthropic_errors.stream_error(event.kind, event.kind, event.message)
            case _:
                return self._part(event)

    def _part(self, event: _PartDelta) -> bytes:
        if event.index in self._closed:
            return b""
        if event.index != self._open and (self._waiting or not self._may_close()):
            self._waiting.setdefault(event.index, []).append(event)
            return b""
        written = self._bit(event)
        while self._waiting and self._may_close():
            written += self._next()
        return written

    def _next(self) -> bytes:
        """Writes what has waited longest."""
        first = next(iter(self._waiting))
        return b"".join([self._bit(event) for event in self._waiting.pop(first)])

    def _may_close(self) -> bool:
        """Whether nothing more can come for the open block, when something else has come."""
        if self._open is None or self._arguments is None:
            return True
        try:
            msgspec.json.decode(self._arguments)
        except UNREADABLE:
            return False
        return True

    def _bit(self, event: _PartDelta) -> bytes:
        written = b""
        if event.index != self._open:
            written = self._close() + self._start(event)
        for delta in _deltas(event):
            fields = {"index": self._blocks - 1, "delta": delta}
            written += _event("content_block_delta", fields)
        if isinstance(event, ToolDelta):
            self._arguments = (self._arguments or "") + event.arguments
        return written

    def _start(self, event: _PartDelta) -> bytes:
        self._open = event.index
        self._arguments = "" if isinstance(event, ToolStarted | ToolDelta) else None
        self._blocks += 1
        fields = {"index": self._blocks - 1, "content_block": _empty_block(event)}
        return _event("content_block_start", fields)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._closed.add(self._open)
        self._open = None
        return _event("content_block_stop", {"index": self._blocks - 1})

    def _finished(self, event: Finished) -> bytes:
        written = b""
        while self._waiting:
            written += self._next()
        written += self._close()
        delta = {"stop_reason": _STOP_REASONS[event.finish], "stop_sequence": None}
        usage = anthropic_usage.written(event.usage)
        written += _event("message_delta", {"delta": delta, "usage": usage})
        return written + _event("message_stop", {})


def _empty_block(event: _PartDelta) -> dict[str, Any]:
    match event:
        case TextDelta():
            return {"type": "text", "text": ""}
        case ThinkingDelta():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolStarted():
            return {"type": "tool_use", "id": block_id(event.id), "name": event.name, "input": {}}
        case ToolDelta():
            raise MalformedAnswer("arguments of a tool use that did not begin")


def _deltas(event: _PartDelta) -> list[dict[str, Any]]:
    match event:
        case TextDelta():
            return [{"type": "text_delta", "text": event.text}]
        case ThinkingDelta():
            deltas: list[dict[str, Any]] = []
            if event.text:
                deltas.append({"type": "thinking_delta", "thinking": event.text})
            if event.signature:
                deltas.append({"type": "signature_delta", "signature": event.signature})
            return deltas
        case ToolDelta():
            return [{"type": "input_json_delta", "partial_json": event.arguments}]
        case ToolStarted():
            return []


def _event(name: str, fields: dict[str, Any]) -> bytes:
    return sse.frame(msgspec.json.encode({"type": name, **fields}), name)
