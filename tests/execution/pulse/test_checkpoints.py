"""Checkpoints: made by people and by runs, and restored."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.execution.pulse.conftest import HOLD, Lab, script

from agentos.kernel.ids import uuid7

WRITE = 'call write_file {"path": "a.txt", "content": "one"}'
REWRITE = 'call write_file {"path": "a.txt", "content": "two"}'


async def mark(lab: Lab, session_id: UUID, name: str = "good") -> dict[str, Any]:
    return await lab.post(f"/api/sessions/{session_id}/checkpoints", 201, name=name)


async def listed(lab: Lab, session_id: UUID) -> list[dict[str, Any]]:
    answer = await lab.client.get(f"/api/sessions/{session_id}/checkpoints")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_checkpoint_of_an_ended_session_changes_nothing_else(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("fail auth No."))
        before = await lab.ended(session_id)
    made = await mark(lab, session_id)
    after = await lab.read(session_id)
    assert (made["seq"], made["has_files"]) == (before["steps"] + 1, False)
    assert after == {**before, "steps": made["seq"], "updated_at": after["updated_at"]}
    assert [checkpoint["id"] for checkpoint in await listed(lab, session_id)] == [made["id"]]


async def test_a_running_session_takes_it_in(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(HOLD, "say Done."))
        held = await lab.held(session_id)
        made = await mark(lab, session_id)
        held.unlink()
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    rows = await lab.journal(session_id)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["kind"] for row in rows][made["seq"] - 1 :][:2] == ["checkpoint", "tool"]
    names = [checkpoint["name"] for checkpoint in await listed(lab, session_id)]
    assert names == ["good", "end"]


async def test_restoring_goes_back_and_runs_again_from_there(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say One."))
        await lab.ended(session_id)
        made = await mark(lab, session_id)
        await lab.post(f"/api/sessions/{session_id}/continue", prompt=script(REWRITE, "say Two."))
        await lab.ended(session_id)
        prompt = script('call read_file {"path": "a.txt"}', "result")
        back = await lab.post(f"/api/checkpoints/{made['id']}/restore", prompt=prompt)
        assert back["to_seq"] == made["seq"]
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    assert "one" in read["result"]["text"]
    kinds = await lab.kinds(session_id)
    restored = kinds[back["undo_seq"] :]
    assert restored[:5] == ["ROLLBACK", "rollback", "ROLLED_BACK", "message", "QUEUED"]
    ends = [
        checkpoint for checkpoint in await listed(lab, session_id) if not checkpoint["in_force"]
    ]
    assert [checkpoint["name"] for checkpoint in ends] == ["end"]


async def test_without_a_prompt_it_goes_on_with_what_it_was_doing(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say One."))
        await lab.ended(session_id)
        rows = await lab.journal(session_id)
        tool = next(row["seq"] for row in rows if row["kind"] == "tool")
        # As if it had been made right after the tool was used.
        checkpoint_id = uuid7()
        await lab.superuser.execute(
            """insert into checkpoints select tenant_id, $2, session_id, seq, 'used', snapshot_id, at
               from steps where session_id = $1 and seq = $3""",
            session_id,
            checkpoint_id,
            tool,
        )
        await lab.post(f"/api/checkpoints/{checkpoint_id}/restore", model="demo/demo")
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "One.")
    assert (read["turns"], read["model"]) == (1, "demo/demo")


async def test_after_an_answer_a_prompt_is_needed(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say One."))
        before = await lab.ended(session_id)
    (end,) = await listed(lab, session_id)
    answer = await lab.client.post(f"/api/checkpoints/{end['id']}/restore", json={})
    assert (answer.status_code, answer.json()["code"]) == (422, "prompt_needed")
    assert await lab.read(session_id) == before


async def test_one_made_between_calls_leads_to_before_them(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, REWRITE, "say Done."))
        await lab.ended(session_id)
    rows = await lab.journal(session_id)
    first = next(row["seq"] for row in rows if row["kind"] == "tool")
    checkpoint_id = uuid7()
    await lab.superuser.execute(
        """insert into checkpoints select tenant_id, $2, session_id, seq, 'between', snapshot_id, at
           from steps where session_id = $1 and seq = $3""",
        session_id,
        checkpoint_id,
        first,
    )
    back = await lab.post(f"/api/sessions/{session_id}/rollback", checkpoint_id=str(checkpoint_id))
    assert back["to_seq"] == first - 2


async def test_what_is_refused(lab: Lab) -> None:
    session_id = await lab.create(run=False)
    for name in ("start", "end"):
        told = await lab.post(f"/api/sessions/{session_id}/checkpoints", 422, name=name)
        assert told["code"] == "reserved_name"
    made = await mark(lab, session_id)
    told = await lab.post(f"/api/checkpoints/{made['id']}/restore", 409, prompt="x")
    assert told["code"] == "illegal_transition"
    other = await lab.gateway.tenant()
    answer = await other.client.post(f"/api/checkpoints/{made['id']}/restore", json={})
    assert answer.json()["code"] == "checkpoint_not_found"
    answer = await other.client.get(f"/api/sessions/{session_id}/checkpoints")
    assert answer.json()["code"] == "session_not_found"
    answer = await other.client.post(
        f"/api/sessions/{session_id}/checkpoints", json={"name": "mine"}
    )
    assert answer.json()["code"] == "session_not_found"


async def test_checkpoints_are_audited(lab: Lab) -> None:
    session_id = await lab.create()
    await lab.post(f"/api/sessions/{session_id}/pause")
    made = await mark(lab, session_id)
    await lab.post(f"/api/checkpoints/{made['id']}/restore", prompt="Go.")
    read = await lab.read(session_id)
    assert (read["state"], read["queued"]) == ("QUEUED", True)
    actions = await lab.superuser.fetch(
        "select action from audit_log where target_id = $1 order by id", made["id"]
    )
    assert [row["action"] for row in actions] == ["checkpoint.created", "checkpoint.restored"]
