"""Workers that are lost in the middle of a call: what may be repeated is, what may not is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.execution.pulse.asking import events, used
from tests.execution.pulse.conftest import Lab, script

from agentos.integrations.tools.base import ToolContext, ToolResult
from agentos.integrations.tools.toolbox import Toolbox


class Interrupted:
    """Makes the first call of a tool never return after it was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tool: str):
        self.done = asyncio.Event()
        self.calls = 0
        call = Toolbox.call

        async def interrupted(
            box: Toolbox, name: str, arguments: Mapping[str, Any] | str, context: ToolContext
        ) -> ToolResult:
            result = await call(box, name, arguments, context)
            if name == tool:
                self.calls += 1
                if self.calls == 1:
                    self.done.set()
                    await asyncio.Event().wait()
            return result

        monkeypatch.setattr(Toolbox, "call", interrupted)


async def test_a_call_with_effects_outside_is_not_repeated_but_surfaced(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Interrupted(monkeypatch, "shell")
    prompt = script(
        'call shell {"command": "echo sent"}',
        'call write_file {"path": "a.txt", "content": "A"}',
        "say Done.",
    )
    async with asyncio.timeout(60):
        async with lab.engine(drain_seconds=0):
            session_id = await lab.create(prompt, allowed_hosts=["example.com"])
            await interrupted.done.wait()
        async with lab.engine():
            read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert interrupted.calls == 1
    steps = used(await lab.journal(session_id))
    assert [(name, status) for name, status, _ in steps] == [
        ("shell", "uncertain"),
        ("write_file", "done"),
    ]
    assert "was not made again" in steps[0][2]
    (told,) = await events(lab, "session.step_uncertain")
    key = next(r["key"] for r in await lab.journal(session_id) if r["status"] == "uncertain")
    assert (told["session_id"], told["step"], told["key"]) == (str(session_id), "shell", key)
    doing = await lab.superuser.fetchval("select doing from sessions where id = $1", session_id)
    assert doing is None


async def test_a_call_that_changes_files_is_repeated_on_the_files_it_began_with(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Interrupted(monkeypatch, "shell")
    prompt = script('call shell {"command": "echo once >> log; touch $RANDOM"}', "say Done.")
    async with asyncio.timeout(60):
        async with lab.engine(drain_seconds=0):
            session_id = await lab.create(prompt, files={"log": "before"})
            await interrupted.done.wait()
        async with lab.engine():
            read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert interrupted.calls == 2
    answer = await lab.client.get(
        f"/api/sessions/{session_id}/files/content", params={"path": "log"}
    )
    assert answer.text == "beforeonce\n"
    assert len(read["result"]["files"]) == 2
    assert [status for _, status, _ in used(await lab.journal(session_id))] == ["done"]


async def test_a_call_that_changes_nothing_is_just_repeated(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Interrupted(monkeypatch, "list_files")
    async with asyncio.timeout(60):
        async with lab.engine(drain_seconds=0):
            session_id = await lab.create(script("call list_files {}", "say Done."))
            await interrupted.done.wait()
        async with lab.engine():
            read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert [status for _, status, _ in used(await lab.journal(session_id))] == ["done"]


async def test_the_doubt_is_told_even_if_the_tool_is_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Interrupted(monkeypatch, "shell")
    async with asyncio.timeout(60):
        async with lab.engine(drain_seconds=0):
            session_id = await lab.create(
                script('call shell {"command": "echo sent"}', "say Done."),
                allowed_hosts=["example.com"],
            )
            await interrupted.done.wait()
        config = json.loads(
            await lab.superuser.fetchval("select config from sessions where id = $1", session_id)
        )
        await lab.superuser.execute(
            "update sessions set config = $2 where id = $1",
            session_id,
            json.dumps({**config, "tools": []}),
        )
        async with lab.engine():
            await lab.ended(session_id)
    assert [status for _, status, _ in used(await lab.journal(session_id))] == ["uncertain"]
