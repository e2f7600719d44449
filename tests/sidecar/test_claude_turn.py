"""What lines of Claude Code mean that it says too seldom to wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.sidecar.providers.base import Reply
from agentos.sidecar.providers.claude_turn import Turn, summary
from tests.sidecar.agents import Heard


@pytest.fixture
async def heard() -> Heard:
    return Heard()


@pytest.fixture
async def turn(heard: Heard) -> Turn:
    return Turn("q-1", heard)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "parent_tool_use_id": None, "event": {"type": kind, **more}}


def begins(message: str) -> dict[str, Any]:
    return event("message_start", message={"id": message})


def says(text: str) -> dict[str, Any]:
    return event("content_block_delta", delta={"type": "text_delta", "text": text})


def said(text: str, message: str = "m1", parent: str | None = None) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "type": "assistant",
        "parent_tool_use_id": parent,
        "message": {"id": message, "model": "demo", "content": content},
    }


def result(**more: Any) -> dict[str, Any]:
    line = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}
    return line | {"user_message_uuids": ["q-1"]} | more


def take(turn: Turn, *lines: dict[str, Any]) -> None:
    for line in lines:
        turn.take(line)


async def test_an_unsolicited_result_is_not_the_answer(turn: Turn) -> None:
    take(
        turn,
        result(result="Background work.", origin={"kind": "task-notification"}),
        result(result="Of nobody.", user_message_uuids=None),
        result(result="Of another.", user_message_uuids=["q-0"]),
    )
    assert not turn.reply.done()
    take(turn, result(), result(result="A second one."))
    assert await turn.reply == Reply("answered", "Done.")


async def test_a_call_that_is_made_anew_without_a_stream(turn: Turn, heard: Heard) -> None:
    take(turn, begins("m1"), says("It is"), said("It is so.", "m2"))
    assert (heard.text(), heard.voided) == ("It is so.", 1)


async def test_a_message_that_was_given_up_after_it_was_said(turn: Turn, heard: Heard) -> None:
    take(turn, begins("m1"), says("Kept."), said("Kept.", "m1"))
    take(turn, begins("m2"), says("Half"), said("Half", "m2"))
    gone = {"api_message_id": "m2", "from_block_index": 0}
    take(turn, event("message_stop") | {"abandoned_blocks": gone})
    assert (heard.text(), heard.voided) == ("Kept.", 1)
    take(turn, begins("m3"), says("Whole."), said("Whole.", "m3"))
    assert (heard.text(), heard.voided) == ("Kept.\n\nWhole.", 1)


async def test_words_of_a_worker_are_its_own(turn: Turn, heard: Heard) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Agent", "input": {"subagent_type": "scout"}}
    take(turn, {"type": "assistant", "message": {"id": "m1", "content": [use]}})
    take(turn, event("message_start") | {"parent_tool_use_id": "t1"})
    take(turn, says("Hidden") | {"parent_tool_use_id": "t1"})
    take(turn, said("A hill.", "w1", parent="t1"), begins("m2"), says("Up."), said("Up.", "m2"))
    assert heard.pieces == [("A hill.", "scout"), ("Up.", None)]
    assert heard.voided == 0


async def test_errors_are_told_by_the_flag(turn: Turn) -> None:
    take(turn, result(is_error=True, result="API Error: 503", api_error_status=503))
    assert await turn.reply == Reply("failed", "", "API Error: 503", "model_error")


async def test_other_errors_have_words_too(heard: Heard) -> None:
    turn = Turn("q-1", heard)
    take(turn, result(is_error=True, result=None, subtype="error_max_turns", errors=["Too many."]))
    assert await turn.reply == Reply("failed", "", "Too many.", "agent_error")
    turn = Turn("q-1", heard)
    take(turn, result(is_error=True, result=None))
    assert (await turn.reply).error == "Claude Code gave up on the message."


async def test_an_answer_that_was_faster_than_the_interrupt_counts(turn: Turn) -> None:
    turn.interrupted = True
    take(turn, result())
    assert await turn.reply == Reply("answered", "Done.")


async def test_a_cancelled_answer_keeps_what_was_said(turn: Turn) -> None:
    turn.interrupted = True
    take(turn, begins("m1"), said("First."), begins("m2"), says("Then"))
    take(turn, result(is_error=True, result=None))
    assert await turn.reply == Reply("cancelled", "First.\n\nThen")


async def test_lines_of_unknown_kinds_and_shapes_say_nothing(turn: Turn, heard: Heard) -> None:
    take(
        turn,
        {},
        {"type": "new_kind"},
        {"type": "assistant"},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [1, None, {"type": "tool_use"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "stream_event", "event": None},
        event("content_block_delta", delta=3),
        {"type": "result", "user_message_uuids": 7},
    )
    assert heard.pieces == []
    assert not turn.reply.done()


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("Bash", {"command": "ls\n  -l", "description": "List"}, "ls -l"),
        ("Read", {"file_path": "/workspace/a.txt", "limit": 5}, "/workspace/a.txt"),
        ("Agent", {"subagent_type": "scout", "description": "Look"}, "scout: Look"),
        ("mcp__a__b", {"n": 1}, '{"n":1}'),
        ("TaskStop", {}, ""),
        ("Bash", {"command": "x" * 500}, "x" * 199 + "…"),
    ],
)
def test_a_call_in_one_short_line(tool: str, given: dict[str, Any], told: str) -> None:
    assert summary(tool, given) == told


async def test_a_turn_has_begun_when_the_program_says_so(turn: Turn) -> None:
    assert not turn.begun.is_set()
    take(turn, {"type": "system", "subtype": "init"})
    async with asyncio.timeout(1):
        await turn.begun.wait()
