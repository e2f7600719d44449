"""Chat completion requests, read into a conversation and written from one.

What chat has no place for is lost on writing: thinking, the order of texts and tool uses within
one turn, that a tool's result is an error (its text then says so).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

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
from agentos.integrations.models.wires import glancing, media, openai_chat_models, turns
from agentos.integrations.models.wires.base import MalformedRequest
from agentos.integrations.models.wires.turns import cannot_carry

_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_NO_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
_ATTACHED = "The result is in the next message."

Effort = Literal["minimal", "low", "medium", "high"]
_EFFORTS: dict[str, Effort | None] = {
    "none": None,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


# The shape of a request


class _Function(msgspec.Struct):
    name: str
    arguments: str = ""


class _Call(msgspec.Struct):
    id: str
    function: _Function | None = None


class _TextPart(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    refusal: str


class _Url(msgspec.Struct):
    url: str


class _ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    image_url: _Url


class _Sound(msgspec.Struct):
    data: str
    format: str


class _SoundPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    input_audio: _Sound


class _File(msgspec.Struct):
    file_data: str | None = None


class _FilePart(msgspec.Struct, tag_field="type", tag="file"):
    file: _File


_ContentPart = _TextPart | _RefusalPart | _ImagePart | _SoundPart | _FilePart
_Content = str | list[_ContentPart] | None


class _System(msgspec.Struct, tag_field="role", tag="system"):
    content: _Content


class _Developer(msgspec.Struct, tag_field="role", tag="developer"):
    content: _Content


class _User(msgspec.Struct, tag_field="role", tag="user"):
    content: _Content


class _Assistant(msgspec.Struct, tag_field="role", tag="assistant"):
    content: _Content = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None


class _ToolMessage(msgspec.Struct, tag_field="role", tag="tool"):
    tool_call_id: str
    content: _Content


class _FunctionTool(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    type: str = "function"
    function: _FunctionTool | None = None


class _AllowedTools(msgspec.Struct):
    mode: str
    tools: list[_Tool]


class _ToolChoice(msgspec.Struct):
    type: str
    function: _Function | None = None
    allowed_tools: _AllowedTools | None = None


class _Schema(msgspec.Struct):
    name: str = "output"
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class _Format(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[_System | _Developer | _User | _Assistant | _ToolMessage]
    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None
    logprobs: bool | None = None
    logit_bias: dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None
    functions: Any = None


_REQUEST = msgspec.json.Decoder(_Request)


def read(body: bytes) -> Conversation:
    """Raises MalformedRequest, also for what no other wire could carry."""
    request = glancing.decode(_REQUEST, body)
    _refuse(request)
    system, messages = _said(request)
    tools, choice = _tools(request)
    return Conversation(
        model=request.model,
        messages=messages,
        system=system,
        tools=tools,
        tool_choice=choice,
        parallel_tools=request.parallel_tool_calls,
        max_tokens=request.max_completion_tokens or request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=[request.stop] if isinstance(request.stop, str) else request.stop or [],
        seed=request.seed,
        output_format=_output_format(request.response_format),
        reasoning_effort=_EFFORTS.get(request.reasoning_effort or "none"),
        stream=request.stream is True,
    )


def _refuse(request: _Request) -> None:
    """Names the first thing in a request that cannot be carried over."""
    found = {
        "n": request.n not in (None, 1),
        "logprobs": bool(request.logprobs),
        "logit_bias": bool(request.logit_bias),
        "audio": request.audio is not None or "audio" in (request.modalities or ()),
        "web_search_options": request.web_search_options is not None,
        "functions": request.functions is not None,
    }
    for field, given in found.items():
        if given:
            raise cannot_carry(f"`{field}`")


def _said(request: _Request) -> tuple[str, list[Message]]:
    """The system prompt, wherever it stands, and the turns."""
    system: list[str] = []
    messages: list[Message] = []
    for message in request.messages:
        match message:
            case _System() | _Developer():
                system.append(_text(message.content))
            case _User():
                messages.append(Message("user", [*_parts(message.content)]))
            case _Assistant():
                messages.append(Message("assistant", _assistant_parts(message)))
            case _ToolMessage():
                result = ToolResult(message.tool_call_id, _result_parts(message.content))
                messages.append(Message("user", [result]))
    joined = "\n\n".join(text for text in system if text)
    return joined, turns.with_tool_names(turns.alternating(messages))


def _assistant_parts(message: _Assistant) -> list[Part]:
    parts: list[Part] = []
    if message.reasoning_content:
        parts.append(Thinking(message.reasoning_content))
    parts += _parts(message.content)
    for call in message.tool_calls or []:
        if call.function is None:
            raise cannot_carry("A call of a custom tool")
        parts.append(ToolUse(call.id, call.function.name, call.function.arguments))
    return parts


def _parts(content: _Content) -> list[Text | Media]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    return [_part(part) for part in content]


def _part(part: _ContentPart) -> Text | Media:
    match part:
        case _TextPart():
            return Text(part.text)
        case _RefusalPart():
            return Text(part.refusal)
        case _ImagePart():
            return media.image(part.image_url.url)
        case _SoundPart():
            sound = part.input_audio
            return Media(_SOUNDS.get(sound.format, f"audio/{sound.format}"), data=sound.data)
        case _FilePart():
            if part.file.file_data is None:
                raise cannot_carry("A file that its provider keeps")
            inline = media.from_data_url(part.file.file_data, media.PDF)
            return inline or Media(media.PDF, data=part.file.file_data)


def _result_parts(content: _Content) -> list[Text | Media]:
    return [part for part in _parts(content) if not isinstance(part, Text) or part.text]


def _text(content: _Content) -> str:
    return turns.text_of(_parts(content))


def _tools(request: _Request) -> tuple[list[Tool], ToolChoice | None]:
    tools = [_tool(tool) for tool in request.tools or []]
    choice = request.tool_choice
    if not isinstance(choice, _ToolChoice):
        kinds: dict[str, ToolChoice] = {
            "auto": ToolChoice("auto"),
            "none": ToolChoice("none"),
            "required": ToolChoice("any"),
        }
        if choice is not None and choice not in kinds:
            raise MalformedRequest("`tool_choice` is none of auto, none, required or a tool.")
        return tools, kinds.get(choice or "")
    if choice.allowed_tools is not None:
        allowed = {tool.function.name for tool in choice.allowed_tools.tools if tool.function}
        kept = [tool for tool in tools if tool.name in allowed]
        return kept, ToolChoice("any" if choice.allowed_tools.mode == "required" else "auto")
    if choice.function is None:
        raise cannot_carry("A custom tool")
    return tools, ToolChoice("tool", choice.function.name)


def _tool(tool: _Tool) -> Tool:
    if tool.function is None:
        raise cannot_carry("A custom tool")
    function = tool.function
    return Tool(function.name, function.description or "", function.parameters or dict(_NO_SCHEMA))


def _output_format(given: _Format | None) -> OutputFormat | None:
    if given is None or given.type == "text":
        return None
    schema = given.json_schema
    if schema is None:
        return OutputFormat()
    return OutputFormat(schema.schema, schema.name, bool(schema.strict))


# Writing


def write(conversation: Conversation, model: str) -> bytes:
    """The request for a provider who speaks chat. Raises MalformedRequest."""
    request: dict[str, Any] = {"model": model, "messages": _messages(conversation, model)}
    if conversation.stream:
        request["stream"] = True
        if not openai_chat_models.is_mistral(model):
            request["stream_options"] = {"include_usage": True}
    request |= _limits(conversation, model)
    if conversation.tools:
        request |= _tool_fields(conversation)
    if conversation.output_format is not None:
        request["response_format"] = _response_format(conversation.output_format)
    return msgspec.json.encode(request)


def _limits(conversation: Conversation, model: str) -> dict[str, Any]:
    reasons = openai_chat_models.reasons(model)
    fields = {
        "max_completion_tokens" if reasons else "max_tokens": conversation.max_tokens,
        "temperature": None if reasons else conversation.temperature,
        "top_p": None if reasons else conversation.top_p,
        "reasoning_effort": conversation.reasoning_effort if reasons else None,
        "stop": list(conversation.stop) or None,
        "random_seed" if openai_chat_models.is_mistral(model) else "seed": conversation.seed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _tool_fields(conversation: Conversation) -> dict[str, Any]:
    fields: dict[str, Any] = {"tools": [_written_tool(tool) for tool in conversation.tools]}
    choice = conversation.tool_choice
    if choice is not None:
        fields["tool_choice"] = _written_choice(choice)
    if conversation.parallel_tools is not None:
        fields["parallel_tool_calls"] = conversation.parallel_tools
    return fields


def _written_tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _written_choice(choice: ToolChoice) -> Any:
    if choice.kind == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return "required" if choice.kind == "any" else choice.kind


def _response_format(given: OutputFormat) -> dict[str, Any]:
    if given.schema is None:
        return {"type": "json_object"}
    schema = {"name": given.name, "schema": given.schema, "strict": given.strict}
    return {"type": "json_schema", "json_schema": schema}


def _messages(conversation: Conversation, model: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if conversation.system:
        messages.append({"role": "system", "content": conversation.system})
    for message in conversation.messages:
        if message.role == "assistant":
            messages += _assistant_message(message, model)
        else:
            messages += _user_messages(message, model)
    return messages


def _assistant_message(message: Message, model: str) -> list[dict[str, Any]]:
    texts = [part for part in message.parts if isinstance(part, Text) and part.text]
    calls = [part for part in message.parts if isinstance(part, ToolUse)]
    if not texts and not calls:
        return []
    written: dict[str, Any] = {
        "role": "assistant",
        "content": _written_content([*texts]) if texts else None,
    }
    if calls:
        written["tool_calls"] = [written_call(call, model) for call in calls]
    return [written]


def written_call(call: ToolUse, model: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {
        "id": openai_chat_models.call_id(call.id, model),
        "type": "function",
        "function": function,
    }


def _user_messages(message: Message, model: str) -> list[dict[str, Any]]:
    """The tools' results first, as they have to follow their calls, then the rest."""
    written: list[dict[str, Any]] = []
    rest: list[Text | Media] = []
    for part in message.parts:
        match part:
            case ToolResult():
                written.append(_written_result(part, model))
                # A tool's message takes text only.
                rest += [piece for piece in part.parts if isinstance(piece, Media)]
            case Text() | Media():
                rest.append(part)
            case _:
                pass
    rest = [part for part in rest if not isinstance(part, Text) or part.text]
    if rest:
        written.append({"role": "user", "content": _written_content(rest)})
    return written


def _written_result(result: ToolResult, model: str) -> dict[str, Any]:
    text = turns.text_of(result.parts)
    if not text and result.parts:
        text = _ATTACHED
    return {
        "role": "tool",
        "tool_call_id": openai_chat_models.call_id(result.tool_use_id, model),
        "content": f"Error: {text}" if result.is_error else text,
    }


def _written_content(parts: list[Text | Media]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_written_part(part) for part in parts]


def _written_part(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.media_type.startswith("image/"):
        url = part.url or media.data_url(part)
        return {"type": "image_url", "image_url": {"url": url}}
    if part.data is None:
        raise cannot_carry("A document by its URL")
    if part.media_type in _SOUND_FORMATS:
        sound = {"data": part.data, "format": _SOUND_FORMATS[part.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    if part.media_type == media.PDF:
        file = {"filename": "document.pdf", "file_data": media.data_url(part)}
        return {"type": "file", "file": file}
    raise cannot_carry(f"Content of type {part.media_type}")
