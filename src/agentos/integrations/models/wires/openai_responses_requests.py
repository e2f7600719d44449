"""Requests of the Responses API, read into a conversation and written from one.

What this API has no place for is lost on writing: stop sequences, a seed, thinking (which is not
OpenAI's, and so not for it to see), that a tool's result is an error (its text then says so).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from agentos.integrations.models.conversation import (
    Conversation,
    Media,
    Message,
    OutputFormat,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.wires import glancing, media, openai_chat_models, turns
from agentos.integrations.models.wires.base import MalformedRequest
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.openai_responses_items import (
    CALL,
    KIND,
    Audio,
    Content,
    written_call,
)
from agentos.integrations.models.wires.turns import cannot_carry

T = TypeVar("T")

_EFFORTS: dict[str, Literal["minimal", "low", "medium", "high"]] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
_CHOICES = {
    "auto": ToolChoice("auto"),
    "none": ToolChoice("none"),
    "required": ToolChoice("any"),
}
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


# The shape of a request


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Content]


class _CallOutput(msgspec.Struct):
    call_id: str
    output: str | list[Content]


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _AllowedTool(msgspec.Struct):
    name: str = ""


class _Choice(msgspec.Struct):
    type: str
    name: str = ""
    mode: str = "auto"
    tools: list[_AllowedTool] = []


class _Format(msgspec.Struct):
    type: str = "text"
    name: str = "output"
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class _TextSettings(msgspec.Struct):
    format: _Format | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None


class _Request(msgspec.Struct):
    model: str
    input: str | list[Raw] | None = None
    instructions: str | None = None
    tools: list[Raw] | None = None
    tool_choice: str | _Choice | None = None
    text: _TextSettings | None = None
    reasoning: _Reasoning | None = None
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    conversation: Raw = Raw()
    prompt: Raw = Raw()


_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGE = msgspec.json.Decoder(_Message)
_CALL_OUTPUT = msgspec.json.Decoder(_CallOutput)
_FUNCTION = msgspec.json.Decoder(_Function)


# As it is read


def read(body: bytes) -> Conversation:
    """Raises MalformedRequest, also for what no other wire could carry."""
    request = glancing.decode(_REQUEST, body)
    _refuse(request)
    system, messages = _said(request)
    tools, choice = _read_tools(request)
    effort = request.reasoning.effort if request.reasoning else None
    return Conversation(
        model=request.model,
        messages=messages,
        system=system,
        tools=tools,
        tool_choice=choice,
        parallel_tools=request.parallel_tool_calls,
        max_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        output_format=_read_format(request.text),
        reasoning_effort=_EFFORTS.get(effort or "none"),
        stream=request.stream is True,
    )


def _piece(decoder: msgspec.json.Decoder[T], raw: Raw, where: str) -> T:
    """One item or tool of a request."""
    try:
        return decoder.decode(raw)
    except UNREADABLE as error:
        raise MalformedRequest(f"`{where}` is not what this API expects: {error}.") from None


def _refuse(request: _Request) -> None:
    """Names the first thing in a request that only OpenAI keeps."""
    found = {
        "previous_response_id": request.previous_response_id is not None,
        "conversation": glancing.given(request.conversation),
        "prompt": glancing.given(request.prompt),
    }
    for name, given in found.items():
        if given:
            raise cannot_carry(f"`{name}` names what only OpenAI keeps: it")


def _said(request: _Request) -> tuple[str, list[Message]]:
    """The system prompt, wherever it stands, and the turns."""
    if request.input is None:
        raise MalformedRequest("`input` is missing.")
    system = [request.instructions or ""]
    if isinstance(request.input, str):
        messages = [Message("user", [Text(request.input)])]
    else:
        messages = []
        for i, raw in enumerate(request.input):
            _read_item(raw, f"input[{i}]", system, messages)
    joined = "\n\n".join(text for text in system if text)
    return joined, turns.with_tool_names(turns.alternating(messages))


def _read_item(raw: Raw, where: str, system: list[str], messages: list[Message]) -> None:
    kind = _piece(KIND, raw, where).type
    if kind == "message":
        message = _piece(_MESSAGE, raw, where)
        parts = _read_contents(message.content, f"{where}.content")
        if message.role in ("user", "assistant"):
            messages.append(Message(message.role, [*parts]))
        else:
            system.append(turns.text_of(parts))
    elif kind == "function_call":
        call = _piece(CALL, raw, where)
        messages.append(Message("assistant", [ToolUse(call.call_id, call.name, call.arguments)]))
    elif kind == "function_call_output":
        output = _piece(_CALL_OUTPUT, raw, where)
        parts = _read_contents(output.output, f"{where}.output")
        messages.append(Message("user", [ToolResult(output.call_id, parts)]))
    elif kind != "reasoning":  # Thoughts are sealed by OpenAI: nobody else can read them.
        raise cannot_carry(f"An input item of type `{kind}` (`{where}`)")


def _read_contents(contents: str | list[Content], where: str) -> list[Text | Media]:
    if isinstance(contents, str):
        return [Text(contents)]
    return [_read_content(content, f"{where}[{i}]") for i, content in enumerate(contents)]


def _read_content(content: Content, where: str) -> Text | Media:
    match content:
        case Content(file_id=str()):
            raise cannot_carry(f"A file that only OpenAI keeps (`{where}.file_id`)")
        case Content(type="input_text" | "output_text" | "text"):
            return Text(content.text)
        case Content(type="refusal"):
            return Text(content.refusal)
        case Content(type="input_image", image_url=str(url)):
            return media.image(url)
        case Content(type="input_file", file_data=str(data)):
            return media.from_data_url(data, media.PDF) or Media(media.PDF, data=data)
        case Content(type="input_file", file_url=str(url)):
            return Media(media.PDF, url=url)
        case Content(type="input_audio", input_audio=Audio() as sound):
            return Media(_SOUNDS.get(sound.format, f"audio/{sound.format}"), data=sound.data)
    raise cannot_carry(f"Content of type `{content.type}` (`{where}`)")


def _read_tools(request: _Request) -> tuple[list[Tool], ToolChoice | None]:
    """The tools that may be used, and whether one must be."""
    tools = [_read_tool(raw, f"tools[{i}]") for i, raw in enumerate(request.tools or [])]
    choice = request.tool_choice
    if choice is None:
        return tools, None
    mode = choice if isinstance(choice, str) else choice.mode
    if mode not in _CHOICES:
        raise MalformedRequest("`tool_choice` is none of auto, none, required or a tool.")
    if isinstance(choice, str):
        return tools, _CHOICES[mode]
    if choice.type == "function":
        return tools, ToolChoice("tool", choice.name)
    if choice.type != "allowed_tools":
        raise cannot_carry(f"`tool_choice` of type `{choice.type}`")
    allowed = {tool.name for tool in choice.tools}
    return [tool for tool in tools if tool.name in allowed], _CHOICES[mode]


def _read_tool(raw: Raw, where: str) -> Tool:
    kind = _piece(KIND, raw, where).type
    if kind != "function":
        raise cannot_carry(f"A tool of type `{kind}` (`{where}`)")
    function = _piece(_FUNCTION, raw, where)
    schema = function.parameters or {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", schema)


def _read_format(settings: _TextSettings | None) -> OutputFormat | None:
    if settings is None or settings.format is None or settings.format.type == "text":
        return None
    wanted = settings.format
    if wanted.type == "json_object":
        return OutputFormat()
    if wanted.type == "json_schema":
        return OutputFormat(wanted.schema, wanted.name, bool(wanted.strict))
    raise cannot_carry(f"`text.format` of type `{wanted.type}`")


# As it is written


def write(conversation: Conversation, model: str) -> bytes:
    messages = conversation.messages
    request: dict[str, Any] = {
        "model": model,
        "input": [item for message in messages for item in _write_message(message)],
        # The caller spoke another dialect and cannot have agreed to OpenAI keeping it.
        "store": False,
    }
    if conversation.system:
        request["instructions"] = conversation.system
    if conversation.stream:
        request["stream"] = True
    return msgspec.json.encode(request | _write_wishes(conversation, model))


def _write_message(message: Message) -> Iterator[dict[str, Any]]:
    """The items of one turn. Thinking is left out: it is not OpenAI's, and so not for it to see."""
    contents: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text() if message.role == "assistant":
                yield {"type": "message", "role": "assistant", "content": part.text}
            case ToolUse():
                yield written_call(part.id, part.name, part.arguments)
            case ToolResult():
                if contents:
                    yield {"type": "message", "role": "user", "content": contents}
                    contents = []
                yield _write_result(part)
            case Text() | Media() if message.role == "user":
                contents.append(_write_content(part))
            case _:
                pass
    if contents:
        yield {"type": "message", "role": "user", "content": contents}


def _write_result(result: ToolResult) -> dict[str, Any]:
    parts = [Text("Error:"), *result.parts] if result.is_error else result.parts
    output: str | list[dict[str, Any]] = turns.text_of(parts)
    if any(isinstance(part, Media) for part in parts):
        output = [_write_content(part) for part in parts]
    return {"type": "function_call_output", "call_id": result.tool_use_id, "output": output}


def _write_content(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if part.url is None and part.media_type in _SOUND_FORMATS:
        sound = {"data": part.data, "format": _SOUND_FORMATS[part.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    source = part.url or media.data_url(part)
    if part.media_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": source}
    if part.url is not None:
        return {"type": "input_file", "file_url": source}
    # OpenAI wants a name, and reads the kind of file from its ending.
    ending = part.media_type.rpartition("/")[2]
    return {"type": "input_file", "filename": f"document.{ending}", "file_data": source}


def _write_tool(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        # Left out, it would mean true, and OpenAI would refuse many a schema.
        "strict": False,
    }


def _write_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.kind == "tool":
        return {"type": "function", "name": choice.name}
    return "required" if choice.kind == "any" else choice.kind


def _write_format(wanted: OutputFormat) -> dict[str, Any]:
    if wanted.schema is None:
        return {"format": {"type": "json_object"}}
    schema = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
    return {"format": {"type": "json_schema", **schema}}


def _write_wishes(said: Conversation, model: str) -> dict[str, Any]:
    """How the answer should be, as far as the model takes it: see `openai_chat_models`."""
    reasons = openai_chat_models.reasons(model)
    effort = said.reasoning_effort if reasons else None
    wishes: dict[str, Any] = {
        "max_output_tokens": said.max_tokens,
        "temperature": None if reasons else said.temperature,
        "top_p": None if reasons else said.top_p,
        "reasoning": effort and {"effort": effort},
        "text": said.output_format and _write_format(said.output_format),
    }
    if said.tools:
        wishes["tools"] = [_write_tool(tool) for tool in said.tools]
        wishes["tool_choice"] = said.tool_choice and _write_choice(said.tool_choice)
        wishes["parallel_tool_calls"] = said.parallel_tools
    return {name: wish for name, wish in wishes.items() if wish is not None}
