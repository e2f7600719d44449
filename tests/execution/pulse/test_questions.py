"""The tool `ask_human`: a question that may wait for days."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.execution.pulse.asking import paused, used, waiting
from tests.execution.pulse.conftest import Lab, script

ASK = 'call ask_human {"question": "Red or blue?", "choices": ["red", "blue"]}'


@pytest.fixture
async def lab(lab: Lab) -> Lab:
    """With a credential that outlasts days of waiting."""
    lab.person.client = await lab.gateway.client(await lab.gateway.api_key(lab.person.tenant_id))
    return lab


async def test_the_answer_becomes_the_result(lab: Lab) -> None:
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(ASK, "say Painted:", "result"))
        assert (item["kind"], item["subject"]) == ("question", "Red or blue?")
        assert item["details"] == {"question": "Red or blue?", "choices": ["red", "blue"]}
        await lab.post(f"/api/approvals/{item['id']}/approve", answer="Rather green.")
        read = await lab.ended(session_id)
    assert read["result"]["text"] == "Painted:\nRather green."
    assert used(await lab.journal(session_id)) == [("ask_human", "done", "Rather green.")]


async def test_a_question_can_be_turned_down(lab: Lab) -> None:
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(ASK, "say As you like."))
        await lab.post(f"/api/approvals/{item['id']}/reject", reason="Decide yourself.")
        await lab.ended(session_id)
    ((_, status, text),) = used(await lab.journal(session_id))
    assert status == "failed"
    assert text.endswith("did not answer: Decide yourself.")


@pytest.mark.parametrize(
    ("on_expiry", "expected"),
    [
        ("reject", ("failed", "Nobody answered in time.")),
        ("approve", ("done", "Nobody answered in time. Go on as you think best.")),
    ],
)
async def test_nobody_answers(lab: Lab, on_expiry: str, expected: tuple[str, str]) -> None:
    rules = {"expires_seconds": 7 * 86_400, "on_expiry": on_expiry}
    async with lab.engine():
        session_id, _ = await paused(lab, script(ASK, "say Done."), approvals=rules)
        lab.clock.advance(timedelta(days=7))
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    ((_, *told),) = used(await lab.journal(session_id))
    assert tuple(told) == expected


async def test_nobody_answers_and_the_session_shall_fail(lab: Lab) -> None:
    rules = {"expires_seconds": 60, "on_expiry": "fail"}
    async with lab.engine():
        session_id, _ = await paused(lab, script(ASK, "say Done."), approvals=rules)
        lab.clock.advance(timedelta(seconds=60))
        read = await lab.ended(session_id)
    assert (read["state"], read["error_code"]) == ("FAILED", "approval_expired")
    assert read["error"] == "Nobody decided about Red or blue? in time."


async def test_two_questions_of_one_answer_are_asked_one_after_the_other(lab: Lab) -> None:
    prompt = script(
        'call ask_human {"question": "One?"}', 'call ask_human {"question": "Two?"}', "say Done."
    )
    async with lab.engine():
        session_id, (one,) = await paused(lab, prompt)
        await lab.post(f"/api/approvals/{one['id']}/approve", answer="1")
        async with asyncio.timeout(60):
            while not (two := await waiting(lab)):  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        await lab.post(f"/api/approvals/{two[0]['id']}/approve", answer="2")
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    assert [text for _, _, text in used(await lab.journal(session_id))] == ["1", "2"]
