"""The script that a prompt can hold: what the demo model shall do, line by line.

The language is described in docs/demo-model.md, whose examples are tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from agentos.integrations.models.conversation import (
    Conversation,
    Message,
    Text,
    Tool,
    ToolResult,
    Usage,
)
from agentos.integrations.models.demo.drafts import (
    Act,
    Call,
    Draft,
    Fail,
    Pause,
    Report,
    Say,
    Think,
)
from agentos.integrations.models.demo.instances import instance
from agentos.integrations.models.demo.json_text import is_json
from agentos.integrations.models.failures import ErrorClass

_BLOCK = re.compile(r"^[ \t]*```demo[ \t]*\r?\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST_PAUSE = 5_000
_MOST_LETTERS = 1_000_000
_MOST_REPETITIONS = 100_000
_MOST_TOKENS = 1_000_000_000


class _Wrong(Exception):
    """A line that cannot be followed; says why."""


def scripted(conversation: Conversation) -> Draft | None:
    """What the script says about this turn; None if there is no script, or it is over."""
    found = _find(conversation)
    if found is None:
        return None
    script, turn = found
    reading = _Reading(conversation)
    for number, line in enumerate(script.splitlines(), 1):
        reading.read(number, line.strip())
    turns = [draft for draft in reading.turns if draft]
    return turns[turn] if turn < len(turns) else None


def _find(conversation: Conversation) -> tuple[str, int] | None:
    """The newest script of the user, else that of the system prompt, and the turn it is in."""
    for position in range(len(conversation.messages) - 1, -1, -1):
        message = conversation.messages[position]
        if message.role == "user" and (script := _block(_text(message))) is not None:
            return script, answers_given(conversation.messages[position + 1 :])
    script = _block(conversation.system)
    return None if script is None else (script, answers_given(conversation.messages))


def _block(text: str) -> str | None:
    blocks = _BLOCK.findall(text) if "```demo" in text else []
    return blocks[-1] if blocks else None


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def answers_given(messages: Sequence[Message]) -> int:
    """How often the assistant has spoken; some wires cut one answer into several messages."""
    roles = [message.role for message in messages]
    return sum(
        role == "assistant" and (position == 0 or roles[position - 1] != "assistant")
        for position, role in enumerate(roles)
    )


def result_text(result: ToolResult) -> str:
    return "\n".join(
        part.text if isinstance(part, Text) else f"[{part.media_type}]" for part in result.parts
    )


def last_result(conversation: Conversation) -> ToolResult | None:
    for message in reversed(conversation.messages):
        for part in reversed(message.parts):
            if isinstance(part, ToolResult):
                return part
    return None


def find_tool(tools: Sequence[Tool], name: str) -> Tool | None:
    """The tool of that name; its server's prefix and capitals may be left out."""
    wanted = name.casefold()
    found = (
        [tool for tool in tools if tool.name == name]
        or [tool for tool in tools if tool.name.casefold() == wanted]
        or [tool for tool in tools if bare_name(tool).casefold() == wanted]
    )
    return found[0] if found else None


def bare_name(tool: Tool) -> str:
    """`search` for `mcp__web__search`."""
    return re.split(r"__|[./:]", tool.name)[-1]


@dataclass(slots=True)
class _Reading:
    """Reads a script line by line into turns."""

    conversation: Conversation
    turns: list[Draft] = field(default_factory=lambda: [[]])
    called: bool = False

    def read(self, number: int, line: str) -> None:
        if not line or line.startswith("#"):
            return
        word, rest = _first_word(line)
        try:
            if word == "then":
                self._end_turn()
                return
            if word not in _LINES:
                raise _Wrong(f"lines begin with {', '.join([*_LINES, 'then'])}")
            act = _LINES[word](rest, self.conversation)
        except _Wrong as wrong:
            act = Say.words(f"Line {number} of the demo script is wrong ({line[:80]!r}): {wrong}.")
        if self.called and word not in self._goes_with_calls():
            self._end_turn()
        self.called = self.called or word == "call"
        self._add(act)

    def _goes_with_calls(self) -> tuple[str, ...]:
        """A call ends the turn, but for these: what is said is said when the result is there.

        It is the word that counts, so that a turn stays a turn when a tool is no longer offered.
        """
        one_by_one = self.conversation.parallel_tools is False
        return ("wait", "usage", "fail") if one_by_one else ("wait", "usage", "fail", "call")

    def _end_turn(self) -> None:
        self.turns.append([])
        self.called = False

    def _add(self, act: Act) -> None:
        turn = self.turns[-1]
        spoken = [each for each in turn if isinstance(each, Say | Think)]
        if spoken and isinstance(act, Say) and isinstance(spoken[-1], Say):
            act = Say(("\n", *act.chunks))
        turn.append(act)


def _say(rest: str, _: Conversation) -> Act:
    return Say.words(rest)


def _think(rest: str, _: Conversation) -> Act:
    return Think(rest)


def _result(_: str, conversation: Conversation) -> Act:
    result = last_result(conversation)
    return Say.words(result_text(result) if result else "(there is no tool result yet)")


def _repeat(rest: str, _: Conversation) -> Act:
    times, text = _first_word(rest)
    many = _number(times, _MOST_REPETITIONS)
    if not text:
        raise _Wrong("it has to be `repeat <times> <text>`")
    if many * (len(text) + 1) > _MOST_LETTERS:
        raise _Wrong(f"that is more than {_MOST_LETTERS:,} letters")
    return Say(tuple(f" {text}" if number else text for number in range(many)))


def _wait(rest: str, _: Conversation) -> Act:
    return Pause(min(_number(rest, 10**9), _LONGEST_PAUSE))


def _fail(rest: str, _: Conversation) -> Act:
    name, message = _first_word(rest)
    if name not in list(ErrorClass):
        raise _Wrong(f"the error classes are {', '.join(ErrorClass)}")
    return Fail(ErrorClass(name), message or "The script told the demo model to fail.")


def _usage(rest: str, _: Conversation) -> Act:
    numbers = [_number(word, _MOST_TOKENS) for word in rest.split()]
    if not 2 <= len(numbers) <= 4:
        raise _Wrong("it has to be `usage <input> <output> [<cache read> [<cache write>]]`")
    usage = Usage(*numbers)
    if usage.cache_read + usage.cache_write > usage.input:
        raise _Wrong("what was cached is part of the input")
    return Report(usage)


def _call(rest: str, conversation: Conversation) -> Act:
    name, arguments = _first_word(rest)
    choice = conversation.tool_choice
    tool = find_tool(conversation.tools, name)
    if tool is None:
        offered = ", ".join(tool.name for tool in conversation.tools) or "none"
        raise _Wrong(f"there is no tool {name!r} here; offered: {offered}")
    if choice and choice.kind == "none":
        raise _Wrong("the caller allows no tools in this answer")
    if choice and choice.kind == "tool" and choice.name != tool.name:
        raise _Wrong(f"the caller wants {choice.name!r} to be used in this answer")
    return Call(tool.name, _arguments(arguments, tool))


def _arguments(written: str, tool: Tool) -> str:
    if not written:
        return minimal_arguments(tool)
    if not is_json(written, dict):
        raise _Wrong("what follows the name of the tool is not a JSON object")
    return written


def minimal_arguments(tool: Tool) -> str:
    made = instance({"type": "object", **tool.schema})
    return msgspec.json.encode(made if isinstance(made, dict) else {}).decode()


def _first_word(line: str) -> tuple[str, str]:
    word, *rest = line.split(maxsplit=1) or [""]
    return word, "".join(rest)


def _number(word: str, most: int) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 12 or int(word) > most:
        raise _Wrong(f"{word[:20]!r} is not a number from 0 to {most:,}")
    return int(word)


_LINES: dict[str, Callable[[str, Conversation], Act]] = {
    "say": _say,
    "think": _think,
    "call": _call,
    "result": _result,
    "repeat": _repeat,
    "wait": _wait,
    "fail": _fail,
    "usage": _usage,
}
