"""What a server makes of a reply for one request, before any vendor's format."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agentos.testing.scripts import Finish, Reply

_MOST_CHUNKS = 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a vendor's endpoint read from a request."""

    model: str = ""
    # All that is said to the model, for counting.
    text: str = ""
    # What the user said last, for echoing.
    last: str = ""
    max_tokens: int | None = None
    stream: bool = False
    choices: int = 1
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnsweredTool:
    name: str
    arguments: str
    id: str | None
    pieces: list[str]

    @property
    def input(self) -> Any:
        """The arguments as an object; text that is none stands for itself."""
        try:
            return msgspec.json.decode(self.arguments)
        except msgspec.DecodeError:
            return self.arguments


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with every open choice made. `number` counts the server's answers from 1."""

    number: int
    model: str
    text: str
    pieces: list[str]
    thinking: str
    thinking_pieces: list[str]
    tools: list[AnsweredTool]
    finish: Finish
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    delay: float


def count_tokens(text: str) -> int:
    """One token for each word: easy to predict in a test."""
    return len(text.split())


def split(text: str, chunks: int | None = None) -> list[str]:
    """The text in so many pieces, between words as far as there are enough of them."""
    if not text:
        return []
    wanted = max(1, chunks if chunks is not None else min(count_tokens(text), _MOST_CHUNKS))
    units = _words(text) if count_tokens(text) >= wanted else list(text)
    wanted = min(wanted, len(units))
    bounds = [round(i * len(units) / wanted) for i in range(wanted + 1)]
    return ["".join(units[a:b]) for a, b in itertools.pairwise(bounds)]


def answer(reply: Reply, prompt: Prompt, number: int) -> Answer:
    """Makes the answer to a prompt, within its maximum of tokens."""
    text = reply.text if reply.text is not None else ("" if reply.tool_calls else prompt.last)
    tools = [_tool(call.name, call.arguments, call.id) for call in reply.tool_calls]
    thinking, left = _within(reply.thinking, prompt.max_tokens)
    text, left = _within(text, left)
    wanted = _wanted(reply)
    was_cut = left is not None and left < 0
    if was_cut:
        tools = []
    written = count_tokens(thinking) + count_tokens(text) + _count_tools(tools)
    output = reply.output_tokens if reply.output_tokens is not None else written
    if prompt.max_tokens is not None and output > prompt.max_tokens:
        output, was_cut = prompt.max_tokens, True
    return Answer(
        number=number,
        model=reply.model or prompt.model,
        text=text,
        pieces=split(text, reply.chunks),
        thinking=thinking,
        thinking_pieces=split(thinking, reply.chunks),
        tools=tools,
        finish="length" if was_cut else wanted,
        input_tokens=_input_tokens(reply, prompt),
        cached_tokens=reply.cached_tokens,
        cache_write_tokens=reply.cache_write_tokens,
        output_tokens=output,
        reasoning_tokens=min(count_tokens(thinking), output),
        delay=reply.delay,
    )


def objects(value: Any) -> list[dict[str, Any]]:
    """The value, if it is a list of objects with something in it; else nothing."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return value
    return []


def members(value: Any) -> dict[str, Any]:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(given: Any, default: int) -> int:
    """A number from a query, if it is one."""
    return int(given) if isinstance(given, str) and given.isdecimal() else default


def said(
    turns: list[dict[str, Any]], content: Callable[[dict[str, Any]], Any]
) -> tuple[list[str], str]:
    """Every text of a conversation, and what the user said last. A turn of no role is the user's."""
    texts = [strings(content(turn)) for turn in turns]
    by_user = [
        text for text, turn in zip(texts, turns, strict=True) if turn.get("role", "user") == "user"
    ]
    return [one for text in texts for one in text], "\n".join(by_user[-1]) if by_user else ""


def strings(value: Any) -> list[str]:
    """Every text of a message's content, whether a string or a list of parts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        # A tool result holds its text one level down.
        return (
            [value["text"]] if isinstance(value.get("text"), str) else strings(value.get("content"))
        )
    if isinstance(value, Sequence):
        return [text for part in value for text in strings(part)]
    return []


def _words(text: str) -> list[str]:
    """The words, each with the space that follows it."""
    words: list[str] = []
    start = 0
    for at in range(1, len(text)):
        if text[at - 1].isspace() and not text[at].isspace():
            words.append(text[start:at])
            start = at
    return [*words, text[start:]]


def _within(text: str, left: int | None) -> tuple[str, int | None]:
    """The text as far as the tokens go, and what is left: less than 0 if some was cut off."""
    if left is None:
        return text, None
    if left < 0:
        return "", left
    if count_tokens(text) <= left:
        return text, left - count_tokens(text)
    return " ".join(text.split()[:left]), -1


def _wanted(reply: Reply) -> Finish:
    if reply.finish is not None:
        return reply.finish
    return "tool_use" if reply.tool_calls else "stop"


def _input_tokens(reply: Reply, prompt: Prompt) -> int:
    if reply.input_tokens is not None:
        return reply.input_tokens
    return max(1, count_tokens(prompt.text), reply.cached_tokens + reply.cache_write_tokens)


def _tool(name: str, arguments: dict[str, Any] | str, id: str | None) -> AnsweredTool:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    half = len(text) // 2
    return AnsweredTool(name, text, id, [piece for piece in (text[:half], text[half:]) if piece])


def _count_tools(tools: list[AnsweredTool]) -> int:
    return sum(count_tokens(tool.name) + count_tokens(tool.arguments) for tool in tools)
