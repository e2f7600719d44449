"""Message requests, read into a conversation and written from one.

What messages have no place for is lost on writing: a seed, thinking that Claude did not sign, the
name of an output format. A model that takes no temperature is not told one.
"""

from __future__ import annotations

import re
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
from agentos.integrations.models.wires import anthropic_models, glancing, media, turns
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.turns import cannot_carry

# Anthropic wants a limit where others have none: the most that every model since Claude 3.5 takes.
DEFAULT_MAX_TOKENS = 8192
# Anthropic's own least; what is left for the answer is kept as large.
LEAST_BUDGET = 1024

Effort = Literal["minimal", "low", "medium", "high"]
_BUDGETS: dict[Effort, int] = {
    "minimal": LEAST_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
}
_EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
# A conversation has to begin with the user.
_BEGIN = {"role": "user", "content": "Begin."}
_JSON_ONLY = "Answer with one JSON object and nothing else."


# The shape of a request


class _Source(msgspec.Struct):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: str | list[dict[str, Any]] | None = None


class _TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    source: _Source


class _DocumentBlock(msgspec.Struct, tag_field="type", tag="document"):
    source: _Source


class _ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = ""


class _RedactedBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    data: str = ""


class _ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: msgspec.Raw


class _ToolReferenceBlock(msgspec.Struct, tag_field="type", tag="tool_reference"):
    tool_name: str


_Content = _TextBlock | _ImageBlock | _DocumentBlock | _ToolReferenceBlock


class _ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[_Content] | None = None
    is_error: bool | None = None


_Block = (
    _TextBlock
    | _ImageBlock
    | _DocumentBlock
    | _ThinkingBlock
    | _RedactedBlock
    | _ToolUseBlock
    | _ToolResultBlock
)


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block]


class _Tool(msgspec.Struct):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    # Not shown to the model before a result refers to it.
    defer_loading: bool | None = None


class _ToolChoice(msgspec.Struct):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class _Format(msgspec.Struct):
    type: str = "json_schema"
    schema: dict[str, Any] | None = None


class _OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: _Format | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[_Message]
    max_tokens: int
    system: str | list[_TextBlock] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    # The name the format had while it was in beta.
    output_format: _Format | None = None
    mcp_servers: list[Any] | None = None
    container: Any = None
    thread: Any = None


class _Signed(msgspec.Struct):
    """A block of any kind, as far as its signature goes."""

    type: str = ""
    signature: str | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_RAW_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])
_SIGNED = msgspec.json.Decoder(_Signed)


def read(body: bytes) -> Conversation:
    """Raises MalformedRequest, also for what no other wire could carry."""
    request = glancing.decode(_REQUEST, body)
    _refuse(request)
    system, messages = _said(request)
    choice = request.tool_choice
    return Conversation(
        model=request.model,
        messages=messages,
        system=system,
        tools=_tools(request),
        tool_choice=None if choice is None else ToolChoice(choice.type, choice.name),
        parallel_tools=False if choice and choice.disable_parallel_tool_use else None,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop_sequences or [],
        output_format=_output_format(request),
        reasoning_effort=_effort(request),
        stream=request.stream is True,
    )


def _refuse(request: _Request) -> None:
    found = {
        "mcp_servers": bool(request.mcp_servers),
        "container": request.container is not None,
        "thread": request.thread is not None,
    }
    for field, given in found.items():
        if given:
            raise cannot_carry(f"`{field}`")


def _said(request: _Request) -> tuple[str, list[Message]]:
    """The system prompt, wherever it stands, and the turns."""
    system = [_system_text(request.system or "")]
    messages: list[Message] = []
    for message in request.messages:
        parts = _parts(message.content)
        if message.role == "system":
            system += [part.text for part in parts if isinstance(part, Text)]
        else:
            messages.append(Message(message.role, parts))
    joined = "\n\n".join(text for text in system if text)
    return joined, turns.with_tool_names(turns.alternating(messages))


def _system_text(system: str | list[_TextBlock]) -> str:
    if isinstance(system, str):
        return system
    return "\n\n".join(block.text for block in system if block.text)


def _parts(content: str | list[_Block]) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    parts: list[Part] = []
    for block in content:
        match block:
            case _ThinkingBlock():
                parts.append(Thinking(block.thinking, block.signature or None))
            case _RedactedBlock():
                # Only Claude can read it.
                pass
            case _ToolUseBlock():
                parts.append(ToolUse(block.id, block.name, bytes(block.input).decode()))
            case _ToolResultBlock():
                parts.append(_result(block))
            case _TextBlock() | _ImageBlock() | _DocumentBlock():
                parts.append(_content(block))
    return parts


def _result(block: _ToolResultBlock) -> ToolResult:
    content = block.content
    pieces = [Text(content)] if isinstance(content, str) else [_content(b) for b in content or []]
    kept = [piece for piece in pieces if not isinstance(piece, Text) or piece.text]
    return ToolResult(block.tool_use_id, kept, block.is_error is True)


def _content(block: _Content) -> Text | Media:
    if isinstance(block, _TextBlock):
        return Text(block.text)
    if isinstance(block, _ToolReferenceBlock):
        return Text(f"The tool {block.tool_name} can be used from now on.")
    source = block.source
    if source.type == "url" and source.url is not None:
        if isinstance(block, _ImageBlock):
            return media.image(source.url)
        return Media(media.PDF, url=source.url)
    if source.type == "base64" and source.data is not None:
        otherwise = "image/png" if isinstance(block, _ImageBlock) else media.PDF
        return Media(source.media_type or otherwise, data=source.data)
    if source.type == "text" and source.data is not None:
        return Text(source.data)
    if source.type == "content" and source.content is not None:
        return Text(_document_text(source.content))
    raise cannot_carry("Content that its provider keeps")


def _document_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    if any(block.get("type") != "text" for block in content):
        raise cannot_carry("A document with images")
    return "\n".join(str(block.get("text", "")) for block in content)


def _tools(request: _Request) -> list[Tool]:
    """The tools that the model may see by now."""
    tools = request.tools or []
    if any(tool.defer_loading for tool in tools):
        found = _referred_to(request)
        tools = [tool for tool in tools if not tool.defer_loading or tool.name in found]
    return [_tool(tool) for tool in tools]


def _referred_to(request: _Request) -> set[str]:
    """The names of the tools that a search for tools has found."""
    return {
        piece.tool_name
        for message in request.messages
        for block in message.content
        if isinstance(block, _ToolResultBlock) and not isinstance(block.content, str)
        for piece in block.content or []
        if isinstance(piece, _ToolReferenceBlock)
    }


def _tool(tool: _Tool) -> Tool:
    if tool.type not in (None, "custom") or tool.input_schema is None:
        raise cannot_carry(f"The tool `{tool.type or tool.name}`")
    return Tool(tool.name, tool.description or "", tool.input_schema)


def _output_format(request: _Request) -> OutputFormat | None:
    given = request.output_format
    if request.output_config is not None and request.output_config.format is not None:
        given = request.output_config.format
    return None if given is None else OutputFormat(given.schema)


def _effort(request: _Request) -> Effort | None:
    thinking = request.thinking
    if thinking is not None and thinking.type == "enabled":
        budget = thinking.budget_tokens or LEAST_BUDGET
        fitting = (effort for effort, tokens in _BUDGETS.items() if budget <= tokens)
        return next(fitting, "high")
    if thinking is not None and thinking.type == "disabled":
        return None
    config = request.output_config
    return None if config is None else _EFFORTS.get(config.effort or "")


# Writing


def write(conversation: Conversation, model: str) -> bytes:
    """The request for a provider who speaks messages. Raises MalformedRequest."""
    messages = _messages(conversation)
    request: dict[str, Any] = {"model": model, "messages": messages}
    request |= _thinking(conversation, model)
    system = _written_system(conversation)
    if system:
        request["system"] = system
    if conversation.stream:
        request["stream"] = True
    if conversation.stop:
        request["stop_sequences"] = list(conversation.stop)
    if conversation.tools:
        request |= _tool_fields(conversation)
    return msgspec.json.encode(request)


def _written_system(conversation: Conversation) -> str:
    given = conversation.output_format
    if given is None or given.schema is not None:
        return conversation.system
    # Messages know JSON of a schema only.
    return "\n\n".join(text for text in (conversation.system, _JSON_ONLY) if text)


def _thinking(conversation: Conversation, model: str) -> dict[str, Any]:
    """Limits, thinking, sampling and format, which depend on each other."""
    most = conversation.max_tokens
    fields: dict[str, Any] = {"max_tokens": most or DEFAULT_MAX_TOKENS}
    config: dict[str, Any] = {}
    effort = conversation.reasoning_effort
    if effort is not None and not anthropic_models.takes_budget(model):
        fields["thinking"] = {"type": "adaptive"}
        config["effort"] = "low" if effort == "minimal" else effort
    elif effort is not None and _may_think(conversation):
        budget = _BUDGETS[effort] if most is None else min(_BUDGETS[effort], most - LEAST_BUDGET)
        if budget >= LEAST_BUDGET:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
            fields["max_tokens"] = most or DEFAULT_MAX_TOKENS + budget
    given = conversation.output_format
    if given is not None and given.schema is not None:
        config["format"] = {"type": "json_schema", "schema": given.schema}
    if config:
        fields["output_config"] = config
    # Thinking within a budget forbids a temperature.
    if anthropic_models.takes_sampling(model) and "thinking" not in fields:
        fields |= _sampling(conversation)
    return fields


def _sampling(conversation: Conversation) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if conversation.temperature is not None:
        # Others go up to 2.
        fields["temperature"] = min(conversation.temperature, 1.0)
    elif conversation.top_p is not None:
        # Claude 4.5 takes one of the two only.
        fields["top_p"] = conversation.top_p
    return fields


def _may_think(conversation: Conversation) -> bool:
    """Whether thinking within a budget is allowed here: not with a forced tool, and not in the
    middle of tool uses whose own thinking is not at hand.
    """
    if conversation.tool_choice is not None and conversation.tool_choice.kind in ("any", "tool"):
        return False
    last = conversation.messages[-1].parts if conversation.messages else []
    return not any(isinstance(part, ToolResult | ToolUse) for part in last)


def _tool_fields(conversation: Conversation) -> dict[str, Any]:
    fields: dict[str, Any] = {"tools": [_written_tool(tool) for tool in conversation.tools]}
    choice = conversation.tool_choice
    serial = conversation.parallel_tools is False
    if choice is None and not serial:
        return fields
    written: dict[str, Any] = {"type": "auto" if choice is None else choice.kind}
    if choice is not None and choice.name is not None:
        written["name"] = choice.name
    if serial and written["type"] != "none":
        written["disable_parallel_tool_use"] = True
    return {**fields, "tool_choice": written}


def _written_tool(tool: Tool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "input_schema": {"type": "object", **tool.schema}}
    if tool.description:
        written["description"] = tool.description
    return written


def _messages(conversation: Conversation) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for message in turns.alternating(_unsigned_dropped(conversation.messages)):
        blocks = [_block(part) for part in _results_first(message.parts)]
        messages.append({"role": message.role, "content": blocks})
    if not messages or messages[0]["role"] != "user":
        messages.insert(0, _BEGIN)
    last = messages[-1]
    if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
        # A beginning of the answer may not end in blanks.
        last["content"][-1]["text"] = last["content"][-1]["text"].rstrip() or "…"
    return messages


def _unsigned_dropped(messages: list[Message]) -> list[Message]:
    return [
        Message(
            message.role,
            [
                part
                for part in message.parts
                if not isinstance(part, Thinking) or _is_claudes(part.signature)
            ],
        )
        for message in messages
    ]


def _results_first(parts: list[Part]) -> list[Part]:
    """Tool results have to come before anything else that is said with them."""
    return sorted(parts, key=lambda part: not isinstance(part, ToolResult))


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Media():
            return _media_block(part)
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolUse():
            return tool_use_block(part)
        case ToolResult():
            block: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": block_id(part.tool_use_id),
                "content": [_block(piece) for piece in part.parts],
            }
            return {**block, "is_error": True} if part.is_error else block


def tool_use_block(use: ToolUse) -> dict[str, Any]:
    arguments = arguments_object(use.arguments)
    return {"type": "tool_use", "id": block_id(use.id), "name": use.name, "input": arguments}


def block_id(tool_use_id: str) -> str:
    """The id as Anthropic takes it."""
    return _NOT_IN_IDS.sub("_", tool_use_id) or "_"


def arguments_object(arguments: str) -> Any:
    """Arguments as the object that Anthropic wants: what the model wrote if that is one."""
    if not arguments.strip():
        return {}
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return {"arguments": arguments}
    return msgspec.Raw(arguments.encode())


def _media_block(part: Media) -> dict[str, Any]:
    if part.media_type.startswith("image/"):
        kind = "image"
    elif part.media_type == media.PDF:
        kind = "document"
    else:
        raise cannot_carry(f"Content of type {part.media_type}")
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": kind, "source": source}


def without_foreign(messages: msgspec.Raw) -> Any:
    """The messages without thinking blocks that no Claude signed, all else byte for byte."""
    try:
        return [kept for message in _MESSAGES.decode(messages) if (kept := _claudes_only(message))]
    except msgspec.ValidationError:
        # Not what Anthropic takes: it will say so better.
        return messages


def _claudes_only(message: dict[str, Any]) -> dict[str, Any]:
    """The message without the thinking of other models; empty if it has nothing else."""
    content = message.get("content")
    if content is None or not bytes(content).startswith(b"["):
        return message
    blocks = [block for block in _RAW_BLOCKS.decode(content) if not _is_foreign(block)]
    return {**message, "content": blocks} if blocks else {}


def _is_foreign(block: msgspec.Raw) -> bool:
    signed = _SIGNED.decode(block)
    if signed.type != "thinking" or signed.signature is None:
        return False  # where the field is missing, Anthropic says so
    return not _is_claudes(signed.signature)


def _is_claudes(signature: str | None) -> bool:
    if not signature:
        return False
    return not signature.startswith(turns.GOOGLES)
