"""Answers of the Responses API, read: whole, and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

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
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import openai_errors, sse
from agentos.integrations.models.wires.base import MalformedAnswer
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.openai_responses_items import CALL, KIND, Call, Content
from agentos.integrations.models.wires.openai_responses_usage import ResponseUsage

T = TypeVar("T")

_BETWEEN_THOUGHTS = "\n\n"


class _Reason(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str = ""


class _Response(msgspec.Struct):
    id: str = ""
    model: str = ""
    status: str | None = None
    output: list[Raw] = []
    incomplete_details: _Reason | None = None
    error: _Error | None = None
    usage: ResponseUsage | None = None


class _OutputMessage(msgspec.Struct):
    content: list[Content] = []


class _ReasoningItem(msgspec.Struct):
    summary: list[Content] = []
    content: list[Content] | None = None

    @property
    def text(self) -> str:
        return _BETWEEN_THOUGHTS.join(part.text for part in self.summary or self.content or [])


_RESPONSE = msgspec.json.Decoder(_Response)
_OUTPUT_MESSAGE = msgspec.json.Decoder(_OutputMessage)
_REASONING_ITEM = msgspec.json.Decoder(_ReasoningItem)


def _answered(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not an answer of the Responses API: {error}") from error


# Whole answers


def read(body: bytes) -> Answer:
    """Raises MalformedAnswer."""
    response = _answered(_RESPONSE, body)
    if response.error is not None:
        raise MalformedAnswer(f"the response failed: {response.error.message}")
    if response.status is None:
        raise MalformedAnswer("not an answer of the Responses API: it has no status")
    items = [_read_output(raw) for raw in response.output]
    parts = [part for item, _ in items for part in item]
    return Answer(
        id=response.id,
        model=response.model,
        parts=parts,
        finish=_finish(
            response,
            used_tools=any(isinstance(part, ToolUse) for part in parts),
            refused=any(refused for _, refused in items),
        ),
        usage=response.usage.read() if response.usage else Usage(),
    )


def _read_output(raw: Raw) -> tuple[list[Text | Thinking | ToolUse], bool]:
    """The parts of an output item, and whether the model refused in it."""
    kind = _answered(KIND, raw).type
    if kind == "function_call":
        call = _answered(CALL, raw)
        return [ToolUse(call.call_id, call.name, call.arguments)], False
    if kind == "reasoning":
        text = _answered(_REASONING_ITEM, raw).text
        return [Thinking(text)] if text else [], False
    if kind == "message":
        contents = _answered(_OUTPUT_MESSAGE, raw).content
        texts = [content.text or content.refusal for content in contents]
        refused = any(content.type == "refusal" for content in contents)
        return [Text(text) for text in texts if text], refused
    return [], False


def _finish(response: _Response, *, used_tools: bool, refused: bool) -> Finish:
    if response.status == "incomplete":
        reason = response.incomplete_details and response.incomplete_details.reason
        return Finish.FILTERED if reason == "content_filter" else Finish.LENGTH
    if refused:
        return Finish.FILTERED
    return Finish.TOOL_USE if used_tools else Finish.STOP


def _error_class(error: _Error) -> tuple[ErrorClass, str]:
    # Of the codes that a stream fails with, these are about the prompt; the rest about OpenAI.
    about_prompt = (error.code or "").startswith(("invalid_", "image_", "unsupported_", "empty_"))
    decoded = {"error": {"code": error.code, "message": error.message}}
    return openai_errors.error_class_of(400 if about_prompt else 500, decoded)


# Streams


class _ItemEvent(msgspec.Struct):
    output_index: int
    item: Raw


class _DeltaEvent(msgspec.Struct):
    output_index: int
    delta: str = ""
    content_index: int = 0


class _ArgumentsDone(msgspec.Struct):
    output_index: int
    arguments: str


class _SummaryPart(msgspec.Struct):
    output_index: int
    summary_index: int


class _ResponseEvent(msgspec.Struct):
    response: _Response


class _ErrorEvent(msgspec.Struct):
    code: str | None = None
    message: str = ""
    error: _Error | None = None


_ITEM_EVENT = msgspec.json.Decoder(_ItemEvent)
_DELTA_EVENT = msgspec.json.Decoder(_DeltaEvent)
_ARGUMENTS_DONE = msgspec.json.Decoder(_ArgumentsDone)
_SUMMARY_PART = msgspec.json.Decoder(_SummaryPart)
_RESPONSE_EVENT = msgspec.json.Decoder(_ResponseEvent)
_ERROR_EVENT = msgspec.json.Decoder(_ErrorEvent)


class ResponsesReader:
    """Reads the stream of a response."""

    def __init__(self) -> None:
        self._cutter = sse.Cutter()
        self._started = False
        self.ended = False
        self._broke = False
        self._refused = False
        # Which part of the answer an item, or a content of it, is.
        self._parts: dict[tuple[int, int], int] = {}
        self._begun_tools: set[int] = set()
        self._written_tools: set[int] = set()
        self._handlers: dict[str, Callable[[bytes], list[StreamEvent]]] = {
            "response.created": self._begin,
            "response.in_progress": self._begin,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._refusal,
            "response.reasoning_summary_part.added": self._next_thought,
            "response.reasoning_summary_text.delta": self._thinking,
            "response.reasoning_text.delta": self._thinking,
            "response.output_item.added": self._item_added,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.output_item.done": self._item_done,
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._fail,
            "error": self._break,
        }

    def feed(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for event in self._cutter.feed(data):
            payload = sse.parse(event)[1]
            if not payload or payload == b"[DONE]":
                continue
            handler = self._handlers.get(_answered(KIND, payload).type)
            if handler is not None:
                events += handler(payload)
        return events

    def _part(self, item: int, content: int = 0) -> int:
        return self._parts.setdefault((item, content), len(self._parts))

    def _begin(self, payload: bytes) -> list[StreamEvent]:
        return self._start(_answered(_RESPONSE_EVENT, payload).response)

    def _start(self, response: _Response) -> list[StreamEvent]:
        if self._started:
            return []
        self._started = True
        return [Started(response.id, response.model)]

    def _text(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_DELTA_EVENT, payload)
        return [TextDelta(self._part(event.output_index, event.content_index), event.delta)]

    def _refusal(self, payload: bytes) -> list[StreamEvent]:
        self._refused = True
        return self._text(payload)

    def _thinking(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_DELTA_EVENT, payload)
        return [ThinkingDelta(self._part(event.output_index), event.delta)]

    def _next_thought(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_SUMMARY_PART, payload)
        if event.summary_index == 0:
            return []
        return [ThinkingDelta(self._part(event.output_index), _BETWEEN_THOUGHTS)]

    def _item_added(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_ITEM_EVENT, payload)
        if _answered(KIND, event.item).type != "function_call":
            return []
        return self._begin_tool(event.output_index, _answered(CALL, event.item))

    def _begin_tool(self, item: int, call: Call) -> list[StreamEvent]:
        if item in self._begun_tools:
            return []
        self._begun_tools.add(item)
        return [ToolStarted(self._part(item), call.call_id, call.name)]

    def _arguments(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_DELTA_EVENT, payload)
        return self._write_tool(event.output_index, event.delta)

    def _write_tool(self, item: int, arguments: str) -> list[StreamEvent]:
        if item not in self._begun_tools:
            raise MalformedAnswer("arguments came before the call that they are for")
        self._written_tools.add(item)
        return [ToolDelta(self._part(item), arguments)]

    def _arguments_done(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_ARGUMENTS_DONE, payload)
        return self._write_tool_once(event.output_index, event.arguments)

    def _write_tool_once(self, item: int, arguments: str) -> list[StreamEvent]:
        """All arguments at once, for servers that send no deltas."""
        if item in self._written_tools or not arguments:
            return []
        return self._write_tool(item, arguments)

    def _item_done(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_ITEM_EVENT, payload)
        if _answered(KIND, event.item).type != "function_call":
            return []
        call = _answered(CALL, event.item)
        begun = self._begin_tool(event.output_index, call)
        return begun + self._write_tool_once(event.output_index, call.arguments)

    def _end(self, payload: bytes) -> list[StreamEvent]:
        response = _answered(_RESPONSE_EVENT, payload).response
        self.ended = True
        finish = _finish(response, used_tools=bool(self._begun_tools), refused=self._refused)
        usage = response.usage.read() if response.usage else Usage()
        return [*self._start(response), Finished(finish, usage)]

    def _fail(self, payload: bytes) -> list[StreamEvent]:
        return self._broken(_answered(_RESPONSE_EVENT, payload).response.error or _Error())

    def _break(self, payload: bytes) -> list[StreamEvent]:
        event = _answered(_ERROR_EVENT, payload)
        return self._broken(event.error or _Error(event.code, event.message))

    def _broken(self, error: _Error) -> list[StreamEvent]:
        # An error may be followed by the response that failed of it.
        if self._broke:
            return []
        self._broke = True
        error_class, message = _error_class(error)
        return [Broken(error_class, message)]
