"""The one list of what needs a person, and what deciding does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.execution.pulse.asking import events, paused, policy, used, waiting
from tests.execution.pulse.conftest import Lab, script
from typer.testing import CliRunner

from agentos.cli import approvals as cli
from agentos.execution.pulse.approvals import asking
from agentos.execution.pulse.run import Run
from agentos.tenancy.principals import Scope


@pytest.fixture
async def lab(lab: Lab) -> Lab:
    """With a credential that outlasts days of waiting."""
    lab.person.client = await lab.gateway.client(await lab.gateway.api_key(lab.person.tenant_id))
    return lab


WRITE = 'call write_file {"path": "a.txt", "content": "A"}'


async def test_a_tool_waits_for_a_word_without_a_worker_and_goes_on(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        session_id, items = await paused(lab, script(WRITE, "say Done."), title="Notes")
        (item,) = items
        assert (item["kind"], item["subject"], item["state"]) == ("tool", "write_file", "waiting")
        assert item["details"] == {"arguments": {"path": "a.txt", "content": "A"}}
        assert (item["session_id"], item["session_title"]) == (str(session_id), "Notes")
        owner = await lab.superuser.fetchval("select owner from sessions where id = $1", session_id)
        assert (owner, (await lab.read(session_id))["waiting_for"]) == (None, "approval")
        done = await lab.post(f"/api/approvals/{item['id']}/approve", always=False)
        assert done["state"] == "approved"
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert await waiting(lab) == []
    assert "approval" in await lab.kinds(session_id)
    (step,) = [row for row in await lab.journal(session_id) if row["kind"] == "approval"]
    assert step["name"] == "write_file"
    (told,) = await events(lab, "approval.decided")
    assert (told["approval_id"], told["state"]) == (item["id"], "approved")
    audited = await lab.superuser.fetchval(
        "select count(*) from audit_log where action = 'approval.approved' and target_id = $1",
        item["id"],
    )
    assert audited == 1


async def test_a_rejection_is_told_to_the_model_with_its_reason(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(WRITE, "say Then not."))
        await lab.post(f"/api/approvals/{item['id']}/reject", reason="Not on a Friday.")
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["files"]) == ("COMPLETE", [])
    ((name, status, text),) = used(await lab.journal(session_id))
    assert (name, status) == ("write_file", "failed")
    assert text.endswith("did not allow this call: Not on a Friday.")


async def test_deciding_twice_is_a_conflict(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(WRITE, "say Done."))
        path = f"/api/approvals/{item['id']}"
        answers = await asyncio.gather(
            *(lab.client.post(f"{path}/{verb}", json={}) for verb in ("approve", "reject") * 3)
        )
        assert sorted(a.status_code for a in answers) == [200] + [409] * 5
        problem = next(a for a in answers if a.status_code == 409).json()
        assert problem["code"] == "approval_decided"
        await lab.ended(session_id)


async def test_always_allows_the_tool_for_the_rest_of_the_session(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    prompt = script(
        WRITE,
        'call write_file {"path": "b.txt", "content": "B"}',
        "say So far.",
        'call write_file {"path": "c.txt", "content": "C"}',
        "say Done.",
    )
    async with lab.engine():
        session_id, items = await paused(lab, prompt)
        assert [item["details"]["arguments"]["path"] for item in items] == ["a.txt", "b.txt"]
        await lab.post(f"/api/approvals/{items[1]['id']}/approve", always=True)
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert read["allowed_tools"] == ["write_file"]
    assert [file["path"] for file in read["result"]["files"]] == ["a.txt", "b.txt", "c.txt"]
    states = [i["state"] for i in await waiting(lab, session_id=str(session_id), state="all")]
    assert states == ["approved", "approved"]


async def test_all_that_needs_a_word_is_asked_for_before_anything_is_done(lab: Lab) -> None:
    await policy(lab, "delete_file", "ask")
    prompt = script(
        WRITE,
        'call delete_file {"path": "a.txt"}',
        'call delete_file {"path": "b.txt"}',
        "say Done.",
    )
    async with lab.engine():
        session_id, items = await paused(lab, prompt)
        assert len(items) == 2
        assert used(await lab.journal(session_id)) == []
        await lab.post(f"/api/approvals/{items[0]['id']}/approve")
        still = await lab.read(session_id)
        assert (still["state"], still["waiting_for"]) == ("PAUSED", "approval")
        await lab.post(f"/api/approvals/{items[1]['id']}/reject")
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert [name for name, _, _ in used(await lab.journal(session_id))] == [
        "write_file",
        "delete_file",
        "delete_file",
    ]


@pytest.mark.parametrize(
    ("on_expiry", "state", "status"),
    [("reject", "COMPLETE", "failed"), ("approve", "COMPLETE", "done"), ("fail", "FAILED", None)],
)
async def test_what_nobody_decides_goes_as_the_rules_say(
    lab: Lab, on_expiry: str, state: str, status: str | None
) -> None:
    await policy(lab, "write_file", "ask")
    rules = {"expires_seconds": 3 * 86_400, "on_expiry": on_expiry}
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(WRITE, "say Done."), approvals=rules)
        lab.clock.advance(timedelta(days=3) - timedelta(seconds=1))
        assert len(await waiting(lab)) == 1
        lab.clock.advance(timedelta(seconds=1))
        read = await lab.ended(session_id)
    assert read["state"] == state
    assert read["error_code"] == (None if status else "approval_expired")
    assert [s for _, s, _ in used(await lab.journal(session_id))] == [status] * bool(status)
    read = (await lab.client.get(f"/api/approvals/{item['id']}")).json()
    assert (read["state"], read["decided_by"]) == ("expired", None)
    (told,) = await events(lab, "approval.decided")
    assert told["state"] == "expired"


async def test_what_has_expired_cannot_be_decided_even_before_the_session_notices(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        _, (item,) = await paused(
            lab, script(WRITE, "say Done."), approvals={"expires_seconds": 60}
        )
    lab.clock.advance(timedelta(seconds=60))
    answer = await lab.client.post(f"/api/approvals/{item['id']}/approve", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "approval_expired")
    assert await waiting(lab) == []
    assert [i["id"] for i in await waiting(lab, state="expired")] == [item["id"]]


async def test_a_paused_session_stays_paused_when_it_is_approved(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(WRITE, "say Done."))
        await lab.post(f"/api/sessions/{session_id}/pause")
        await lab.post(f"/api/approvals/{item['id']}/approve")
        read = await lab.read(session_id)
        assert (read["state"], read["queued"]) == ("PAUSED", False)
        await lab.post(f"/api/sessions/{session_id}/resume")
        assert (await lab.ended(session_id))["state"] == "COMPLETE"


async def test_an_ended_session_withdraws_what_it_waited_for(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        session_id, (item,) = await paused(lab, script(WRITE, "say Done."))
        await lab.post(f"/api/sessions/{session_id}/cancel")
    answer = await lab.client.post(f"/api/approvals/{item['id']}/approve", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "approval_decided")
    assert "has ended" in answer.json()["detail"]


async def test_a_decision_made_while_the_session_is_awake_is_not_lost(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls wait. The first expires and wakes the session, which is about to wait for the
    second again just when that is decided: nobody would wake it a second time.
    """
    await policy(lab, "write_file", "ask")
    prompt = script(WRITE, 'call write_file {"path": "b.txt", "content": "B"}', "say Done.")
    async with lab.engine():
        session_id, items = await paused(lab, prompt, approvals={"expires_seconds": 600})
        # So that only the first of them expires.
        await lab.superuser.execute(
            "update approvals set expires_at = expires_at + interval '1 day' where id = $1",
            UUID(items[1]["id"]),
        )
        find = asking._find
        decided: list[dict[str, Any]] = []

        async def find_late(run: Run, key: str) -> Any:
            row = await find(run, key)
            if row is not None and str(row["id"]) == items[1]["id"] and not decided:
                decided.append(await lab.post(f"/api/approvals/{items[1]['id']}/approve"))
            return row

        monkeypatch.setattr(asking, "_find", find_late)
        lab.clock.advance(timedelta(seconds=600))
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert len(decided) == 1
    assert [file["path"] for file in read["result"]["files"]] == ["b.txt"]


async def test_what_can_be_said_about_what(lab: Lab) -> None:
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        _, (tool,) = await paused(lab, script(WRITE, "say Done."))
        _, (question,) = await paused(lab, script('call ask_human {"question": "Why?"}', "result"))
    for item, body in (
        (tool, {"answer": "Yes."}),
        (question, {}),
        (question, {"answer": "Because.", "always": True}),
        (question, {"answer": ""}),
        (question, {"answer": "a\0b"}),
    ):
        answer = await lab.client.post(f"/api/approvals/{item['id']}/approve", json=body)
        assert answer.status_code == 422 or answer.json()["code"] == "bad_decision", body
    assert len(await waiting(lab)) == 2


async def test_pages_and_filters(lab: Lab) -> None:
    prompt = script('call ask_human {"question": "One?"}', "result")
    async with lab.engine():
        one, _ = await paused(lab, prompt)
        two, _ = await paused(lab, prompt)
    page = (await lab.client.get("/api/approvals?limit=1")).json()
    rest = (await lab.client.get(f"/api/approvals?limit=1&cursor={page['next_cursor']}")).json()
    found = [item["session_id"] for item in page["items"] + rest["items"]]
    assert (found, rest["next_cursor"]) == ([str(one), str(two)], None)
    assert [i["session_id"] for i in await waiting(lab, session_id=str(two))] == [str(two)]
    assert await waiting(lab, state="rejected") == []
    assert (await lab.client.get("/api/approvals?state=nonsense")).status_code == 422


async def test_other_tenants_and_scopes(lab: Lab) -> None:
    async with lab.engine():
        _, (item,) = await paused(lab, script('call ask_human {"question": "One?"}', "result"))
    stranger = await lab.gateway.tenant()
    paths = [f"/api/approvals/{item['id']}", f"/api/approvals/{uuid4()}"]
    bodies = []
    for path in paths:
        for request in (
            stranger.client.get(path),
            stranger.client.post(f"{path}/approve", json={"answer": "Mine."}),
            stranger.client.post(f"{path}/reject", json={}),
        ):
            answer = await request
            assert answer.status_code == 404
            bodies.append({**answer.json(), "instance": None, "request_id": None})
    assert all(body == bodies[0] for body in bodies)
    assert (await stranger.client.get("/api/approvals")).json()["items"] == []
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset({Scope.SESSIONS_READ}))
    reader = await lab.gateway.client(key)
    assert (await reader.get(paths[0])).status_code == 200
    assert (await reader.post(f"{paths[0]}/reject", json={})).status_code == 403
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset({Scope.APPROVALS_WRITE}))
    decider = await lab.gateway.client(key)
    assert (await decider.get(paths[0])).status_code == 403
    assert (await decider.post(f"{paths[0]}/reject", json={})).status_code == 200


async def test_the_command(lab: Lab) -> None:
    key = await lab.gateway.api_key(lab.person.tenant_id)
    env = {"AGENTOS_URL": lab.gateway.url, "AGENTOS_API_KEY": key}

    async def run(*args: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, cli.app, args, env=env)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    assert "Nothing needs you" in await run()
    await policy(lab, "write_file", "ask")
    async with lab.engine():
        one, (tool,) = await paused(lab, script(WRITE, "say Done."), title="Notes")
        two, (question,) = await paused(
            lab, script('call ask_human {"question": "Red or blue?"}', "result")
        )
        three, (other,) = await paused(lab, script(WRITE, "say Done."))
        listed = await run("list")
        assert "Red or blue?" in listed
        assert '{"path": "a.txt", "content": "A"}' in listed
        said = await run("approve", tool["id"], "--always")
        assert said.startswith("Approved: write_file (session Notes). It is allowed")
        assert "Answered" in await run("approve", question["id"], "--answer", "Blue.")
        assert "Rejected: write_file" in await run("reject", other["id"], "--reason", "No.")
        reads = [await lab.ended(each) for each in (one, two, three)]
    assert [read["state"] for read in reads] == ["COMPLETE"] * 3
    assert reads[1]["result"]["text"].endswith("Blue.")
