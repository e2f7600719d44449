"""Chat completions, whole and as a stream, read into answers and written from them."""

from __future__ import annotations

import time
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
    Usage,
)
from agentos.integrations.models.wires import openai_chat_usage, openai_errors, sse
from agentos.integrations.models.wires.base import MalformedAnswer
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.openai_chat_usage import ChatUsage

# What an error inside a stream counts as that has no status of its own.
_BROKEN_STATUS = 500

_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_USE,
    "function_call": Finish.TOOL_USE,
    "content_filter": Finish.FILTERED,
}
_FINISH_REASONS = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_USE: "tool_calls",
    Finish.FILTERED: "content_filter",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    """A message, or a bit of one."""

    # Mistral's reasoning models answer a list of parts.
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    # Two names for one thing: DeepSeek's and vLLM's, and OpenRouter's, Groq's and Ollama's.
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[_Call] | None = None

    def pieces(self) -> list[Text | Thinking]:
        pieces: list[Text | Thinking] = []
        thought = self.reasoning_content or self.reasoning
        if isinstance(thought, str) and thought:
            pieces.append(Thinking(thought))
        if isinstance(self.content, str):
            pieces.append(Text(self.content))
        elif self.content is not None:
            pieces += [_listed_piece(piece) for piece in self.content]
        if self.refusal:
            pieces.append(Text(self.refusal))
        return [piece for piece in pieces if piece.text]


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    """An answer, or a chunk of one."""

    id: str = ""
    model: str = ""
    choices: list[_Choice] = []
    usage: ChatUsage | None = None
    error: Any = None


_COMPLETION = msgspec.json.Decoder(_Completion)


def _decode(data: bytes) -> _Completion:
    try:
        return _COMPLETION.decode(data)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not a chat completion: {error}") from None


def _listed_piece(piece: dict[str, Any]) -> Text | Thinking:
    if piece.get("type") != "thinking":
        return Text(str(piece.get("text") or ""))
    thought = piece.get("thinking")
    if isinstance(thought, list):
        thought = "".join(str(part.get("text", "")) for part in thought if isinstance(part, dict))
    return Thinking(str(thought or ""))


# Whole answers


def read(body: bytes) -> Answer:
    """Raises MalformedAnswer."""
    completion = _decode(body)
    if not completion.choices or completion.choices[0].message is None:
        raise MalformedAnswer("a chat completion without a choice")
    choice = completion.choices[0]
    message = choice.message
    assert message is not None
    calls = [_tool_use(call) for call in message.tool_calls or []]
    return Answer(
        id=completion.id,
        model=completion.model,
        parts=[*message.pieces(), *calls],
        finish=_finish(choice.finish_reason, used_tools=bool(calls)),
        usage=completion.usage.read() if completion.usage else Usage(),
    )


def _tool_use(call: _Call) -> ToolUse:
    function = call.function or _Function()
    return ToolUse(call.id or "", function.name or "", function.arguments or "")


def _finish(reason: str | None, *, used_tools: bool) -> Finish:
    finish = _FINISHES.get(reason or "stop", Finish.STOP)
    # Some vendors stop for a tool and call it a stop.
    return Finish.TOOL_USE if finish is Finish.STOP and used_tools else finish


def write(answer: Answer) -> bytes:
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    thought = "".join(part.text for part in answer.parts if isinstance(part, Thinking))
    calls = [_written_call(part) for part in answer.parts if isinstance(part, ToolUse)]
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    message["refusal"] = None
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISH_REASONS[answer.finish],
    }
    return msgspec.json.encode(
        {
            "id": answer.id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": answer.model,
            "choices": [choice],
            "usage": openai_chat_usage.written(answer.usage),
        }
    )


def _written_call(call: ToolUse) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def stream_error(error_class: str, code: str, message: str) -> bytes:
    error = openai_errors.error_object(_BROKEN_STATUS, error_class, code, message)
    return sse.frame(msgspec.json.encode({"error": error}))


# Streams


class ChatReader:
    """Reads a chat stream."""

    def __init__(self) -> None:
        self._cutter = sse.Cutter()
        self._started = False
        self._usage = Usage()
        self._reason: str | None = None
        self._next_index = 0
        # The text or thinking that goes on, and its index.
        self._open: tuple[type, int] | None = None
        # Tool calls by the vendor's index: the vendor's id and our index.
        self._calls: dict[int, tuple[str, int]] = {}
        self.ended = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for event in self._cutter.feed(data):
            chunk = sse.parse(event)[1]
            if chunk.startswith(b"[DONE]"):
                events += self._finished()
            elif chunk and not self.ended:
                events += self._read(_decode(chunk))
        return events

    def _finished(self) -> list[StreamEvent]:
        if self.ended:
            return []
        self.ended = True
        return [Finished(_finish(self._reason, used_tools=bool(self._calls)), self._usage)]

    def _read(self, chunk: _Completion) -> list[StreamEvent]:
        if chunk.error is not None:
            return [_broken(chunk.error)]
        events: list[StreamEvent] = []
        if not self._started:
            self._started = True
            events.append(Started(chunk.id, chunk.model))
        if chunk.usage is not None:
            self._usage = chunk.usage.read()
        for choice in chunk.choices:
            if choice.index == 0:
                events += self._choice(choice)
        return events

    def _choice(self, choice: _Choice) -> list[StreamEvent]:
        self._reason = choice.finish_reason or self._reason
        if choice.delta is None:
            return []
        events: list[StreamEvent] = []
        for piece in choice.delta.pieces():
            index = self._index(type(piece))
            delta = TextDelta if isinstance(piece, Text) else ThinkingDelta
            events.append(delta(index, piece.text))
        for call in choice.delta.tool_calls or []:
            events += self._call(call)
        return events

    def _index(self, kind: type) -> int:
        """The index of the part that goes on, or of a new one if the kind changes."""
        if self._open is None or self._open[0] is not kind:
            self._open = (kind, self._take_index())
        return self._open[1]

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def _call(self, call: _Call) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        function = call.function or _Function()
        key = self._key(call)
        known = self._calls.get(key)
        if known is None:
            self._open = None
            known = self._calls[key] = (call.id or "", self._take_index())
            events.append(ToolStarted(known[1], call.id or "", function.name or ""))
        if function.arguments:
            events.append(ToolDelta(known[1], function.arguments))
        return events

    def _key(self, call: _Call) -> int:
        """Which of the calls it goes on with. Some vendors leave the index out, or say 0 always."""
        last = max(self._calls, default=0)
        key = last if call.index is None else call.index
        known = self._calls.get(key)
        if known is not None and call.id and known[0] and call.id != known[0]:
            return last + 1
        return key


def _broken(error: Any) -> Broken:
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else _BROKEN_STATUS
    error_class, message = openai_errors.error_class_of(status, {"error": error})
    return Broken(error_class, message)


class ChatWriter:
    """Writes a chat stream."""

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._head: dict[str, Any] = {}
        # Chat counts tool calls apart from texts.
        self._calls: dict[int, int] = {}

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case Started():
                self._head = {
                    "id": event.id,
                    "object": "chat.completion.chunk",
                    "created": int(time.time()),
                    "model": event.model,
                }
                return self._delta({"role": "assistant", "content": ""})
            case TextDelta():
                return self._delta({"content": event.text})
            case ThinkingDelta():
                return self._delta({"reasoning_content": event.text}) if event.text else b""
            case ToolStarted():
                return self._tool_started(event)
            case ToolDelta():
                return self._call(event.index, {"function": {"arguments": event.arguments}})
            case Finished():
                return self._finished(event)
            case Broken():
                return stream_error(event.kind, event.kind, event.message)

    def _tool_started(self, event: ToolStarted) -> bytes:
        self._calls[event.index] = len(self._calls)
        function = {"name": event.name, "arguments": ""}
        return self._call(event.index, {"id": event.id, "type": "function", "function": function})

    def _call(self, index: int, fields: dict[str, Any]) -> bytes:
        return self._delta({"tool_calls": [{"index": self._calls[index], **fields}]})

    def _finished(self, event: Finished) -> bytes:
        written = self._delta({}, _FINISH_REASONS[event.finish])
        if self._wants_usage:
            usage = openai_chat_usage.written(event.usage)
            written += self._chunk({"choices": [], "usage": usage})
        return written + sse.frame(b"[DONE]")

    def _delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return self._chunk({"choices": [choice]})

    def _chunk(self, fields: dict[str, Any]) -> bytes:
        return sse.frame(msgspec.json.encode({**self._head, **fields}))
