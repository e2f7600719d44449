"""The demo model with tools: what it writes is run for real here, by the tests' own hands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.integrations.models.conversation import (
    Conversation,
    Message,
    Part,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.demo.model import DemoModel
from agentos.integrations.models.demo.repertoire import PIECES, Piece

MODEL = DemoModel()
HAIKU = "Write a haiku generator in Python and test it"


def tool(name: str, *properties: str) -> Tool:
    return Tool(name, "", {"type": "object", "properties": {key: {} for key in properties}})


WRITE = tool("write_file", "path", "content")
SHELL = tool("shell", "command", "timeout_seconds")
LIST = tool("list_files", "path")
PLAN = tool("update_plan", "steps")
ALL = (WRITE, SHELL, LIST, PLAN)


class Hands:
    """Does what the model asks for, in a directory."""

    def __init__(self, place: Path, refuse: Callable[[ToolUse], ToolResult | None] | None = None):
        self.place = place
        self.calls: list[ToolUse] = []
        self.plans: list[list[str]] = []
        self._refuse = refuse or (lambda _: None)

    def use(self, call: ToolUse) -> ToolResult:
        self.calls.append(call)
        refused = self._refuse(call)
        if refused is not None:
            return refused
        given = json.loads(call.arguments)
        match call.name:
            case "write_file":
                (self.place / given["path"]).write_text(given["content"])
                return result(call, f"Wrote {given['path']}.")
            case "shell":
                done = subprocess.run(
                    given["command"], shell=True, cwd=self.place, capture_output=True, text=True
                )
                text = (done.stdout + done.stderr).rstrip("\n")
                if done.returncode:
                    text += f"\n[Exit code {done.returncode}.]"
                return result(call, text, failed=done.returncode != 0)
            case "list_files":
                return result(call, "\n".join(p.name for p in self.place.iterdir()))
            case _:
                self.plans.append([step["status"] for step in given["steps"]])
                return result(call, "Noted.")


def result(call: ToolUse, text: str, *, failed: bool = False) -> ToolResult:
    return ToolResult(call.id, [Text(text)], failed)


def work_through(
    task: str, hands: Hands, tools: tuple[Tool, ...] = ALL, **settings: Any
) -> tuple[str, list[Message]]:
    """The model's last words, and the conversation until then."""
    messages = [Message("user", [Text(task)])]
    for _ in range(20):
        asked = Conversation("demo", list(messages), tools=tools, **settings)
        answer = MODEL.whole(asked)
        assert answer == MODEL.whole(asked), "the same conversation has the same answer"
        calls = [part for part in answer.parts if isinstance(part, ToolUse)]
        if not calls:
            return "".join(p.text for p in answer.parts if isinstance(p, Text)), messages
        messages.append(Message("assistant", list(answer.parts)))
        results: list[Part] = [hands.use(call) for call in calls]
        messages.append(Message("user", results))
    raise AssertionError("it does not come to an end")


def said(*messages: Message, tools: tuple[Tool, ...] = ALL, **settings: Any) -> list[Part]:
    return list(MODEL.whole(Conversation("demo", list(messages), tools=tools, **settings)).parts)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (HAIKU, "haiku"),
        ("please write a python script for haikus", "haiku"),
        ("Implement the Fibonacci numbers", "fibonacci"),
        ("Could you build a word-count tool?", "word_count"),
        ("Make something that counts the words of a file", "word_count"),
    ],
)
def test_a_piece_is_written_tested_and_tried(task: str, name: str, tmp_path: Path) -> None:
    hands = Hands(tmp_path)
    report, _ = work_through(task, hands)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.py", f"test_{name}.py"}
    assert f"I wrote {name}.py and test_{name}.py, and ran the tests: they pass." in report
    assert "\nOK\n" in report, "it shows what unittest said"
    assert "not a real AI" in report
    assert hands.plans == [
        ["in_progress", "pending", "pending", "pending"],
        ["done", "in_progress", "pending", "pending"],
        ["done", "done", "in_progress", "pending"],
        ["done", "done", "done", "in_progress"],
        ["done"] * 4,
    ]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.name)
def test_the_tests_of_a_piece_can_fail(piece: Piece, tmp_path: Path) -> None:
    before, after = {
        "haiku": ("== wanted", ">= wanted"),
        "fibonacci": ("0, 1\n", "1, 1\n"),
        "word_count": ("text.lower()", "text"),
    }[piece.name]
    assert before in piece.program
    (tmp_path / piece.program_file).write_text(piece.program.replace(before, after))
    (tmp_path / piece.tests_file).write_text(piece.tests)
    done = subprocess.run(piece.tests_command.split(), cwd=tmp_path, capture_output=True)
    assert done.returncode == 1, done.stderr


def test_what_fails_is_reported_and_ends_it(tmp_path: Path) -> None:
    def refuse(call: ToolUse) -> ToolResult | None:
        return result(call, "No sandbox here.", failed=True) if call.name == "shell" else None

    hands = Hands(tmp_path, refuse)
    report, _ = work_through(HAIKU, hands)
    assert "I could not finish: shell failed." in report
    assert "No sandbox here." in report
    assert "pass" not in report
    assert sum(call.name == "shell" for call in hands.calls) == 1


@pytest.mark.parametrize("text", ['{"error": "Not allowed."}', "Error: Not allowed."])
def test_wires_without_a_mark_for_failures(text: str, tmp_path: Path) -> None:
    hands = Hands(tmp_path, lambda call: result(call, text) if call.name == "write_file" else None)
    report, _ = work_through(HAIKU, hands)
    assert "I could not finish: write_file failed." in report
    assert "write_file answered:\n\n```\nNot allowed.\n```" in report


def test_tests_that_fail_are_not_said_to_pass(tmp_path: Path) -> None:
    """Even if whoever runs them does not say that they failed."""

    def lie(call: ToolUse) -> ToolResult | None:
        return result(call, "FAILED (failures=1)") if call.name == "shell" else None

    report, _ = work_through(HAIKU, Hands(tmp_path, lie))
    assert "FAILED (failures=1)" in report
    assert "they pass" not in report


def test_without_a_shell_nothing_is_run(tmp_path: Path) -> None:
    report, _ = work_through(HAIKU, Hands(tmp_path), (WRITE, PLAN))
    assert "nothing was run" in report
    assert "they pass" not in report


def test_one_call_at_a_time(tmp_path: Path) -> None:
    hands = Hands(tmp_path)
    report, messages = work_through(HAIKU, hands, parallel_tools=False)
    assert "they pass" in report
    for message in messages:
        assert sum(isinstance(part, ToolUse) for part in message.parts) <= 1
    assert [call.name for call in hands.calls] == ["write_file", "write_file", "shell", "shell"]


@pytest.mark.parametrize(
    "task", ["Write a REST server", "Create a haiku generator in Rust", "Build a web page"]
)
def test_what_it_cannot_do_it_notes_down(task: str, tmp_path: Path) -> None:
    report, _ = work_through(task, Hands(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["NOTES.md"]
    assert task in (tmp_path / "NOTES.md").read_text()
    assert "I left a note in NOTES.md, and did nothing else." in report
    assert "In the workspace\n\n```\nNOTES.md\n```" in report
    assert "not a real AI" in report


@pytest.mark.parametrize(
    "asked",
    [
        "Write a haiku about rain.",
        "Make me a joke",
        "What is 12 * 7?",
        "I write a program",
        "hello",
    ],
)
def test_what_is_no_task_for_the_workshop(asked: str) -> None:
    assert not [p for p in said(Message("user", [Text(asked)])) if isinstance(p, ToolUse)]


def test_tools_that_are_named_or_missing_or_other_come_first() -> None:
    def calls(task: str, **settings: Any) -> list[str]:
        parts = said(Message("user", [Text(task)]), **settings)
        return [part.name for part in parts if isinstance(part, ToolUse)]

    assert calls("Write a program; use the list_files tool") == ["list_files"]
    assert calls(HAIKU, tools=(SHELL,)) == []
    assert calls(HAIKU, tools=(tool("write_file", "filename"), SHELL)) == []
    assert calls(HAIKU, tool_choice=ToolChoice("none")) == []
    assert calls(HAIKU, tool_choice=ToolChoice("tool", "list_files")) == ["list_files"]


def test_a_new_task_in_the_middle_of_another_begins_at_its_beginning(tmp_path: Path) -> None:
    """A fork adds a prompt to results that nobody has answered yet."""
    _, messages = work_through(HAIKU, Hands(tmp_path))
    asked = Message("user", [*messages[2].parts, Text("Write Fibonacci numbers in Python")])
    calls = [p for p in said(*messages[:2], asked) if isinstance(p, ToolUse)]
    assert [call.name for call in calls] == ["update_plan", "write_file"]
    assert json.loads(calls[1].arguments)["path"] == "fibonacci.py"
