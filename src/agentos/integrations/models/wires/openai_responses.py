"""OpenAI's Responses API: `POST /responses`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Conversation,
    Finish,
    Finished,
    Media,
    Message,
    OutputFormat,
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
from agentos.integrations.models.wires import (
    glancing,
    media,
    openai_chat_models,
    openai_errors,
    sse,
    turns,
)
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
from agentos.integrations.models.wires.turns import cannot_carry

T = TypeVar("T")

# What a glance reads


class _ToolKind(msgspec.Struct, gc=False):
    type: str = ""


class _Peek(msgspec.Struct):
    model: str
    stream: bool | None = None
    max_output_tokens: int | None = None
    input: Raw = Raw()
    previous_response_id: str | None = None
    conversation: Raw = Raw()
    prompt: Raw = Raw()
    tools: list[_ToolKind] | None = None
    background: bool | None = None
    service_tier: str | None = None


_PEEK = msgspec.json.Decoder(_Peek)

# Tools that are run by the caller, who sends what they found: it is in the request.
_OWN_TOOLS = frozenset({"function", "custom"})
_ELSEWHERE = (b'"file_id"', b'"file_url"', b'"item_reference"')
_IMAGE = re.compile(rb'"image_url"\s*:\s*"(?!data:)')


def _open_ended(peek: _Peek) -> bool:
    if (
        peek.previous_response_id
        or glancing.given(peek.conversation)
        or glancing.given(peek.prompt)
    ):
        return True
    if peek.tools and any(tool.type not in _OWN_TOOLS for tool in peek.tools):
        return True
    items = bytes(peek.input)
    if not items.startswith(b"["):
        return False
    return any(mark in items for mark in _ELSEWHERE) or glancing.refers_outside(items, _IMAGE)


# Requests, as they are read


class _Audio(msgspec.Struct):
    data: str
    format: str = "wav"


class _Content(msgspec.Struct):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    input_audio: _Audio | None = None


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[_Content]


class _Call(msgspec.Struct):
    call_id: str
    name: str
    arguments: str = ""


class _CallOutput(msgspec.Struct):
    call_id: str
    output: str | list[_Content]


class _Kind(msgspec.Struct):
    # A message need not say that it is one.
    type: str = "message"


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


_KIND = msgspec.json.Decoder(_Kind)
_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGE = msgspec.json.Decoder(_Message)
_CALL = msgspec.json.Decoder(_Call)
_CALL_OUTPUT = msgspec.json.Decoder(_CallOutput)
_FUNCTION = msgspec.json.Decoder(_Function)

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


def _piece(decoder: msgspec.json.Decoder[T], raw: Raw, where: str) -> T:
    """One item or tool of a request."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
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
    kind = _piece(_KIND, raw, where).type
    if kind == "message":
        message = _piece(_MESSAGE, raw, where)
        parts = _read_contents(message.content, f"{where}.content")
        if message.role in ("user", "assistant"):
            messages.append(Message(message.role, [*parts]))
        else:
            system.append(turns.text_of(parts))
    elif kind == "function_call":
        call = _piece(_CALL, raw, where)
        messages.append(Message("assistant", [ToolUse(call.call_id, call.name, call.arguments)]))
    elif kind == "function_call_output":
        output = _piece(_CALL_OUTPUT, raw, where)
        parts = _read_contents(output.output, f"{where}.output")
        messages.append(Message("user", [ToolResult(output.call_id, parts)]))
    elif kind != "reasoning":  # Thoughts are sealed by OpenAI: nobody else can read them.
        raise cannot_carry(f"An input item of type `{kind}` (`{where}`)")


def _read_contents(contents: str | list[_Content], where: str) -> list[Text | Media]:
    if isinstance(contents, str):
        return [Text(contents)]
    return [_read_content(content, f"{where}[{i}]") for i, content in enumerate(contents)]


def _read_content(content: _Content, where: str) -> Text | Media:
    match content:
        case _Content(file_id=str()):
            raise cannot_carry(f"A file that only OpenAI keeps (`{where}.file_id`)")
        case _Content(type="input_text" | "output_text" | "text"):
            return Text(content.text)
        case _Content(type="refusal"):
            return Text(content.refusal)
        case _Content(type="input_image", image_url=str(url)):
            return media.image(url)
        case _Content(type="input_file", file_data=str(data)):
            return media.from_data_url(data, media.PDF) or Media(media.PDF, data=data)
        case _Content(type="input_file", file_url=str(url)):
            return Media(media.PDF, url=url)
        case _Content(type="input_audio", input_audio=_Audio() as sound):
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
    kind = _piece(_KIND, raw, where).type
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


# Requests, as they are written


def _write_message(message: Message) -> Iterator[dict[str, Any]]:
    """The items of one turn. Thinking is left out: it is not OpenAI's, and so not for it to see."""
    contents: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text() if message.role == "assistant":
                yield {"type": "message", "role": "assistant", "content": part.text}
            case ToolUse():
                yield _call_item(part.id, part.name, part.arguments)
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


def _call_item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


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


# Answers, as they are read


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _UsageBody(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None

    def read(self) -> Usage:
        read = self.input_tokens_details or _InputDetails()
        written = self.output_tokens_details or _OutputDetails()
        return Usage(
            input=self.input_tokens,
            output=self.output_tokens,
            cache_read=read.cached_tokens or 0,
            cache_write=read.cache_write_tokens or 0,
            reasoning=written.reasoning_tokens or 0,
        )


class _WithUsage(msgspec.Struct):
    usage: _UsageBody | None = None


class _EndWithUsage(msgspec.Struct):
    response: _WithUsage


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
    usage: _UsageBody | None = None


class _OutputMessage(msgspec.Struct):
    content: list[_Content] = []


class _ReasoningItem(msgspec.Struct):
    summary: list[_Content] = []
    content: list[_Content] | None = None

    @property
    def text(self) -> str:
        return _BETWEEN_THOUGHTS.join(part.text for part in self.summary or self.content or [])


_BETWEEN_THOUGHTS = "\n\n"

_USAGE = msgspec.json.Decoder(_WithUsage)
_END_USAGE = msgspec.json.Decoder(_EndWithUsage)
_RESPONSE = msgspec.json.Decoder(_Response)
_OUTPUT_MESSAGE = msgspec.json.Decoder(_OutputMessage)
_REASONING_ITEM = msgspec.json.Decoder(_ReasoningItem)


def _answered(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise MalformedAnswer(f"not an answer of the Responses API: {error}") from error


def _read_output(raw: Raw) -> tuple[list[Text | Thinking | ToolUse], bool]:
    """The parts of an output item, and whether the model refused in it."""
    kind = _answered(_KIND, raw).type
    if kind == "function_call":
        call = _answered(_CALL, raw)
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


# Answers, as they are written


def _write_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def _write_response(
    id: str, model: str, created: int, max_output: int | None = None
) -> dict[str, Any]:
    """A response that has just begun, with every member that OpenAI's SDKs count on."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": max_output,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }


def _ending(
    finish: Finish, usage: Usage, output: list[dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """How a response ended, and the members that say so."""
    reason = {Finish.LENGTH: "max_output_tokens", Finish.FILTERED: "content_filter"}.get(finish)
    status = "incomplete" if reason else "completed"
    return status, {
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": _write_usage(usage),
    }


class _Item:
    """An output item as it grows."""

    def __init__(self, index: int, id: str, part: Text | Thinking | ToolUse):
        self.index = index
        self.id = id
        self.part = part
        self.written: list[str] = []

    def shape(self, text: str, status: str) -> dict[str, Any]:
        """The item with so much written into it."""
        part = self.part
        if isinstance(part, Text):
            content = [_output_text(text)] if status == "completed" else []
            head = {"id": self.id, "type": "message", "status": status, "role": "assistant"}
            return {**head, "content": content}
        if isinstance(part, Thinking):
            summary = [_summary_text(text)] if status == "completed" else []
            return {"id": self.id, "type": "reasoning", "summary": summary}
        return {"id": self.id, "status": status, **_call_item(part.id, part.name, text)}


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary_text(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


_ITEM_PREFIXES = {Text: "msg", Thinking: "rs", ToolUse: "fc"}


def _item(index: int, answer_id: str, part: Text | Thinking | ToolUse) -> _Item:
    return _Item(index, f"{_ITEM_PREFIXES[type(part)]}_{answer_id}_{index}", part)


def _part_text(part: Text | Thinking | ToolUse) -> str:
    return part.arguments if isinstance(part, ToolUse) else part.text


def _write_error(sequence: int, error_class: str, code: str, message: str) -> bytes:
    # Said twice: the event is as documented, and `error` makes OpenAI's SDKs raise, who would
    # otherwise let it pass as one more event.
    error = openai_errors.error_object(500, error_class, code, message)
    event = {
        "type": "error",
        "sequence_number": sequence,
        "code": code,
        "message": message,
        "param": None,
        "error": error,
    }
    return sse.frame(msgspec.json.encode(event), "error")


class _Writer:
    """Writes the events of a response in the order in which OpenAI sends them."""

    def __init__(self, glance: Glance):
        self._glance = glance
        self._sequence = 0
        self._response: dict[str, Any] = _write_response("", glance.model, 0)
        self._open: dict[int, _Item] = {}
        self._done: dict[int, dict[str, Any]] = {}

    def write(self, event: StreamEvent) -> bytes:
        if isinstance(event, Started):
            return self._start(event)
        if isinstance(event, TextDelta):
            return self._write_text(event)
        if isinstance(event, ThinkingDelta):
            return self._write_thinking(event)
        if isinstance(event, ToolStarted):
            part = ToolUse(event.id, event.name, "")
            return self._close(tools=False) + self._begin(event.index, part)
        if isinstance(event, ToolDelta):
            return self._write_delta(
                event.index, "response.function_call_arguments.delta", event.arguments
            )
        if isinstance(event, Finished):
            return self._end(event)
        return _write_error(self._sequence, event.kind, event.kind, event.message)

    def _event(self, type: str, **members: Any) -> bytes:
        payload = {"type": type, "sequence_number": self._sequence, **members}
        self._sequence += 1
        return sse.frame(msgspec.json.encode(payload), type)

    def _start(self, event: Started) -> bytes:
        created = int(time.time())
        self._response = _write_response(
            event.id, event.model, created, max_output=self._glance.max_output
        )
        return self._event("response.created", response=self._response) + self._event(
            "response.in_progress", response=self._response
        )

    def _write_text(self, event: TextDelta) -> bytes:
        begun = b""
        if event.index not in self._open:
            begun = self._close() + self._begin(event.index, Text(""))
            begun += self._part_event("response.content_part.added", event.index, "")
        return begun + self._write_delta(
            event.index, "response.output_text.delta", event.text, content_index=0, logprobs=[]
        )

    def _write_thinking(self, event: ThinkingDelta) -> bytes:
        if not event.text:  # A signature alone is nothing that OpenAI's callers could use.
            return b""
        begun = b""
        if event.index not in self._open:
            begun = self._close() + self._begin(event.index, Thinking(""))
            begun += self._part_event("response.reasoning_summary_part.added", event.index, "")
        return begun + self._write_delta(
            event.index, "response.reasoning_summary_text.delta", event.text, summary_index=0
        )

    def _begin(self, index: int, part: Text | Thinking | ToolUse) -> bytes:
        item = _item(len(self._open) + len(self._done), self._response["id"], part)
        self._open[index] = item
        return self._event(
            "response.output_item.added",
            output_index=item.index,
            item=item.shape("", "in_progress"),
        )

    def _write_delta(self, index: int, type: str, text: str, **members: Any) -> bytes:
        item = self._open[index]
        item.written.append(text)
        return self._item_event(type, item, delta=text, **members)

    def _item_event(self, type: str, item: _Item, **members: Any) -> bytes:
        return self._event(type, item_id=item.id, output_index=item.index, **members)

    def _part_event(self, type: str, index: int, text: str) -> bytes:
        item = self._open[index]
        if isinstance(item.part, Text):
            return self._item_event(type, item, content_index=0, part=_output_text(text))
        return self._item_event(type, item, summary_index=0, part=_summary_text(text))

    def _close(self, *, tools: bool = True) -> bytes:
        """Ends every item that is open; without `tools`, all but the tool uses."""
        closing = [
            index
            for index, item in self._open.items()
            if tools or not isinstance(item.part, ToolUse)
        ]
        return b"".join(self._finish_item(index) for index in closing)

    def _finish_item(self, index: int) -> bytes:
        item = self._open[index]
        text = "".join(item.written)
        if isinstance(item.part, Text):
            done = self._item_event(
                "response.output_text.done", item, content_index=0, text=text, logprobs=[]
            ) + self._part_event("response.content_part.done", index, text)
        elif isinstance(item.part, Thinking):
            done = self._item_event(
                "response.reasoning_summary_text.done", item, summary_index=0, text=text
            ) + self._part_event("response.reasoning_summary_part.done", index, text)
        else:
            done = self._item_event(
                "response.function_call_arguments.done",
                item,
                name=item.part.name,
                arguments=text,
            )
        del self._open[index]
        self._done[item.index] = item.shape(text, "completed")
        return done + self._event(
            "response.output_item.done", output_index=item.index, item=self._done[item.index]
        )

    def _end(self, event: Finished) -> bytes:
        closed = self._close()
        output = [self._done[index] for index in sorted(self._done)]
        status, members = _ending(event.finish, event.usage, output)
        return closed + self._event(f"response.{status}", response={**self._response, **members})


# Streams, as they are read


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


class _Reader:
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
            handler = self._handlers.get(_answered(_KIND, payload).type)
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
        if _answered(_KIND, event.item).type != "function_call":
            return []
        return self._begin_tool(event.output_index, _answered(_CALL, event.item))

    def _begin_tool(self, item: int, call: _Call) -> list[StreamEvent]:
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
        if _answered(_KIND, event.item).type != "function_call":
            return []
        call = _answered(_CALL, event.item)
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


# Streams that pass through

# Also where it is said, not meant: then the events are looked at, and that is all.
_MATTERS = re.compile(rb"response\.(?:completed|incomplete|failed)")
# OpenAI names its events; those who imitate it may say the type in the data alone.
_EVENT_NAME = re.compile(rb'(?:event: ?|data: ?\{"type": ?")(response\.[a-z_.]+|error)')
_ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})


class _Meter:
    __slots__ = ("_blocks", "_sample", "delivered", "ended", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.delivered = False
        self.ended = False
        self._blocks = sse.Blocks()
        # From the first delta on: the opening repeats the request, however long that is.
        self._sample = Sample()

    def pass_on(self, data: bytes) -> bytes:
        """Raises MalformedAnswer if an event has no end."""
        block = self._blocks.feed(data)
        if block and self.delivered:
            self._sample.add(block)
            if _MATTERS.search(block):
                for event in sse.split(block):
                    self._see(event)
        elif block:
            self._see_opening(block)
        return data

    def _see_opening(self, block: bytes) -> None:
        for event in sse.split(block):
            self._see(event)
            if self.delivered:
                self._sample.add(event)

    def estimate(self) -> int:
        return self._sample.tokens(_Reader())

    def _see(self, event: bytes) -> None:
        found = _EVENT_NAME.match(event)
        name = found[1] if found else _type_within(event)
        if name in _ENDS:
            self.ended = True
            self.usage = _usage_at_end(event)
        elif name == b"response.output_item.added":
            self.delivered = self.delivered or b'"function_call"' in event
        elif name.endswith(b".delta") or name == b"response.output_item.done":
            self.delivered = True


def _type_within(event: bytes) -> bytes:
    try:
        return _KIND.decode(sse.parse(event)[1]).type.encode()
    except UNREADABLE:
        return b""


def _usage_at_end(event: bytes) -> Usage | None:
    try:
        usage = _END_USAGE.decode(sse.parse(event)[1]).response.usage
    except UNREADABLE:
        return None
    return usage.read() if usage else None


class OpenAIResponses:
    """The wire `openai.responses`."""

    name = WireName.RESPONSES

    def glance(self, body: bytes) -> Glance:
        peek = glancing.decode(_PEEK, body)
        if peek.background:
            # Nobody would be there to see what it has used.
            raise MalformedRequest(
                "`background` is not available here.", hint="Leave it out, and use `stream`."
            )
        if not glancing.given(peek.input) and not (
            peek.previous_response_id
            or glancing.given(peek.conversation)
            or glancing.given(peek.prompt)
        ):
            raise MalformedRequest("`input` is missing.")
        return Glance(
            model=glancing.named(peek.model),
            stream=peek.stream is True,
            max_output=glancing.limit(peek.max_output_tokens, "max_output_tokens"),
            open_ended=_open_ended(peek),
            service_tier=peek.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        if model == glance.model:
            return body
        return msgspec.json.encode({**glancing.fields(body), "model": model})

    def usage(self, body: bytes) -> Usage | None:
        try:
            usage = _USAGE.decode(body).usage
        except UNREADABLE:
            return None
        return usage.read() if usage else None

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - usage is always told
        return _Meter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return openai_errors.error_class(status, body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return openai_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return _write_error(0, error_class, code, message)

    def read_request(self, body: bytes) -> Conversation:
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

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        """Stop sequences and seeds have no place in this API and are left out."""
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

    def read_answer(self, body: bytes) -> Answer:
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

    def write_answer(self, answer: Answer) -> bytes:
        shown = [part for part in answer.parts if not isinstance(part, Thinking) or part.text]
        output = [
            _item(index, answer.id, part).shape(_part_text(part), "completed")
            for index, part in enumerate(shown)
        ]
        _, members = _ending(answer.finish, answer.usage, output)
        response = _write_response(answer.id, answer.model, int(time.time()))
        return msgspec.json.encode({**response, **members})

    def reader(self) -> StreamReader:
        return _Reader()

    def writer(self, glance: Glance) -> StreamWriter:
        return _Writer(glance)


RESPONSES = OpenAIResponses()
