"""A model call in no vendor's words: what every wire can read into and write from.

Only calls that change wires on their way (an Anthropic caller served by OpenAI, say) and the
built-in model take this road; all others pass through as the bytes they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one call. `input` includes what was cached, `output` includes reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    # The part of cache_write that is kept for an hour, which costs more.
    cache_write_long: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


# What is said


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str


class Media(msgspec.Struct, frozen=True, tag="media"):
    """An image, a PDF or a sound: as base64 data or as a URL, never both."""

    media_type: str
    data: str | None = None
    url: str | None = None


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What a model thought. The signature is its maker's; others are not shown it."""

    text: str
    signature: str | None = None


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use"):
    """`arguments` is JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    tool_use_id: str
    parts: list[Text | Media]
    is_error: bool = False
    # Some wires want the name of the tool again.
    name: str | None = None


Part = Text | Media | Thinking | ToolUse | ToolResult


class Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: list[Part]


class Tool(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]


class ToolChoice(msgspec.Struct, frozen=True):
    """`any`: some tool must be used; `tool`: this one."""

    kind: Literal["auto", "any", "none", "tool"]
    name: str | None = None


class OutputFormat(msgspec.Struct, frozen=True):
    """JSON is asked for; of a given schema, if there is one."""

    schema: dict[str, Any] | None = None
    name: str = "output"
    strict: bool = False


class Conversation(msgspec.Struct, frozen=True):
    """A request: what was said so far, and how the answer should be."""

    model: str
    messages: list[Message]
    system: str = ""
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    output_format: OutputFormat | None = None
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    stream: bool = False


# What is answered


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    FILTERED = "filtered"


class Answer(msgspec.Struct, frozen=True):
    """A whole answer: text, thinking and tool uses, in order."""

    id: str
    model: str
    parts: list[Text | Thinking | ToolUse]
    finish: Finish
    usage: Usage


# The same, bit by bit. `index` counts the parts of the answer from 0; a part's events come
# together and in order, but for tool uses, whose arguments may alternate.


class Started(msgspec.Struct, frozen=True):
    id: str
    model: str
    usage: Usage = Usage()


class TextDelta(msgspec.Struct, frozen=True):
    index: int
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    index: int
    text: str
    signature: str | None = None


class ToolStarted(msgspec.Struct, frozen=True):
    index: int
    id: str
    name: str


class ToolDelta(msgspec.Struct, frozen=True):
    index: int
    arguments: str


class Finished(msgspec.Struct, frozen=True):
    finish: Finish
    usage: Usage


class Broken(msgspec.Struct, frozen=True):
    """The provider reported an error in the middle of its stream."""

    kind: str
    message: str


StreamEvent = Started | TextDelta | ThinkingDelta | ToolStarted | ToolDelta | Finished | Broken
