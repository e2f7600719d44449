"""The demo model's tokens: pieces of up to four letters, so that counts look like a real model's."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from agentos.integrations.models.conversation import (
    Conversation,
    Media,
    Part,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

_PIECE = re.compile(r"\s?\w{1,4}|\s?[^\w\s]{1,2}|\s+")
# What stands around each message, and for each picture, whatever its size.
_PER_MESSAGE = 4
_PER_MEDIA = 256
_COUNTED_LETTERS = 32_768


def pieces(text: str) -> list[str]:
    """The tokens of a text; joined they are the text."""
    return _PIECE.findall(text)


# A conversation repeats its tools and its beginning in every call; 1,024 texts are a few MB at most.
@lru_cache(maxsize=1024)
def count(text: str) -> int:
    """The tokens of a text. Of a very long one, all but the beginning is estimated."""
    if len(text) <= _COUNTED_LETTERS:
        return len(pieces(text))
    return len(pieces(text[:_COUNTED_LETTERS])) * len(text) // _COUNTED_LETTERS


def count_tokens(conversation: Conversation) -> int:
    """The tokens of all that the model would read."""
    total = count(conversation.system)
    for message in conversation.messages:
        total += _PER_MESSAGE + sum(map(_of_part, message.parts))
    for tool in conversation.tools:
        schema = msgspec.json.encode(tool.schema).decode()
        total += _PER_MESSAGE + count(tool.name) + count(tool.description) + count(schema)
    return total + _PER_MESSAGE


def _of_part(part: Part) -> int:
    match part:
        case Text() | Thinking():
            return count(part.text)
        case Media():
            return _PER_MEDIA
        case ToolUse():
            return count(part.name) + count(part.arguments)
        case ToolResult():
            return sum(map(_of_part, part.parts))
