"""What the demo model says when no script tells it what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentos.integrations.models.conversation import (
    Conversation,
    Message,
    Text,
    Tool,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.demo.arithmetic import work_out
from agentos.integrations.models.demo.drafts import Call, Draft, Say
from agentos.integrations.models.demo.json_text import is_json
from agentos.integrations.models.demo.script import bare_name, minimal_arguments, result_text
from agentos.integrations.models.demo.workshop import work

INTRODUCTION = (
    "(I am the demo model that comes with AgentOS: I work offline and by simple rules, I am not "
    "a real AI. Run `agentos models providers add` to connect one.)"
)
_HELP = (
    "I can work out sums (12 * 7), repeat after you, count to ten, list the tools I was given, "
    "use one you name, and follow a script (docs/demo-model.md)."
)

# Coding agents put notes of their own into what the user says.
_NOTE_BEGINS, _NOTE_ENDS = "<system-reminder>", "</system-reminder>"
_LONGEST_READ = 4_000
_LONGEST_SUM_READ = 400
_LONGEST_QUOTE = 200

_REPEAT = re.compile(r"^(?:please )?(?:repeat after me|repeat|echo|say)\b[:,]?\s+(.+)", re.I | re.S)
_COUNT = re.compile(r"\bcount (?:up )?to (\d{1,3}|ten)\b", re.I)
_HOW_MANY = re.compile(r"\bhow many (words|letters|characters)\b.*?(?:[:\"“])\s*(.+)", re.I | re.S)
_ASKS_SUM = re.compile(r"what(?:'s|’s| is)|how much is|calculate|compute|evaluate|work out|=", re.I)
_SUM = re.compile(r"[-+(.\d][-+*/%^().\d\s]*[\d)]")
_OPERATION = re.compile(r"[\d)]\s*(?:[-+*/%^]|\*\*|//)\s*[-+(.\d]")
_ASKS_TOOLS = re.compile(r"\b(?:which|what|list)\b.{0,30}\btools?\b", re.I)
_GREETING = re.compile(r"^\W*(?:hi|hello|hey|help|good (?:morning|day|evening))\b", re.I)


def reply(conversation: Conversation) -> Draft:
    """What to do about the newest message, by simple rules."""
    asked = _asked(conversation)
    if tool := _forced(conversation, asked):
        return [Call(tool.name, _arguments(tool, asked))]
    allowed = _allowed(conversation)
    named = _named(allowed, asked)
    if named is None and (draft := _work(conversation, asked, allowed)) is not None:
        return draft
    results = _new_results(conversation)
    if results:
        return [Say.words(_summary(conversation, results))]
    if named:
        return [Call(named.name, _arguments(named, asked))]
    if repeated := _REPEAT.match(asked):
        return [Say.words(repeated[1].strip().strip('"“”'))]
    text = _answer(conversation, asked)
    if not any(message.role == "assistant" for message in conversation.messages):
        text += f"\n\n{INTRODUCTION}"
    return [Say.words(text)]


def _work(conversation: Conversation, asked: str, allowed: Sequence[Tool]) -> Draft | None:
    messages = conversation.messages
    said = [n for n, message in enumerate(messages) if message.role == "user" and _words(message)]
    done = messages[said[-1] + 1 :] if said else messages
    return work(asked, done, allowed, one_by_one=conversation.parallel_tools is False)


def _answer(conversation: Conversation, asked: str) -> str:
    if total := _sum(asked):
        return total
    if counted := _COUNT.search(asked):
        last = 10 if counted[1].lower() == "ten" else int(counted[1])
        return ", ".join(str(number) for number in range(1, last + 1)) or "0"
    if questioned := _HOW_MANY.search(asked):
        return _how_many(questioned[1].lower(), questioned[2].strip().rstrip("?").strip('"“” '))
    if _ASKS_TOOLS.search(asked):
        return _listed(conversation.tools)
    if not asked or _GREETING.match(asked):
        return f"Hello! {_HELP}"
    return f"You said: “{_quoted(asked)}”"


def _sum(asked: str) -> str | None:
    plain = asked[:_LONGEST_SUM_READ].replace("×", "*").replace("÷", "/").replace("−", "-")
    for found in _SUM.findall(plain):
        alone = plain.strip(" ?=.!") == found.strip()
        if _OPERATION.search(found) and (alone or _ASKS_SUM.search(plain)):
            value = work_out(found)
            if value is not None:
                return f"{' '.join(found.split())} = {value}"
    return None


def _how_many(what: str, text: str) -> str:
    if what == "words":
        number = len(text.split())
    elif what == "letters":
        number = sum(letter.isalpha() for letter in text)
    else:
        number = len(text)
    return f"{number} {what if number != 1 else what[:-1]}"


def _listed(tools: Sequence[Tool]) -> str:
    if not tools:
        return "I was given no tools."
    lines = [f"- {tool.name}: {_first_line(tool.description)}".rstrip(": ") for tool in tools]
    return "\n".join([f"I was given {len(tools)} tool{'s' * (len(tools) != 1)}:", *lines])


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return _quoted(lines[0]) if lines else ""


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_QUOTE else f"{flat[:_LONGEST_QUOTE]}…"


# Tools


def _allowed(conversation: Conversation) -> Sequence[Tool]:
    choice = conversation.tool_choice
    return () if choice and choice.kind == "none" else conversation.tools


def _forced(conversation: Conversation, asked: str) -> Tool | None:
    choice = conversation.tool_choice
    if choice is None or choice.kind not in ("any", "tool"):
        return None
    return forced_tool(conversation, asked)


def forced_tool(conversation: Conversation, asked: str = "") -> Tool | None:
    """The tool that the caller insists on. Of several, those come first that were not used yet:
    agents that insist until one certain tool is used would otherwise never end.
    """
    choice = conversation.tool_choice
    if choice is None or choice.kind in ("auto", "none") or not conversation.tools:
        return None
    if choice.kind == "tool":
        return next((tool for tool in conversation.tools if tool.name == choice.name), None)
    used = {
        part.name
        for message in _since_asked(conversation)
        for part in message.parts
        if isinstance(part, ToolUse)
    }
    unused = [tool for tool in conversation.tools if tool.name not in used]
    return _named(unused, asked) or (unused[0] if unused else conversation.tools[-1])


def _named(tools: Sequence[Tool], asked: str) -> Tool | None:
    folded = asked.casefold()
    for tool in tools:
        for name in filter(None, (tool.name, bare_name(tool))):
            # The cheap look first: coding agents bring many tools.
            if name.casefold() in folded and _is_named(name, asked):
                return tool
    return None


def _is_named(name: str, asked: str) -> bool:
    # Many tools are named like everyday words (Read, Write), so capitals count unless it says "tool".
    named = rf"[`'\"]?{re.escape(name)}[`'\"]?(?!\w)"
    if re.search(rf"\b(?i:use|call|run|invoke|try)\s+(?i:the\s+|your\s+|tool\s+)*{named}", asked):
        return True
    return bool(re.search(rf"(?<!\w){named}\s+tool\b", asked, re.IGNORECASE))


def _arguments(tool: Tool, asked: str) -> str:
    """Those that the user wrote as JSON, else the least that the tool takes."""
    start = asked.find("{")
    end = asked.rfind("}")
    if 0 <= start < end:
        written = asked[start : end + 1]
        if is_json(written, dict):
            return written
    return minimal_arguments(tool)


def _summary(conversation: Conversation, results: Sequence[ToolResult]) -> str:
    names = {
        part.id: part.name
        for message in conversation.messages
        for part in message.parts
        if isinstance(part, ToolUse)
    }
    return "\n".join(
        _summarised(result, result.name or names.get(result.tool_use_id, "tool"))
        for result in results
    )


def _summarised(result: ToolResult, name: str) -> str:
    text = _quoted(result_text(result))
    if result.is_error:
        return f"{name} failed: {text}" if text else f"{name} failed."
    return f"{name} answered: {text}" if text else f"{name} answered nothing."


# What was said


def _asked(conversation: Conversation) -> str:
    """The user's newest words."""
    for message in reversed(conversation.messages):
        if message.role == "user" and (words := _words(message)):
            return words
    return ""


def _words(message: Message) -> str:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return _without_notes("\n".join(texts)).strip()[-_LONGEST_READ:]


def _without_notes(text: str) -> str:
    kept = []
    start = 0
    while (begin := text.find(_NOTE_BEGINS, start)) >= 0:
        end = text.find(_NOTE_ENDS, begin)
        if end < 0:
            break
        kept.append(text[start:begin])
        start = end + len(_NOTE_ENDS)
    return "".join([*kept, text[start:]])


def _since_asked(conversation: Conversation) -> list[Message]:
    """What came after the user's newest words."""
    for position in range(len(conversation.messages) - 1, -1, -1):
        message = conversation.messages[position]
        if message.role == "user" and not _has_results(message) and _words(message):
            return conversation.messages[position + 1 :]
    return conversation.messages


def _has_results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


def _new_results(conversation: Conversation) -> list[ToolResult]:
    """The tool results after the assistant's last words."""
    results: list[ToolResult] = []
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            break
        results[:0] = [part for part in message.parts if isinstance(part, ToolResult)]
        if _words(message) and not _has_results(message):
            return []
    return results
