"""Steps in which tools are used: policies, what cannot be done, at the same time, cut short."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.execution.pulse.asking import policy, used, waiting
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import tool_steps
from agentos.execution.pulse.run import Run
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.toolbox import Toolbox


async def test_a_denied_tool_is_told_and_not_used(lab: Lab) -> None:
    await policy(lab, "shell", "deny")
    async with lab.engine():
        session_id = await lab.create(script('call shell {"command": "touch a"}', "say Well."))
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["files"]) == ("COMPLETE", [])
    ((_, status, text),) = used(await lab.journal(session_id))
    assert (status, text) == ("failed", "The tools policy of this tenant does not allow shell.")


async def test_what_cannot_be_done_is_told_and_nobody_is_asked_about_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tool_steps.offered

    async def more(run: Run) -> list[ToolSpec]:
        # The demo model asks for nothing that it was not offered.
        schema = {"type": "object"}
        return [*await offered(run), ToolSpec("shel", "", schema, Tier.SAFE, Repeat.ALWAYS)]

    monkeypatch.setattr(tool_steps, "offered", more)
    await policy(lab, "tier:safe", "ask")
    await policy(lab, "spawn_agents", "ask")
    prompt = script(
        "call shel {}",
        'call write_file {"path": 1}',
        'call spawn_agents {"tasks": []}',
        "say Done.",
    )
    async with lab.engine():
        session_id = await lab.create(prompt)
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    assert await waiting(lab, state="all") == []
    steps = used(await lab.journal(session_id))
    assert [status for _, status, _ in steps] == ["failed"] * 3
    assert "Did you mean shell?" in steps[0][2]
    assert "spawn_agents" in steps[0][2]


async def test_a_policy_can_ask_about_sub_agents(lab: Lab) -> None:
    await policy(lab, "spawn_agents", "deny")
    async with lab.engine():
        session_id = await lab.create(
            script('call spawn_agents {"tasks": [{"prompt": "Go."}]}', "say Done.")
        )
        await lab.ended(session_id)
    ((_, status, _),) = used(await lab.journal(session_id))
    assert status == "failed"


async def test_each_call_has_its_own_key(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    call = Toolbox.call

    async def noting(
        self: Toolbox, name: str, arguments: Mapping[str, Any] | str, context: ToolContext
    ) -> ToolResult:
        keys.append(context.idempotency_key)
        return await call(self, name, arguments, context)

    monkeypatch.setattr(Toolbox, "call", noting)
    write = 'call write_file {"path": "a", "content": "b"}'
    async with lab.engine():
        session_id = await lab.create(script(write, write, "say And again.", write, "say Done."))
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    journaled = [row["key"] for row in await lab.journal(session_id) if row["kind"] == "tool"]
    assert len(set(keys)) == 3
    assert keys == [f"{session_id}:{key}" for key in journaled]


async def test_calls_that_change_nothing_are_made_at_once_and_journaled_in_order(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    met, last_done = asyncio.Barrier(3), asyncio.Event()
    call = Toolbox.call

    async def meeting(
        self: Toolbox, name: str, arguments: Mapping[str, Any] | str, context: ToolContext
    ) -> ToolResult:
        result = await call(self, name, arguments, context)
        if name == "read_file":
            async with asyncio.timeout(30):
                await met.wait()
                if "c.txt" in str(arguments):
                    last_done.set()
                # The others are slower than the last one.
                await last_done.wait()
        return result

    monkeypatch.setattr(Toolbox, "call", meeting)
    names = ["a.txt", "b.txt", "c.txt"]
    prompt = script(
        *(f'call read_file {{"path": "{name}"}}' for name in names),
        'call write_file {"path": "d.txt", "content": "D"}',
        "say Done.",
    )
    async with lab.engine():
        session_id = await lab.create(prompt, files={name: name.upper() for name in names})
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    steps = used(await lab.journal(session_id))
    assert [name for name, _, _ in steps] == ["read_file"] * 3 + ["write_file"]
    assert ["A.TXT" in steps[0][2], "B.TXT" in steps[1][2], "C.TXT" in steps[2][2]] == [True] * 3


async def test_a_call_that_fills_the_workspace_is_undone_and_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.parts.workspaces, "_max_files", 20)
    prompt = script(
        'call write_file {"path": "kept", "content": "1"}',
        "say Now too many.",
        'call shell {"command": "touch $(seq 1 50); echo touched"}',
        "say Done.",
    )
    async with lab.engine():
        session_id = await lab.create(prompt)
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert [file["path"] for file in read["result"]["files"]] == ["kept"]
    _, (_, status, text) = used(await lab.journal(session_id))
    assert status == "failed"
    assert "at most 20 files" in text
    assert "was undone" in text
    assert text.rstrip().endswith("touched")


def _processes(mark: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(place.parent.name))
    return found


async def test_cancelling_ends_a_running_tool_at_once(lab: Lab) -> None:
    mark = "86399.125"
    async with lab.engine(), asyncio.timeout(60):
        session_id = await lab.create(
            script(f'call shell {{"command": "sleep {mark}"}}', "say No.")
        )
        while not _processes(mark):  # noqa: ASYNC110 - the kernel is asked
            await asyncio.sleep(0.02)
        await lab.post(f"/api/sessions/{session_id}/cancel")
        while _processes(mark):  # noqa: ASYNC110 - the kernel is asked
            await asyncio.sleep(0.02)
    read = await lab.read(session_id)
    assert (read["state"], read["error_code"]) == ("FAILED", "cancelled")
    assert used(await lab.journal(session_id)) == []


async def test_a_pause_between_two_calls_of_one_answer(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    call = Toolbox.call

    async def held(
        self: Toolbox, name: str, arguments: Mapping[str, Any] | str, context: ToolContext
    ) -> ToolResult:
        began.set()
        await go_on.wait()
        return await call(self, name, arguments, context)

    monkeypatch.setattr(Toolbox, "call", held)
    writes = [
        f"call write_file {json.dumps({'path': name, 'content': name})}" for name in ("a", "b")
    ]
    async with lab.engine(), asyncio.timeout(60):
        session_id = await lab.create(script(*writes, "say Done."))
        await began.wait()
        await lab.post(f"/api/sessions/{session_id}/pause")
        go_on.set()
        await lab.until(session_id, "PAUSED")
        assert len(used(await lab.journal(session_id))) == 1
        await lab.post(f"/api/sessions/{session_id}/resume")
        read = await lab.ended(session_id)
    assert [file["path"] for file in read["result"]["files"]] == ["a", "b"]
