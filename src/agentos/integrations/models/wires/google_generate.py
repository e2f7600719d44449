"""Google's Gemini API: `generateContent` and `streamGenerateContent?alt=sse`.

The model and whether to stream stand in the URL, not in the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Conversation,
    Finish,
    Finished,
    Media,
    Message,
    OutputFormat,
    Part,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolChoice,
    ToolDelta,
    ToolResult,
    ToolStarted,
    ToolUse,
    Usage,
)
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing, glancing, sse, turns
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    MalformedRequest,
    StreamMeter,
    StreamReader,
    StreamWriter,
    WireName,
)
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.metering import Sample

T = TypeVar("T")
Effort = Literal["minimal", "low", "medium", "high"]

_UNKNOWN_TYPE = "application/octet-stream"


# The format


# Google takes the names that its protocol buffers have too, and its SDK sends some of them.


class _Blob(msgspec.Struct, omit_defaults=True, rename="camel"):
    data: str
    mime_type: str | None = None
    other_mime_type: str | None = field(default=None, name="mime_type")

    def read(self) -> Media:
        media_type = self.mime_type or self.other_mime_type or _UNKNOWN_TYPE
        return Media(media_type, data=self.data)


class _File(msgspec.Struct, omit_defaults=True, rename="camel"):
    file_uri: str | None = None
    mime_type: str | None = None
    other_file_uri: str | None = field(default=None, name="file_uri")
    other_mime_type: str | None = field(default=None, name="mime_type")

    def read(self) -> Media:
        media_type = self.mime_type or self.other_mime_type or _UNKNOWN_TYPE
        return Media(media_type, url=self.file_uri or self.other_file_uri or "")


class _FunctionCall(msgspec.Struct, omit_defaults=True):
    name: str
    args: Raw = Raw()
    id: str | None = None

    @property
    def arguments(self) -> str:
        """Without the white space, which is Google's and not the model's."""
        if not glancing.given(self.args):
            return "{}"
        return msgspec.json.format(bytes(self.args), indent=-1).decode()


class _ResponsePart(msgspec.Struct, omit_defaults=True, rename="camel"):
    inline_data: _Blob | None = None
    file_data: _File | None = None


class _FunctionResponse(msgspec.Struct, omit_defaults=True):
    name: str
    response: dict[str, Any]
    id: str | None = None
    parts: list[_ResponsePart] | None = None


class _Part(msgspec.Struct, omit_defaults=True, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: _Blob | None = None
    file_data: _File | None = None
    function_call: _FunctionCall | None = None
    function_response: _FunctionResponse | None = None


class _Content(msgspec.Struct, omit_defaults=True):
    parts: list[_Part] | None = None
    role: str | None = None


class _Declaration(msgspec.Struct, omit_defaults=True, rename="camel"):
    name: str
    description: str = ""
    parameters_json_schema: dict[str, Any] | None = None
    other_parameters_json_schema: dict[str, Any] | None = field(
        default=None, name="parameters_json_schema"
    )
    # In the words of OpenAPI, not of JSON schema.
    parameters: dict[str, Any] | None = None

    def schema(self) -> dict[str, Any]:
        given = self.parameters_json_schema or self.other_parameters_json_schema or self.parameters
        return given or {"type": "object", "properties": {}}


class _Tool(msgspec.Struct, omit_defaults=True, rename="camel"):
    function_declarations: list[_Declaration] | UnsetType = UNSET


class _CallingConfig(msgspec.Struct, omit_defaults=True, rename="camel"):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class _ToolConfig(msgspec.Struct, omit_defaults=True, rename="camel"):
    function_calling_config: _CallingConfig | None = None


class _ThinkingConfig(msgspec.Struct, omit_defaults=True, rename="camel"):
    include_thoughts: bool | None = None
    thinking_level: str | None = None
    thinking_budget: int | None = None
    other_thinking_level: str | None = field(default=None, name="thinking_level")
    other_thinking_budget: int | None = field(default=None, name="thinking_budget")


class _Generation(msgspec.Struct, omit_defaults=True, rename="camel"):
    max_output_tokens: int | None = None
    candidate_count: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    seed: int | None = None
    response_mime_type: str | None = None
    response_json_schema: dict[str, Any] | None = None
    response_schema: dict[str, Any] | None = None
    thinking_config: _ThinkingConfig | None = None


class _Request(msgspec.Struct, omit_defaults=True, rename="camel"):
    contents: list[_Content]
    system_instruction: _Content | None = None
    tools: list[_Tool] | None = None
    tool_config: _ToolConfig | None = None
    generation_config: _Generation | None = None
    cached_content: str | None = None
    service_tier: str | None = None


class _UsageBody(msgspec.Struct, omit_defaults=True, rename="camel"):
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
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, omit_defaults=True, rename="camel"):
    block_reason: str | None = None


class _ErrorDetail(msgspec.Struct, omit_defaults=True, rename="camel"):
    type: str = field(default="", name="@type")
    reason: str | None = None
    domain: str | None = None
    retry_delay: str | None = None


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""
    status: str = ""
    details: list[_ErrorDetail] = []


class _Response(msgspec.Struct, omit_defaults=True, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _UsageBody | None = None
    model_version: str = ""
    response_id: str = ""
    error: _Error | None = None


class _WithUsage(msgspec.Struct, rename="camel"):
    usage_metadata: _UsageBody | None = None


class _WithError(msgspec.Struct):
    error: _Error


_REQUEST = msgspec.json.Decoder(_Request)
_RESPONSE = msgspec.json.Decoder(_Response)
_USAGE = msgspec.json.Decoder(_WithUsage)
_ERROR: msgspec.json.Decoder[_WithError | list[_WithError]] = msgspec.json.Decoder(
    _WithError | list[_WithError]
)


def _answered(body: bytes) -> _Response:
    try:
        return _RESPONSE.decode(body)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not an answer of generateContent: {error}") from error


# Thoughts
#
# Gemini signs what it thought, mostly on the function call that the thought led to, and wants the
# signature back there. In a conversation the signature is the thought's; marked as Google's, so
# that one of another maker is never sent to Google, which would refuse it.

_OURS = "google:"
# What Google asks for in place of a signature, on calls that another model has made.
_UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def _mark(signature: str | None) -> str | None:
    return None if signature is None or signature == _UNSIGNED else _OURS + signature


def _unmark(signature: str | None) -> str | None:
    if signature is None or not signature.startswith(_OURS):
        return None
    return signature.removeprefix(_OURS)


# Parts


def _made_up_id(answer_id: str, count: int) -> str:
    """An id for a call that Google gave none: the same whenever it is read."""
    scope = re.sub(r"[^A-Za-z0-9_-]", "", answer_id)
    return f"call_{scope}_{count}" if scope else f"call_{count}"


def _args(arguments: str) -> Raw:
    """Arguments as the object that Google wants, without line ends, which would cut an event."""
    if not arguments.strip():
        return Raw(b"{}")
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
        return Raw(msgspec.json.format(arguments.encode(), indent=-1))
    except UNREADABLE:
        # A model wrote something broken, and was told so in what follows: keep it as it was.
        return Raw(msgspec.json.encode({"arguments": arguments}))


def _read_media(blob: _Blob | None, file: _File | None) -> Media | None:
    if blob is not None:
        return blob.read()
    return None if file is None else file.read()


def _write_media(media: Media) -> _Part:
    if media.url is not None:
        return _Part(file_data=_File(media.url, media.media_type))
    return _Part(inline_data=_Blob(media.data or "", media.media_type))


def _write_words(parts: Sequence[Text | Thinking | ToolUse]) -> Iterator[_Part]:
    """What a model said, each signature where Google puts it."""
    signature: str | None = None
    for i, part in enumerate(parts):
        following = parts[i + 1] if i + 1 < len(parts) else None
        if isinstance(part, Text):
            yield _Part(text=part.text)
        elif isinstance(part, ToolUse):
            call = _FunctionCall(part.name, _args(part.arguments), part.id)
            yield _Part(function_call=call, thought_signature=signature)
            signature = None
        else:
            signature = _unmark(part.signature)
            if not isinstance(following, ToolUse):
                yield _Part(text=part.text, thought=True, thought_signature=signature)
                signature = None
            elif part.text:
                yield _Part(text=part.text, thought=True)


# Requests, as they are written


def _write_contents(messages: list[Message]) -> list[_Content]:
    named = turns.with_tool_names(turns.alternating(messages))
    contents = [
        _write_model(message) if message.role == "assistant" else _write_user(message)
        for message in named
    ]
    return [content for content in contents if content.parts]


def _write_model(message: Message) -> _Content:
    said = [
        part
        for part in message.parts
        if isinstance(part, Text | ToolUse)
        or (isinstance(part, Thinking) and _unmark(part.signature) is not None)
    ]
    parts = list(_write_words(said))
    # Gemini refuses the first call of a turn without a signature, and wants none on the others.
    first = next((part for part in parts if part.function_call is not None), None)
    if first is not None and first.thought_signature is None:
        first.thought_signature = _UNSIGNED
    return _Content(parts, "model")


def _write_user(message: Message) -> _Content:
    parts: list[_Part] = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(_Part(text=part.text))
        elif isinstance(part, Media):
            parts.append(_write_media(part))
        elif isinstance(part, ToolResult):
            parts.extend(_write_result(part))
    return _Content(parts, "user")


def _write_result(result: ToolResult) -> Iterator[_Part]:
    if result.name is None:
        raise MalformedRequest(
            f"There is a result for `{result.tool_use_id}`, but no use of a tool with that id.",
            hint="Send the use of the tool before its result.",
        )
    response = {"error" if result.is_error else "output": turns.text_of(result.parts)}
    yield _Part(function_response=_FunctionResponse(result.name, response, result.tool_use_id))
    # Beside the response, where every Gemini takes it; inside, only the newest do.
    yield from (_write_media(part) for part in result.parts if isinstance(part, Media))


def _write_tools(tools: Sequence[Tool]) -> list[_Tool] | None:
    if not tools:
        return None
    declarations = [
        _Declaration(tool.name, tool.description, parameters_json_schema=tool.schema)
        for tool in tools
    ]
    return [_Tool(declarations)]


_MODES = {"auto": "AUTO", "any": "ANY", "tool": "ANY", "none": "NONE"}


def _write_choice(choice: ToolChoice | None) -> _ToolConfig | None:
    if choice is None:
        return None
    names = [choice.name] if choice.kind == "tool" and choice.name else None
    return _ToolConfig(_CallingConfig(_MODES[choice.kind], names))


# Gemini 2.5 counts the tokens it may think, those after it have levels, those before do not think.
_BUDGETS: dict[Effort, int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS: dict[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
}
_WITHOUT_THOUGHT = ("gemini-1", "gemini-2.0", "gemma")


def _write_thinking(effort: Effort | None, model: str) -> _ThinkingConfig | None:
    model = model.removeprefix("models/")
    if effort is None or model.startswith(_WITHOUT_THOUGHT):
        return None
    if model.startswith("gemini-2.5"):
        return _ThinkingConfig(include_thoughts=True, thinking_budget=_BUDGETS[effort])
    if effort == "minimal" and "-pro" in model:  # whose lowest level is LOW
        effort = "low"
    return _ThinkingConfig(include_thoughts=True, thinking_level=effort.upper())


def _write_generation(said: Conversation, model: str) -> _Generation | None:
    wanted = said.output_format
    generation = _Generation(
        max_output_tokens=said.max_tokens,
        temperature=said.temperature,
        top_p=said.top_p,
        stop_sequences=list(said.stop) or None,
        seed=said.seed,
        response_mime_type="application/json" if wanted else None,
        response_json_schema=wanted.schema if wanted else None,
        thinking_config=_write_thinking(said.reasoning_effort, model),
    )
    return None if generation == _Generation() else generation


# Requests, as they are read


class _Calls:
    """Gives ids to calls that have none, and to the responses that answer them, in their order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[ToolUse] = []

    def call(self, call: _FunctionCall) -> ToolUse:
        id = call.id or _made_up_id("", self._count)
        self._count += 1
        use = ToolUse(id, call.name, call.arguments)
        self._open.append(use)
        return use

    def response(self, response: _FunctionResponse) -> ToolResult:
        answered = next((use for use in self._open if self._answers(response, use)), None)
        if answered is not None:
            self._open.remove(answered)
        id = response.id or (answered.id if answered is not None else response.name)
        is_error = set(response.response) == {"error"}
        parts: list[Text | Media] = [Text(_response_text(response.response))]
        for part in response.parts or []:
            media = _read_media(part.inline_data, part.file_data)
            if media is not None:
                parts.append(media)
        return ToolResult(id, parts, is_error=is_error, name=response.name)

    def _answers(self, response: _FunctionResponse, use: ToolUse) -> bool:
        return use.id == response.id if response.id else use.name == response.name


def _response_text(response: dict[str, Any]) -> str:
    if set(response) in ({"output"}, {"error"}):
        (value,) = response.values()
        if isinstance(value, str):
            return value
        return msgspec.json.encode(value).decode()
    return msgspec.json.encode(response).decode()


def _read_contents(contents: Sequence[_Content]) -> list[Message]:
    calls = _Calls()
    messages: list[Message] = []
    for content in contents:
        role: Literal["user", "assistant"] = "assistant" if content.role == "model" else "user"
        parts = list(_read_parts(content.parts or [], calls))
        if parts:
            messages.append(Message(role, parts))
    return messages


def _read_parts(parts: Sequence[_Part], calls: _Calls) -> Iterator[Part]:
    for part in _signed_thoughts(parts):
        media = _read_media(part.inline_data, part.file_data)
        if part.function_call is not None:
            yield calls.call(part.function_call)
        elif part.function_response is not None:
            yield calls.response(part.function_response)
        elif media is not None:
            yield media
        elif part.thought:
            yield Thinking(part.text or "", _mark(part.thought_signature))
        elif part.text is not None:
            yield Text(part.text)


def _signed_thoughts(parts: Sequence[_Part]) -> list[_Part]:
    """The same parts, with each call's signature on the thought before it."""
    moved: list[_Part] = []
    for part in parts:
        signature = part.thought_signature
        if part.function_call is not None and _mark(signature) is not None:
            before = moved[-1] if moved else _Part()
            if before.thought and before.thought_signature is None:
                moved[-1] = msgspec.structs.replace(before, thought_signature=signature)
            else:
                moved.append(_Part(text="", thought=True, thought_signature=signature))
        moved.append(part)
    return moved


def _read_tools(tools: Sequence[_Tool]) -> list[Tool]:
    read: list[Tool] = []
    for i, tool in enumerate(tools):
        if tool.function_declarations is UNSET:
            raise MalformedRequest(f"`tools[{i}]` is a tool of Google's own.")
        read += [
            Tool(declared.name, declared.description, declared.schema())
            for declared in tool.function_declarations
        ]
    return read


def _read_choice(config: _ToolConfig | None) -> ToolChoice | None:
    if config is None or config.function_calling_config is None:
        return None
    calling = config.function_calling_config
    if calling.mode == "NONE":
        return ToolChoice("none")
    if calling.mode != "ANY":
        return ToolChoice("auto")
    names = calling.allowed_function_names or []
    return ToolChoice("tool", names[0]) if len(names) == 1 else ToolChoice("any")


def _read_format(generation: _Generation) -> OutputFormat | None:
    schema = generation.response_json_schema or generation.response_schema
    if schema is None and generation.response_mime_type != "application/json":
        return None
    return OutputFormat(schema)


def _read_effort(config: _ThinkingConfig | None) -> Effort | None:
    if config is None:
        return None
    level = config.thinking_level or config.other_thinking_level
    if level is not None:
        return _LEVELS.get(level.upper())
    budget = config.thinking_budget
    if budget is None:
        budget = config.other_thinking_budget
    if budget is None or budget < 0:
        return None
    return next((effort for effort, most in _BUDGETS.items() if budget <= most), "high")


# Answers

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


def _finish(reason: str, *, used_tools: bool) -> Finish:
    return _FINISHES.get(reason, Finish.TOOL_USE if used_tools else Finish.STOP)


def _end(response: _Response) -> str | None:
    """The reason for which the answer ended, if it has."""
    candidate = response.candidates[0] if response.candidates else None
    if candidate is not None:
        return candidate.finish_reason
    if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
        return "SAFETY"
    return None


def _answer_parts(response: _Response) -> list[_Part]:
    """The parts of an answer, each call's signature on the thought before it."""
    candidate = response.candidates[0] if response.candidates else None
    content = candidate.content if candidate is not None else None
    return _signed_thoughts(content.parts or []) if content is not None else []


def _read_words(response: _Response) -> Iterator[Text | Thinking | ToolUse]:
    calls = 0
    for part in _answer_parts(response):
        if part.function_call is not None:
            call = part.function_call
            id = call.id or _made_up_id(response.response_id, calls)
            yield ToolUse(id, call.name, call.arguments)
            calls += 1
        elif part.thought:
            yield Thinking(part.text or "", _mark(part.thought_signature))
        elif part.text:
            yield Text(part.text)


def _write_usage(usage: Usage) -> _UsageBody:
    return _UsageBody(
        prompt_token_count=usage.input,
        candidates_token_count=usage.output - usage.reasoning,
        total_token_count=usage.total,
        cached_content_token_count=usage.cache_read or None,
        thoughts_token_count=usage.reasoning or None,
    )


# Streams


class _Reader:
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

    def _read(self, response: _Response) -> Iterator[StreamEvent]:
        if response.error is not None:
            error = response.error
            yield Broken(_class(error, error.code), classing.shown(error.message, error.code))
            return
        if response.usage_metadata is not None:
            self._usage = response.usage_metadata.read()
        if self._answer_id is None:
            self._answer_id = response.response_id
            yield Started(response.response_id, response.model_version, self._usage)
        for part in _answer_parts(response):
            yield from self._part(part)
        reason = _end(response)
        if reason is not None and not self.ended:
            self.ended = True
            yield Finished(_finish(reason, used_tools=self._calls > 0), self._usage)

    def _part(self, part: _Part) -> Iterator[StreamEvent]:
        if part.function_call is not None:
            yield from self._call(part.function_call)
        elif part.thought:
            signature = _mark(part.thought_signature)
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

    def _call(self, call: _FunctionCall) -> Iterator[StreamEvent]:
        self._next(ToolUse)
        id = call.id or _made_up_id(self._answer_id or "", self._calls)
        self._calls += 1
        yield ToolStarted(self._index, id, call.name)
        yield ToolDelta(self._index, call.arguments)


class _Writer:
    """Google sends calls whole, so their arguments are collected first."""

    def __init__(self) -> None:
        self._started = Started("", "")
        self._tools: dict[int, tuple[ToolStarted, list[str]]] = {}

    def write(self, event: StreamEvent) -> bytes:
        if isinstance(event, Started):
            self._started = event
        elif isinstance(event, TextDelta):
            return self._chunk([*self._calls(), _Part(text=event.text)])
        elif isinstance(event, ThinkingDelta):
            signature = _unmark(event.signature)
            thought = _Part(text=event.text, thought=True, thought_signature=signature)
            return self._chunk([*self._calls(), thought])
        elif isinstance(event, ToolStarted):
            self._tools[event.index] = (event, [])
        elif isinstance(event, ToolDelta):
            self._tools[event.index][1].append(event.arguments)
        elif isinstance(event, Finished):
            return self._chunk(self._calls(), event)
        else:
            return GENERATE.stream_error(event.kind, event.kind, event.message)
        return b""

    def _calls(self) -> list[_Part]:
        parts = [
            _Part(function_call=_FunctionCall(tool.name, _args("".join(arguments)), tool.id))
            for tool, arguments in self._tools.values()
        ]
        self._tools.clear()
        return parts

    def _chunk(self, parts: list[_Part], finished: Finished | None = None) -> bytes:
        reason = _REASONS[finished.finish] if finished else None
        usage = finished.usage if finished else self._started.usage
        response = _Response(
            candidates=[_Candidate(_Content(parts, "model"), reason)],
            usage_metadata=_write_usage(usage),
            model_version=self._started.model,
            response_id=self._started.id,
        )
        return sse.frame(msgspec.json.encode(response))


class _Meter:
    """Reads every event: nobody calls AgentOS in this dialect, so no caller waits for it."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.delivered = False
        self.ended = False
        self._cutter = sse.Cutter()
        self._sample = Sample()

    def pass_on(self, data: bytes) -> bytes:
        """Raises MalformedAnswer if an event has no end."""
        for event in self._cutter.feed(data):
            self._see(event)
        return data

    def estimate(self) -> int:
        return self._sample.tokens(_Reader())

    def _see(self, event: bytes) -> None:
        self._sample.add(event)
        try:
            response = _RESPONSE.decode(sse.parse(event)[1])
        except UNREADABLE:
            return
        if response.usage_metadata is not None:
            self.usage = response.usage_metadata.read()
        self.ended = self.ended or _end(response) is not None
        self.delivered = self.delivered or bool(_answer_parts(response))


# Errors

_CLASSES = {
    "RESOURCE_EXHAUSTED": ErrorClass.RATE_LIMIT,
    "UNAVAILABLE": ErrorClass.OVERLOAD,
    "INTERNAL": ErrorClass.OVERLOAD,
    "ABORTED": ErrorClass.OVERLOAD,
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
    "CANCELLED": ErrorClass.TIMEOUT,
    "NOT_FOUND": ErrorClass.NOT_FOUND,
    "PERMISSION_DENIED": ErrorClass.AUTH,
    "UNAUTHENTICATED": ErrorClass.AUTH,
}
_STATUSES = {
    ErrorClass.OVERLOAD: (503, "UNAVAILABLE"),
    ErrorClass.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED"),
    ErrorClass.AUTH: (401, "UNAUTHENTICATED"),
    ErrorClass.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    ErrorClass.CONTEXT_LENGTH: (400, "INVALID_ARGUMENT"),
    ErrorClass.NOT_FOUND: (404, "NOT_FOUND"),
    ErrorClass.INVALID: (400, "INVALID_ARGUMENT"),
}
_UNKNOWN_STATUS = (500, "INTERNAL")
_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})
# Said like haste, but waiting does not help.
_NO_CREDIT = re.compile(r"credits? (?:are|is|were|was|has|have been) (?:depleted|exhausted)")
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def _class(error: _Error, status: int) -> ErrorClass:
    known = _CLASSES.get(error.status)
    if known is ErrorClass.RATE_LIMIT and _NO_CREDIT.search(error.message):
        return ErrorClass.AUTH
    if known is not None:
        return known
    if any(detail.reason in _KEY_REASONS for detail in error.details):
        return ErrorClass.AUTH
    return classing.by_words(status or 500, error.message)


def _read_error(body: bytes) -> _Error | None:
    try:
        decoded = _ERROR.decode(body)
    except UNREADABLE:
        return None
    if isinstance(decoded, list):
        return decoded[0].error if decoded else None
    return decoded.error


def retry_after(body: bytes) -> float | None:
    """How many seconds Google asks to wait, which it says in the body and in no header."""
    error = _read_error(body)
    for detail in error.details if error is not None else []:
        found = _SECONDS.fullmatch(detail.retry_delay or "")
        if detail.type == _RETRY_INFO and found:
            return float(found[1])
    return None


def _status(error_class: str) -> tuple[int, str]:
    return _STATUSES[ErrorClass(error_class)] if error_class in _STATUSES else _UNKNOWN_STATUS


class GoogleGenerate:
    """The wire `google.generate`."""

    name = WireName.GENERATE

    def glance(self, body: bytes) -> Glance:
        """The model is empty and `stream` false, for both are in the URL."""
        request = glancing.decode(_REQUEST, body)
        generation = request.generation_config or _Generation()
        most = glancing.limit(generation.max_output_tokens, "maxOutputTokens")
        candidates = glancing.limit(generation.candidate_count, "candidateCount") or 1
        own_tools = (tool.function_declarations is not UNSET for tool in request.tools or [])
        parts = (part for content in request.contents for part in content.parts or [])
        return Glance(
            model="",
            stream=False,
            max_output=None if most is None else most * candidates,
            open_ended=(
                request.cached_content is not None
                or not all(own_tools)
                or any(part.file_data is not None for part in parts)
            ),
            service_tier=request.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:  # noqa: ARG002 - the model is in the URL
        return body

    def usage(self, body: bytes) -> Usage | None:
        try:
            usage = _USAGE.decode(body).usage_metadata
        except UNREADABLE:
            return None
        return usage.read() if usage else None

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - usage is always told
        return _Meter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        error = _read_error(body)
        if error is None:
            message = classing.plain(body, status)
            return classing.by_words(status, message), message
        return _class(error, status), classing.shown(error.message, status)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        name = _status(error_class)[1]
        info = _ErrorDetail(_ERROR_INFO, reason=code, domain="agentos")
        return msgspec.json.encode(_WithError(_Error(status, message, name, [info])))

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return sse.frame(self.error(_status(error_class)[0], error_class, code, message))

    def read_request(self, body: bytes) -> Conversation:
        """The model is empty and `stream` false, for both are in the URL."""
        request = glancing.decode(_REQUEST, body)
        if request.cached_content is not None:
            raise MalformedRequest("`cachedContent` names what only Google keeps.")
        generation = request.generation_config or _Generation()
        system = request.system_instruction or _Content()
        return Conversation(
            model="",
            messages=_read_contents(request.contents),
            system="\n\n".join(part.text for part in system.parts or [] if part.text),
            tools=_read_tools(request.tools or []),
            tool_choice=_read_choice(request.tool_config),
            max_tokens=generation.max_output_tokens,
            temperature=generation.temperature,
            top_p=generation.top_p,
            stop=generation.stop_sequences or [],
            seed=generation.seed,
            output_format=_read_format(generation),
            reasoning_effort=_read_effort(generation.thinking_config),
        )

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        """Whether tools may be used in parallel has no place in this API and is left out."""
        said = conversation
        system = _Content([_Part(text=said.system)]) if said.system else None
        return msgspec.json.encode(
            _Request(
                contents=_write_contents(said.messages),
                system_instruction=system,
                tools=_write_tools(said.tools),
                tool_config=_write_choice(said.tool_choice),
                generation_config=_write_generation(said, model),
            )
        )

    def read_answer(self, body: bytes) -> Answer:
        response = _answered(body)
        reason = _end(response)
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

    def write_answer(self, answer: Answer) -> bytes:
        content = _Content(list(_write_words(answer.parts)), "model")
        return msgspec.json.encode(
            _Response(
                candidates=[_Candidate(content, _REASONS[answer.finish])],
                usage_metadata=_write_usage(answer.usage),
                model_version=answer.model,
                response_id=answer.id,
            )
        )

    def reader(self) -> StreamReader:
        return _Reader()

    def writer(self, glance: Glance) -> StreamWriter:  # noqa: ARG002 - nothing of it matters here
        return _Writer()


GENERATE = GoogleGenerate()
