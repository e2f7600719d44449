"""The examples of docs/demo-model.md do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentos.integrations.models.conversation import (
    Broken,
    Conversation,
    Message,
    Text,
    TextDelta,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.demo.model import DemoModel
from agentos.integrations.models.demo.script import _LINES
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.folding import StreamBroken

DOCUMENT = (Path(__file__).parents[3] / "docs" / "demo-model.md").read_text()
GREETING, WEATHER, BUSY, PAID = re.findall(r"````text\n(.*?)````", DOCUMENT, re.DOTALL)
MODEL = DemoModel()
TOOL = Tool("get_weather", "", {"type": "object"})


def asked(prompt: str, *more: Message) -> Conversation:
    return Conversation("demo", [Message("user", [Text(prompt)]), *more], tools=[TOOL])


def test_the_greeting() -> None:
    thought, text = MODEL.whole(asked(GREETING)).parts
    assert isinstance(thought, Thinking)
    assert thought.text == "The user wants to be greeted."
    assert text == Text("Hello,\nworld.")


def test_the_weather() -> None:
    (call,) = MODEL.whole(asked(WEATHER)).parts
    assert isinstance(call, ToolUse)
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Bern"}')
    result = Message("user", [ToolResult(call.id, [Text("snow")])])
    answer = MODEL.whole(asked(WEATHER, Message("assistant", [call]), result))
    assert answer.parts == [Text("The weather:\nsnow")]


async def test_the_failure() -> None:
    events = [event async for event in MODEL.play(asked(BUSY))]
    assert sum(isinstance(event, TextDelta) for event in events) == 3
    assert events[-1] == Broken("overload", "The provider is busy.")
    with pytest.raises(StreamBroken):
        MODEL.whole(asked(BUSY))


def test_the_costs() -> None:
    usage = MODEL.whole(asked(PAID)).usage
    assert (usage.input, usage.output, usage.cache_read) == (1200, 300, 1000)


def test_the_python() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(compile(program, "docs/demo-model.md", "exec"), {})


def test_every_line_and_error_class_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)", DOCUMENT, re.MULTILINE))
    assert described == {*_LINES, "then"}
    for error_class in ErrorClass:
        assert f"`{error_class}`" in DOCUMENT
