"""The engine's own tools: plans, kept outputs, and which of them a session has."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.execution.pulse.asking import used
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.engine_tools.offering import offered_engine_tools
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.schemas import SessionConfig


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        ({}, {"ask_human", "update_plan", "read_output", "spawn_agents", "collect_files"}),
        ({"sub_agents": False}, {"ask_human", "update_plan", "read_output"}),
        ({"tools": []}, set()),
        ({"tools": ["shell"]}, {"read_output"}),
        ({"tools": ["shell", "ask_human"]}, {"read_output", "ask_human"}),
        ({"tools": ["spawn_agents"], "sub_agents": False}, {"read_output"}),
        ({"tools": [], "output_schema": {"type": "object"}}, {"final_answer"}),
    ],
)
def test_which_a_session_has(config: dict[str, Any], offered: set[str]) -> None:
    run = Run.__new__(Run)
    run.config = SessionConfig(prompt="Go.", **config)
    assert set(offered_engine_tools(run)) == offered


async def test_a_plan_is_in_the_timeline_and_touches_no_workspace(lab: Lab) -> None:
    plan = [{"step": "Look", "status": "done"}, {"step": "Leap", "status": "pending"}]
    async with lab.engine():
        session_id = await lab.create(
            script(f"call update_plan {json.dumps({'steps': plan})}", "say Done.")
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    (step,) = [row for row in await lab.journal(session_id) if row["kind"] == "tool"]
    output = json.loads(step["output"])
    assert (output["plan"], output["text"]) == (plan, "Noted: 1 of 2 done.")
    assert step["snapshot_id"] is None
    assert not (lab.gateway.parts.settings.workspaces_dir / str(session_id)).exists()


async def test_arguments_that_do_not_fit_are_told(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script(
                'call update_plan {"steps": []}',
                'call ask_human {"question": ""}',
                'call read_output {"output": "nonsense"}',
                'call read_output {"output": "' + str(uuid4()) + '"}',
                "say Done.",
            )
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    steps = used(await lab.journal(session_id))
    assert [status for _, status, _ in steps] == ["failed"] * 4
    assert [text.partition(":")[0] for _, _, text in steps[:2]] == ["The arguments do not fit"] * 2
    assert steps[2][2] == steps[3][2]


async def long_output(lab: Lab) -> tuple[UUID, str]:
    """A session with an output that was too long, and the id of the whole."""
    session_id = await lab.create(script('call shell {"command": "seq 1 20000"}', "say Done."))
    assert (await lab.ended(session_id))["state"] == "COMPLETE"
    (step,) = [row for row in await lab.journal(session_id) if row["kind"] == "tool"]
    output = json.loads(step["output"])
    assert len(output["text"]) < 30_000
    assert f'read_output with {{"output": "{output["whole"]}"}}' in output["text"]
    return session_id, output["whole"]


async def test_a_long_output_is_read_page_by_page(lab: Lab) -> None:
    async with lab.engine():
        session_id, whole = await long_output(lab)
        pages = [
            {"output": whole, "offset": 0, "limit": 4},
            {"output": whole, "offset": 108_888},
            {"output": whole, "offset": 108_894},
        ]
        prompt = script(*(f"call read_output {json.dumps(page)}" for page in pages), "say Read.")
        await lab.post(f"/api/sessions/{session_id}/continue", prompt=prompt)
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    steps = used(await lab.journal(session_id))
    assert [text for _, _, text in steps[1:]] == [
        "1\n2\n\n[Characters 0 to 4 of 108894. Go on with offset 4.]",
        "20000\n\n[Characters 108888 to 108894 of 108894. That is the end.]",
        "[It has 108894 characters: there is nothing at 108894.]",
    ]


async def test_outputs_of_others_are_as_good_as_missing(lab: Lab) -> None:
    async with lab.engine():
        _, whole = await long_output(lab)
        prompt = script(f'call read_output {{"output": "{whole}"}}', "say Done.")
        own = await lab.create(prompt)
        await lab.ended(own)
        lab.person = await lab.gateway.tenant()
        strange = await lab.create(prompt)
        await lab.ended(strange)
    for session_id in (own, strange):
        ((_, status, text),) = used(await lab.journal(session_id))
        assert status == "failed"
        assert text.startswith("This session has no kept output of this id.")
