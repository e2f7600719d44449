"""Carrying a conversation over from one wire to another: its turns, and what has no way across."""

from __future__ import annotations

from collections.abc import Iterable

from agentos.integrations.models.conversation import (
    Media,
    Message,
    Part,
    Text,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.wires.base import MalformedRequest

# How the signature of a thought begins that is Google's: no other vendor is sent it.
GOOGLES = "google:"


def cannot_carry(what: str) -> MalformedRequest:
    return MalformedRequest(
        f"{what} cannot be carried over to the provider that serves this model.",
        hint="Leave it out, or call a model of a provider that speaks this API itself.",
    )


def alternating(messages: Iterable[Message]) -> list[Message]:
    """The messages without empty texts, and with neighbours of the same side merged."""
    turns: list[Message] = []
    for message in messages:
        parts = [part for part in message.parts if not (isinstance(part, Text) and not part.text)]
        if not parts:
            continue
        if turns and turns[-1].role == message.role:
            turns[-1] = Message(message.role, [*turns[-1].parts, *parts])
        else:
            turns.append(Message(message.role, parts))
    return turns


def with_tool_names(messages: list[Message]) -> list[Message]:
    """The messages with every tool result saying which tool it is of."""
    names = {
        part.id: part.name
        for message in messages
        for part in message.parts
        if isinstance(part, ToolUse)
    }
    return [
        Message(message.role, [_named(part, names) for part in message.parts])
        for message in messages
    ]


def text_of(parts: Iterable[Text | Media]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _named(part: Part, names: dict[str, str]) -> Part:
    if not isinstance(part, ToolResult) or part.name is not None:
        return part
    return ToolResult(part.tool_use_id, part.parts, part.is_error, names.get(part.tool_use_id))
