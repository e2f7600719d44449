"""Requests of Google's Gemini API, read into a conversation and written from one.

The model and whether to stream stand in the URL, not in the body. Whether tools may be used in
parallel has no place in this API, and is lost on writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from agentos.integrations.models.conversation import (
    Conversation,
    Media,
    Message,
    OutputFormat,
    Part,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.wires import glancing, turns
from agentos.integrations.models.wires.base import MalformedRequest
from agentos.integrations.models.wires.google_generate_parts import (
    UNSIGNED,
    FunctionCall,
    FunctionResponse,
    GoogleContent,
    GooglePart,
    made_up_id,
    mark,
    read_media,
    signed_thoughts,
    unmark,
    write_media,
    write_words,
)

Effort = Literal["minimal", "low", "medium", "high"]

_MODES = {"auto": "AUTO", "any": "ANY", "tool": "ANY", "none": "NONE"}
# Gemini 2.5 counts the tokens it may think, those after it have levels, those before do not think.
_BUDGETS: dict[Effort, int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS: dict[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
}
_WITHOUT_THOUGHT = ("gemini-1", "gemini-2.0", "gemma")


# The shape of a request


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


class Generation(msgspec.Struct, omit_defaults=True, rename="camel"):
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


class Request(msgspec.Struct, omit_defaults=True, rename="camel"):
    contents: list[GoogleContent]
    system_instruction: GoogleContent | None = None
    tools: list[_Tool] | None = None
    tool_config: _ToolConfig | None = None
    generation_config: Generation | None = None
    cached_content: str | None = None
    service_tier: str | None = None


REQUEST = msgspec.json.Decoder(Request)


# As it is read


def read(body: bytes) -> Conversation:
    """The model is empty and `stream` false, for both are in the URL."""
    request = glancing.decode(REQUEST, body)
    if request.cached_content is not None:
        raise MalformedRequest("`cachedContent` names what only Google keeps.")
    generation = request.generation_config or Generation()
    system = request.system_instruction or GoogleContent()
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


class _Calls:
    """Gives ids to calls that have none, and to the responses that answer them, in their order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[ToolUse] = []

    def call(self, call: FunctionCall) -> ToolUse:
        id = call.id or made_up_id("", self._count)
        self._count += 1
        use = ToolUse(id, call.name, call.arguments)
        self._open.append(use)
        return use

    def response(self, response: FunctionResponse) -> ToolResult:
        answered = next((use for use in self._open if self._answers(response, use)), None)
        if answered is not None:
            self._open.remove(answered)
        id = response.id or (answered.id if answered is not None else response.name)
        is_error = set(response.response) == {"error"}
        parts: list[Text | Media] = [Text(_response_text(response.response))]
        for part in response.parts or []:
            media = read_media(part.inline_data, part.file_data)
            if media is not None:
                parts.append(media)
        return ToolResult(id, parts, is_error=is_error, name=response.name)

    def _answers(self, response: FunctionResponse, use: ToolUse) -> bool:
        return use.id == response.id if response.id else use.name == response.name


def _response_text(response: dict[str, Any]) -> str:
    if set(response) in ({"output"}, {"error"}):
        (value,) = response.values()
        if isinstance(value, str):
            return value
        return msgspec.json.encode(value).decode()
    return msgspec.json.encode(response).decode()


def _read_contents(contents: Sequence[GoogleContent]) -> list[Message]:
    calls = _Calls()
    messages: list[Message] = []
    for content in contents:
        role: Literal["user", "assistant"] = "assistant" if content.role == "model" else "user"
        parts = list(_read_parts(content.parts or [], calls))
        if parts:
            messages.append(Message(role, parts))
    return messages


def _read_parts(parts: Sequence[GooglePart], calls: _Calls) -> Iterator[Part]:
    for part in signed_thoughts(parts):
        media = read_media(part.inline_data, part.file_data)
        if part.function_call is not None:
            yield calls.call(part.function_call)
        elif part.function_response is not None:
            yield calls.response(part.function_response)
        elif media is not None:
            yield media
        elif part.thought:
            yield Thinking(part.text or "", mark(part.thought_signature))
        elif part.text is not None:
            yield Text(part.text)


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


def _read_format(generation: Generation) -> OutputFormat | None:
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


# As it is written


def write(conversation: Conversation, model: str) -> bytes:
    said = conversation
    system = GoogleContent([GooglePart(text=said.system)]) if said.system else None
    return msgspec.json.encode(
        Request(
            contents=_write_contents(said.messages),
            system_instruction=system,
            tools=_write_tools(said.tools),
            tool_config=_write_choice(said.tool_choice),
            generation_config=_write_generation(said, model),
        )
    )


def _write_contents(messages: list[Message]) -> list[GoogleContent]:
    named = turns.with_tool_names(turns.alternating(messages))
    contents = [
        _write_model(message) if message.role == "assistant" else _write_user(message)
        for message in named
    ]
    return [content for content in contents if content.parts]


def _write_model(message: Message) -> GoogleContent:
    said = [
        part
        for part in message.parts
        if isinstance(part, Text | ToolUse)
        or (isinstance(part, Thinking) and unmark(part.signature) is not None)
    ]
    parts = list(write_words(said))
    # Gemini refuses the first call of a turn without a signature, and wants none on the others.
    first = next((part for part in parts if part.function_call is not None), None)
    if first is not None and first.thought_signature is None:
        first.thought_signature = UNSIGNED
    return GoogleContent(parts, "model")


def _write_user(message: Message) -> GoogleContent:
    parts: list[GooglePart] = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(GooglePart(text=part.text))
        elif isinstance(part, Media):
            parts.append(write_media(part))
        elif isinstance(part, ToolResult):
            parts.extend(_write_result(part))
    return GoogleContent(parts, "user")


def _write_result(result: ToolResult) -> Iterator[GooglePart]:
    if result.name is None:
        raise MalformedRequest(
            f"There is a result for `{result.tool_use_id}`, but no use of a tool with that id.",
            hint="Send the use of the tool before its result.",
        )
    response = {"error" if result.is_error else "output": turns.text_of(result.parts)}
    yield GooglePart(function_response=FunctionResponse(result.name, response, result.tool_use_id))
    # Beside the response, where every Gemini takes it; inside, only the newest do.
    yield from (write_media(part) for part in result.parts if isinstance(part, Media))


def _write_tools(tools: Sequence[Tool]) -> list[_Tool] | None:
    if not tools:
        return None
    declarations = [
        _Declaration(tool.name, tool.description, parameters_json_schema=tool.schema)
        for tool in tools
    ]
    return [_Tool(declarations)]


def _write_choice(choice: ToolChoice | None) -> _ToolConfig | None:
    if choice is None:
        return None
    names = [choice.name] if choice.kind == "tool" and choice.name else None
    return _ToolConfig(_CallingConfig(_MODES[choice.kind], names))


def _write_thinking(effort: Effort | None, model: str) -> _ThinkingConfig | None:
    model = model.removeprefix("models/")
    if effort is None or model.startswith(_WITHOUT_THOUGHT):
        return None
    if model.startswith("gemini-2.5"):
        return _ThinkingConfig(include_thoughts=True, thinking_budget=_BUDGETS[effort])
    if effort == "minimal" and "-pro" in model:  # whose lowest level is LOW
        effort = "low"
    return _ThinkingConfig(include_thoughts=True, thinking_level=effort.upper())


def _write_generation(said: Conversation, model: str) -> Generation | None:
    wanted = said.output_format
    generation = Generation(
        max_output_tokens=said.max_tokens,
        temperature=said.temperature,
        top_p=said.top_p,
        stop_sequences=list(said.stop) or None,
        seed=said.seed,
        response_mime_type="application/json" if wanted else None,
        response_json_schema=wanted.schema if wanted else None,
        thinking_config=_write_thinking(said.reasoning_effort, model),
    )
    return None if generation == Generation() else generation
