"""Answers of a model as pydantic-ai's responses, whole and bit by bit."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic_ai._thinking_part import split_content_into_text_and_thinking
from pydantic_ai.messages import (
    FinishReason,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.profiles import DEFAULT_THINKING_TAGS
from pydantic_ai.usage import RequestUsage

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
    Usage,
)
from agentos.integrations.models.native.dialects import Dialect
from agentos.integrations.models.native.errors import AnswerBrokeOff
from agentos.integrations.models.open_call import OpenCall
from agentos.integrations.models.wires import sse
from agentos.integrations.models.wires.base import MalformedAnswer
from agentos.integrations.models.wires.decoding import UNREADABLE

_FINISHES: dict[Finish, FinishReason] = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_USE: "tool_call",
    Finish.FILTERED: "content_filter",
}
# Chat's own words for an answer that the model refused to give; null if it did not.
_REFUSAL = re.compile(rb'"refusal"\s*:\s*"(?!")')
_BLANK_LINE = b"\n\n"
_REDACTED = b'"redacted_thinking"'
_REDACTED_ID = "redacted_thinking"
# The names under which chat vendors tell their thoughts; which one, they want to hear again.
_THOUGHT_FIELD = re.compile(rb'"(reasoning|reasoning_content)"\s*:\s*"')


class _Block(msgspec.Struct):
    type: str = ""
    data: str = ""


class _Message(msgspec.Struct):
    content: list[_Block] = []


class _BlockEvent(msgspec.Struct):
    content_block: _Block | None = None


_MESSAGE = msgspec.json.Decoder(_Message)
_BLOCK_EVENT = msgspec.json.Decoder(_BlockEvent)


def usage_of(usage: Usage) -> RequestUsage:
    if not usage.total:
        # None at all means that nobody said.
        return RequestUsage(unmeasured_requests=1)
    details = {"reasoning_tokens": usage.reasoning} if usage.reasoning else {}
    return RequestUsage(
        input_tokens=usage.input,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        cache_write_1h_tokens=usage.cache_write_long,
        output_tokens=usage.output,
        output_reasoning_tokens=usage.reasoning,
        details=details,
    )


def details_of(finish: Finish, call: OpenCall) -> dict[str, Any]:
    return {"finish_reason": str(finish), "target": call.target.name}


# Whole answers


def response_of(answer: Answer, body: bytes, call: OpenCall, dialect: Dialect) -> ModelResponse:
    """`body` is the answer as it came, for what an Answer does not say."""
    parts = _parts(answer, body, call.target.provider.provider.kind, dialect)
    finish, details = _FINISHES[answer.finish], details_of(answer.finish, call)
    if not dialect.claude and _REFUSAL.search(body) is not None:
        finish = "content_filter"
        details["refusal"] = "".join(p.content for p in parts if isinstance(p, TextPart))
        parts = []
    return ModelResponse(
        parts=parts,
        usage=usage_of(answer.usage),
        model_name=answer.model or call.target.model,
        provider_name=call.target.provider.provider.kind,
        provider_response_id=answer.id or None,
        provider_details=details,
        finish_reason=finish,
    )


def _parts(answer: Answer, body: bytes, kind: str, dialect: Dialect) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = []
    for part in answer.parts:
        if isinstance(part, Text):
            parts += [TextPart(part.text)] if dialect.claude else _texts(part.text, kind, dialect)
        elif isinstance(part, Thinking):
            name = None if dialect.claude else thought_field(body)
            parts.append(
                ThinkingPart(part.text, id=name, signature=part.signature, provider_name=kind)
            )
        else:
            parts.append(_tool_call(part.name, part.arguments, part.id))
    if dialect.claude and _REDACTED in body:
        _insert_redacted(parts, body, kind)
    return parts


def _tool_call(name: str, arguments: str, call_id: str) -> ToolCallPart:
    # One without an id is given one.
    return ToolCallPart(name, arguments, call_id) if call_id else ToolCallPart(name, arguments)


def _texts(text: str, kind: str, dialect: Dialect) -> list[TextPart | ThinkingPart]:
    """The text, apart from what some models think in tags within it."""
    tags = dialect.profile.get("thinking_tags", DEFAULT_THINKING_TAGS)
    if tags[0] not in text:
        return [TextPart(text)] if text else []
    parts = split_content_into_text_and_thinking(text, tags)
    for part in parts:
        if isinstance(part, ThinkingPart):
            part.id, part.provider_name = "content", kind
    return parts


def thought_field(body: bytes) -> str:
    found = _THOUGHT_FIELD.search(body)
    return found[1].decode() if found is not None else "reasoning_content"


def _insert_redacted(parts: list[ModelResponsePart], body: bytes, kind: str) -> None:
    """Puts thoughts that only Claude can read where they stood."""
    try:
        blocks = _MESSAGE.decode(body).content
    except UNREADABLE:
        return
    known = [b for b in blocks if b.type in ("text", "thinking", "tool_use", _REDACTED_ID)]
    for place, block in enumerate(known):
        if block.type == _REDACTED_ID:
            parts.insert(place, redacted(block.data, kind))


def redacted(data: str, kind: str) -> ThinkingPart:
    return ThinkingPart("", id=_REDACTED_ID, signature=data, provider_name=kind)


# Streams


@dataclass
class RouterStream(StreamedResponse):
    """An answer as it is said. Fails with AnswerBrokeOff if it ends before its end."""

    _call: OpenCall
    _dialect: Dialect
    _model: str
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._kind = self._call.target.provider.provider.kind
        self._refused = False

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        reader = self._dialect.wire.reader()
        try:
            async for piece in self._pieces():
                for said in self._hidden(piece):
                    yield said
                for event in reader.feed(piece):
                    for said in self._said(event, piece):
                        yield said
        except MalformedAnswer as error:
            raise AnswerBrokeOff(f"{self._call.target.name} answered nonsense: {error}") from error
        if not reader.ended and not self.cancelled:
            raise AnswerBrokeOff

    async def _pieces(self) -> AsyncIterator[bytes]:
        """The events of the stream, one by one, until it ends or is stopped."""
        cutter = sse.Cutter()
        async for chunk in self._call.chunks():
            if self.cancelled:
                return
            for piece in cutter.feed(chunk):
                yield piece
        # Some vendors leave out the blank line at the end.
        for piece in cutter.feed(_BLANK_LINE):
            yield piece

    def _said(self, event: StreamEvent, chunk: bytes) -> Iterator[ModelResponseStreamEvent]:
        parts = self._parts_manager
        match event:
            case TextDelta(index=index, text=text):
                yield from self._text(index, text, chunk)
            case ThinkingDelta(index=index, text=text, signature=signature):
                yield from parts.handle_thinking_delta(
                    vendor_part_id=index,
                    content=text or None,
                    id=None if self._dialect.claude else thought_field(chunk),
                    signature=signature,
                    provider_name=self._kind,
                )
            case ToolStarted(index=index, id=call_id, name=name):
                yield from parts.handle_tool_call_delta_events(
                    vendor_part_id=index, tool_name=name, args="", tool_call_id=call_id or None
                )
            case ToolDelta(index=index, arguments=arguments):
                yield from parts.handle_tool_call_delta_events(vendor_part_id=index, args=arguments)
            case Started():
                self._start(event)
            case Finished():
                self._finish(event)
            case Broken(message=message):
                raise AnswerBrokeOff(message)

    def _text(self, index: int, text: str, chunk: bytes) -> Iterator[ModelResponseStreamEvent]:
        if self._dialect.claude:
            yield from self._parts_manager.handle_text_delta(vendor_part_id=index, content=text)
            return
        self._refused = self._refused or _REFUSAL.search(chunk) is not None
        profile = self._dialect.profile
        for event in self._parts_manager.handle_text_delta(
            vendor_part_id=index,
            content=text,
            thinking_tags=profile.get("thinking_tags", DEFAULT_THINKING_TAGS),
            ignore_leading_whitespace=profile.get("ignore_streamed_leading_whitespace", False),
        ):
            if isinstance(event, PartStartEvent) and isinstance(event.part, ThinkingPart):
                event.part.id, event.part.provider_name = "content", self._kind
            yield event

    def _hidden(self, event: bytes) -> Iterator[ModelResponseStreamEvent]:
        """A thought that only Claude can read."""
        if not self._dialect.claude or _REDACTED not in event:
            return
        try:
            block = _BLOCK_EVENT.decode(sse.parse(event)[1]).content_block
        except UNREADABLE:
            return
        if block is not None and block.type == _REDACTED_ID:
            part = redacted(block.data, self._kind)
            yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    def _start(self, event: Started) -> None:
        self.provider_response_id = event.id or None
        self._model = event.model or self._model
        if event.usage.total:
            self._usage = usage_of(event.usage)

    def _finish(self, event: Finished) -> None:
        self._usage = usage_of(event.usage)
        self.finish_reason = _FINISHES[event.finish]
        self.provider_details = details_of(event.finish, self._call)
        if self._refused:
            self.finish_reason = "content_filter"
            texts = (part for part in self._parts_manager.get_parts() if isinstance(part, TextPart))
            self.provider_details["refusal"] = "".join(part.content for part in texts)

    async def close_stream(self) -> None:
        await self._call.__aexit__(None, None, None)

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        return ()

    @property
    def model_name(self) -> str:
        return self._model

    @property
    def provider_name(self) -> str:
        return self._kind

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._timestamp
