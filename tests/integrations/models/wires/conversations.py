"""Conversations and answers as Hypothesis makes them up, within what each wire can hold."""

from __future__ import annotations

import base64

import msgspec
from hypothesis import strategies as st

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

# Anthropic takes no blanks at the very end, so words do not end in them.
words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=12)
ids = st.from_regex(r"[a-zA-Z0-9_-]{1,16}", fullmatch=True)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
objects = st.dictionaries(words, st.one_of(words, st.integers(-99, 99), st.booleans()), max_size=3)
arguments = objects.map(lambda value: msgspec.json.encode(value).decode())
texts = words.map(Text)
base64s = st.binary(max_size=12).map(lambda raw: base64.b64encode(raw).decode())
media = st.one_of(
    st.builds(Media, st.sampled_from(["image/png", "application/pdf"]), data=base64s),
    st.builds(Media, st.just("image/png"), url=names.map(lambda n: f"https://a.example/{n}.png")),
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(names, st.just({"type": "string"}))}
)
tools = st.builds(Tool, names, st.one_of(st.just(""), words), schemas)
counts = st.integers(0, 10_000)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    read, written = draw(counts), draw(counts)
    output = draw(counts)
    return Usage(
        input=draw(counts) + read + written,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=draw(st.integers(0, output)),
    )


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """The user, then by turns: an answer, maybe with tools, and what the user says to that."""
    said: list[Message] = [
        Message("user", [*draw(st.lists(texts | media, min_size=1, max_size=3))])
    ]
    for round_ in range(draw(st.integers(0, 3))):
        uses = [
            ToolUse(f"{draw(ids)}-{round_}-{n}", draw(names), draw(arguments))
            for n in range(draw(st.integers(0, 3)))
        ]
        said.append(Message("assistant", [draw(texts), *uses]))
        results = [ToolResult(use.id, [draw(texts)], is_error=False, name=use.name) for use in uses]
        rest = draw(st.lists(texts | media, min_size=0 if results else 1, max_size=2))
        said.append(Message("user", [*results, *rest]))
    return said


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """What both chat and messages can hold: what they cannot has tests of its own."""
    offered = draw(st.lists(tools, max_size=2, unique_by=lambda tool: tool.name))
    choices = [ToolChoice("auto"), ToolChoice("any"), ToolChoice("none")]
    choices += [ToolChoice("tool", tool.name) for tool in offered]
    schema = draw(st.none() | schemas)
    return Conversation(
        model="asked",
        messages=draw(turns()),
        system=draw(st.one_of(st.just(""), words)),
        tools=offered,
        tool_choice=draw(st.sampled_from(choices)) if offered else None,
        max_tokens=draw(st.integers(1, 64_000)),
        temperature=draw(st.none() | st.sampled_from([0.0, 0.5, 1.0])),
        stop=draw(st.lists(words, max_size=2)),
        output_format=None if schema is None else OutputFormat(schema),
        stream=draw(st.booleans()),
    )


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """What chat can hold: thinking, then text, then tool uses."""
    uses = [
        ToolUse(f"{draw(ids)}{n}", draw(names), draw(arguments))
        for n in range(draw(st.integers(0, 3)))
    ]
    thought = [Thinking(draw(words))] if draw(st.booleans()) else []
    text = [draw(texts)] if draw(st.booleans()) or not uses else []
    finishes = [Finish.TOOL_USE] if uses else [Finish.STOP, Finish.LENGTH, Finish.FILTERED]
    return Answer(
        id=draw(ids),
        model=draw(names),
        parts=[*thought, *text, *uses],
        finish=draw(st.sampled_from(finishes)),
        usage=draw(usages()),
    )


def streamed(answer: Answer, size: int = 3) -> list[StreamEvent]:
    """An answer as the events of its stream, each with a few characters."""
    events: list[StreamEvent] = [Started(answer.id, answer.model)]
    for index, part in enumerate(answer.parts):
        match part:
            case Text():
                events += [TextDelta(index, bit) for bit in _bits(part.text, size)]
            case Thinking():
                events += [ThinkingDelta(index, bit) for bit in _bits(part.text, size)]
                if part.signature:
                    events.append(ThinkingDelta(index, "", part.signature))
            case ToolUse():
                events.append(ToolStarted(index, part.id, part.name))
                events += [ToolDelta(index, bit) for bit in _bits(part.arguments, size)]
    return [*events, Finished(answer.finish, answer.usage)]


def gathered(events: list[StreamEvent]) -> Answer:
    """The answer that a stream of events tells. A stream that broke fails the test."""
    parts: dict[int, Text | Thinking | ToolUse] = {}
    started: Started | None = None
    finished: Finished | None = None
    for event in events:
        match event:
            case Started():
                started = event
            case TextDelta():
                before = parts.get(event.index, Text(""))
                assert isinstance(before, Text)
                parts[event.index] = Text(before.text + event.text)
            case ThinkingDelta():
                thought = parts.get(event.index, Thinking(""))
                assert isinstance(thought, Thinking)
                parts[event.index] = Thinking(
                    thought.text + event.text, event.signature or thought.signature
                )
            case ToolStarted():
                assert event.index not in parts
                parts[event.index] = ToolUse(event.id, event.name, "")
            case ToolDelta():
                use = parts[event.index]
                assert isinstance(use, ToolUse)
                parts[event.index] = ToolUse(use.id, use.name, use.arguments + event.arguments)
            case Finished():
                finished = event
            case Broken():
                raise AssertionError(event.message)
    assert started is not None
    assert finished is not None
    assert sorted(parts) == list(range(len(parts)))
    ordered = [parts[index] for index in sorted(parts)]
    return Answer(started.id, started.model, ordered, finished.finish, finished.usage)


def _bits(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
