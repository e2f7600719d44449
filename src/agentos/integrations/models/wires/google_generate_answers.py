"""Answers of Google's Gemini API, whole and as streams: read and written."""

from __future__ import annotations

from collections.abc import Iterator

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
from agentos.integrations.models.wires import classing, google_generate_errors, sse
from agentos.integrations.models.wires.base import MalformedAnswer
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.google_generate_errors import GoogleError
from agentos.integrations.models.wires.google_generate_parts import (
    FunctionCall,
    GoogleContent,
    GooglePart,
    args,
    made_up_id,
    mark,
    signed_thoughts,
    unmark,
    write_words,
)

_FINISHES = {
    "MAX_TOKENS": Finish.LENGTH,
    "CONTINUATION": Finish.LENGTH,
    "SAFETY": Finish.FILTERED,
    "RECITATION": Finish.FILTERED,
    "LANGUAGE": Finish.FILTERED,
    "BLOCKLIST": Finish.FILTERED,
    "PROHIBITED_CONTENT": Finish.FILTERED,
    "SPII": Finish.FILTERED,
    "IMAGE_SAFETY": Finish.FILTERED,
    "IMAGE_PROHIBITED_CONTENT": Finish.FILTERED,
    "IMAGE_RECITATION": Finish.FILTERED,
}
_REASONS = {
    Finish.STOP: "STOP",
    Finish.TOOL_USE: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.FILTERED: "SAFETY",
}


class GenerateUsage(msgspec.Struct, omit_defaults=True, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def read(self) -> Usage:
        thoughts = self.thoughts_token_count or 0
        return Usage(
            input=(self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0),
            output=(self.candidates_token_count or 0) + thoughts,
            cache_read=self.cached_content_token_count or 0,
            reasoning=thoughts,
        )


class _Candidate(msgspec.Struct, omit_defaults=True, rename="camel"):
    content: GoogleContent | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, omit_defaults=True, rename="camel"):
    block_reason: str | None = None


class Response(msgspec.Struct, omit_defaults=True, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: GenerateUsage | None = None
    model_version: str = ""
    response_id: str = ""
    error: GoogleError | None = None


RESPONSE = msgspec.json.Decoder(Response)


def _answered(body: bytes) -> Response:
    try:
        return RESPONSE.decode(body)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not an answer of generateContent: {error}") from error


# Whole answers


def read(body: bytes) -> Answer:
    """Raises MalformedAnswer."""
    response = _answered(body)
    reason = end(response)
    if reason is None:
        raise MalformedAnswer("not an answer of generateContent: it has no end")
    parts = list(_read_words(response))
    used_tools = any(isinstance(part, ToolUse) for part in parts)
    return Answer(
        id=response.response_id,
        model=response.model_version,
        parts=parts,
        finish=_finish(reason, used_tools=used_tools),
        usage=response.usage_metadata.read() if response.usage_metadata else Usage(),
    )


def _finish(reason: str, *, used_tools: bool) -> Finish:
    return _FINISHES.get(reason, Finish.TOOL_USE if used_tools else Finish.STOP)


def end(response: Response) -> str | None:
    """The reason for which the answer ended, if it has."""
    candidate = response.candidates[0] if response.candidates else None
    if candidate is not None:
        return candidate.finish_reason
    if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
        return "SAFETY"
    return None


def parts_of(response: Response) -> list[GooglePart]:
    """The parts of an answer, each call's signature on the thought before it."""
    candidate = response.candidates[0] if response.candidates else None
    content = candidate.content if candidate is not None else None
    return signed_thoughts(content.parts or []) if content is not None else []


def _read_words(response: Response) -> Iterator[Text | Thinking | ToolUse]:
    calls = 0
    for part in parts_of(response):
        if part.function_call is not None:
            call = part.function_call
            id = call.id or made_up_id(response.response_id, calls)
            yield ToolUse(id, call.name, call.arguments)
            calls += 1
        elif part.thought:
            yield Thinking(part.text or "", mark(part.thought_signature))
        elif part.text:
            yield Text(part.text)


def write(answer: Answer) -> bytes:
    content = GoogleContent(list(write_words(answer.parts)), "model")
    return msgspec.json.encode(
        Response(
            candidates=[_Candidate(content, _REASONS[answer.finish])],
            usage_metadata=_write_usage(answer.usage),
            model_version=answer.model,
            response_id=answer.id,
        )
    )


def _write_usage(usage: Usage) -> GenerateUsage:
    return GenerateUsage(
        prompt_token_count=usage.input,
        candidates_token_count=usage.output - usage.reasoning,
        total_token_count=usage.total,
        cached_content_token_count=usage.cache_read or None,
        thoughts_token_count=usage.reasoning or None,
    )


# Streams


class GenerateReader:
    """Reads the stream of an answer."""

    def __init__(self) -> None:
        self.ended = False
        self._cutter = sse.Cutter()
        self._usage = Usage()
        self._answer_id: str | None = None
        self._index = -1
        self._kind: type[Text | Thinking | ToolUse] | None = None
        self._signed = False
        self._calls = 0

    def feed(self, data: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for event in self._cutter.feed(data):
            payload = sse.parse(event)[1]
            if payload:
                events += self._read(_answered(payload))
        return events

    def _read(self, response: Response) -> Iterator[StreamEvent]:
        if response.error is not None:
            error = response.error
            yield Broken(
                google_generate_errors.class_of(error, error.code),
                classing.shown(error.message, error.code),
            )
            return
        if response.usage_metadata is not None:
            self._usage = response.usage_metadata.read()
        if self._answer_id is None:
            self._answer_id = response.response_id
            yield Started(response.response_id, response.model_version, self._usage)
        for part in parts_of(response):
            yield from self._part(part)
        reason = end(response)
        if reason is not None and not self.ended:
            self.ended = True
            yield Finished(_finish(reason, used_tools=self._calls > 0), self._usage)

    def _part(self, part: GooglePart) -> Iterator[StreamEvent]:
        if part.function_call is not None:
            yield from self._call(part.function_call)
        elif part.thought:
            signature = mark(part.thought_signature)
            # Two signatures are two thoughts, and one may come after its thought, on the call.
            if self._kind is not Thinking or self._signed:
                self._next(Thinking)
            self._signed = signature is not None
            if part.text or signature:
                yield ThinkingDelta(self._index, part.text or "", signature)
        elif part.text:
            if self._kind is not Text:
                self._next(Text)
            yield TextDelta(self._index, part.text)

    def _next(self, kind: type[Text | Thinking | ToolUse]) -> None:
        self._kind = kind
        self._index += 1
        self._signed = False

    def _call(self, call: FunctionCall) -> Iterator[StreamEvent]:
        self._next(ToolUse)
        id = call.id or made_up_id(self._answer_id or "", self._calls)
        self._calls += 1
        yield ToolStarted(self._index, id, call.name)
        yield ToolDelta(self._index, call.arguments)


class GenerateWriter:
    """Writes the stream of an answer. Google sends calls whole, so their arguments are collected first."""

    def __init__(self) -> None:
        self._started = Started("", "")
        self._tools: dict[int, tuple[ToolStarted, list[str]]] = {}

    def write(self, event: StreamEvent) -> bytes:
        if isinstance(event, Started):
            self._started = event
        elif isinstance(event, TextDelta):
            return self._chunk([*self._calls(), GooglePart(text=event.text)])
        elif isinstance(event, ThinkingDelta):
            signature = unmark(event.signature)
            thought = GooglePart(text=event.text, thought=True, thought_signature=signature)
            return self._chunk([*self._calls(), thought])
        elif isinstance(event, ToolStarted):
            self._tools[event.index] = (event, [])
        elif isinstance(event, ToolDelta):
            self._tools[event.index][1].append(event.arguments)
        elif isinstance(event, Finished):
            return self._chunk(self._calls(), event)
        else:
            return google_generate_errors.stream_error(event.kind, event.kind, event.message)
        return b""

    def _calls(self) -> list[GooglePart]:
        parts = [
            GooglePart(function_call=FunctionCall(tool.name, args("".join(arguments)), tool.id))
            for tool, arguments in self._tools.values()
        ]
        self._tools.clear()
        return parts

    def _chunk(self, parts: list[GooglePart], finished: Finished | None = None) -> bytes:
        reason = _REASONS[finished.finish] if finished else None
        usage = finished.usage if finished else self._started.usage
        response = Response(
            candidates=[_Candidate(GoogleContent(parts, "model"), reason)],
            usage_metadata=_write_usage(usage),
            model_version=self._started.model,
            response_id=self._started.id,
        )
        return sse.frame(msgspec.json.encode(response))
