"""Going on with a session that has ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script

WRITE = 'call write_file {"path": "a.txt", "content": "one"}'


async def continued(lab: Lab, session_id: UUID, *lines: str, **body: Any) -> dict[str, Any]:
    """The session as it has ended after being told to go on."""
    answer = await lab.client.post(
        f"/api/sessions/{session_id}/continue", json={"prompt": script(*lines), **body}
    )
    assert answer.status_code == 200, answer.text
    return await lab.ended(session_id)


async def test_it_goes_on_with_its_conversation_and_its_files(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say First."))
        await lab.ended(session_id)
        read = await continued(lab, session_id, 'call read_file {"path": "a.txt"}', "result")
    assert (read["state"], read["error"]) == ("COMPLETE", None)
    assert "one" in read["result"]["text"]
    kinds = await lab.kinds(session_id)
    assert kinds[kinds.index("COMPLETE") + 1 :][:3] == ["message", "QUEUED", "RUNNING"]
    events = await lab.superuser.fetch(
        """select type from outbox where data ->> 'session_id' = $1 union all
           select type from events where data ->> 'session_id' = $1""",
        str(session_id),
    )
    assert [row["type"] for row in events].count("session.queued") == 2


async def test_what_was_wrong_is_forgotten_and_the_model_can_be_another(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("fail auth No."))
        assert (await lab.ended(session_id))["state"] == "FAILED"
    body = {"prompt": script("say Right."), "model": "demo/demo"}
    answer = await lab.client.post(f"/api/sessions/{session_id}/continue", json=body)
    read = answer.json()
    assert (read["state"], read["error"], read["result"]) == ("QUEUED", None, None)
    assert (read["model"], read["queued"], read["position"]) == ("demo/demo", True, 1)
    async with lab.engine():
        assert (await lab.ended(session_id))["result"]["text"] == "Right."


async def test_guards_count_anew_and_running_time_is_not_lost(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script("call list_files {}", "call list_files {}", "say Done."),
            guards={"max_turns": 1},
        )
        assert (await lab.ended(session_id))["error_code"] == "turn_limit"
        ran = await lab.superuser.fetchval("select ran_ms from sessions where id = $1", session_id)
        read = await continued(lab, session_id, "say Done.")
    assert (read["state"], read["turns"]) == ("COMPLETE", 1)
    queued = [row for row in await lab.journal(session_id) if row["name"] == "QUEUED"]
    assert f'"ran_ms":{ran}' in queued[-1]["input"]


async def test_tokens_count_anew(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script("call list_files {}", "usage 900 100", "say Done."), guards={"max_tokens": 1000}
        )
        assert (await lab.ended(session_id))["error_code"] == "token_limit"
        lines = ("call list_files {}", "usage 900 99", "say Done.")
        assert (await continued(lab, session_id, *lines))["state"] == "COMPLETE"
        lines = ("call list_files {}", "usage 900 100", "say Done.")
        assert (await continued(lab, session_id, *lines))["error_code"] == "token_limit"


async def test_calls_that_it_was_stopped_at_are_closed(lab: Lab) -> None:
    """A conversation in which a call has no result is refused by every model."""
    calls = ('call shell {"command": "sleep 60"}', 'call write_file {"path": "b", "content": ""}')
    async with lab.engine():
        session_id = await lab.create(script(*calls))
        await lab.until(session_id, "RUNNING")
        while "model" not in await lab.kinds(session_id):
            await lab.read(session_id)
        await lab.post(f"/api/sessions/{session_id}/cancel")
        read = await continued(lab, session_id, "say Well.")
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Well.")
    tools = [row for row in await lab.journal(session_id) if row["kind"] == "tool"]
    assert [(row["name"], row["status"]) for row in tools] == [
        ("shell", "failed"),
        ("write_file", "failed"),
    ]
    assert all("was not made" in row["output"] for row in tools)


async def test_a_call_that_had_begun_outside_is_uncertain(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script('call shell {"command": "sleep 60"}'), allowed_hosts=["example.com"]
        )
        while not await lab.superuser.fetchval(
            "select doing from sessions where id = $1", session_id
        ):
            await lab.read(session_id)
        await lab.post(f"/api/sessions/{session_id}/cancel")
    # Twice: what was in doubt is told once.
    await lab.post(f"/api/sessions/{session_id}/continue", prompt="More.")
    await lab.post(f"/api/sessions/{session_id}/cancel")
    async with lab.engine():
        await continued(lab, session_id, "say Well.")
    (tool,) = [row for row in await lab.journal(session_id) if row["kind"] == "tool"]
    assert tool["status"] == "uncertain"


async def test_only_what_has_ended_can_be_continued(lab: Lab) -> None:
    created = await lab.create(run=False)
    queued = await lab.create()
    other = await lab.gateway.tenant()
    for session_id in (created, queued):
        told = await lab.post(f"/api/sessions/{session_id}/continue", 409, prompt="More.")
        assert told["code"] == "illegal_transition"
    answer = await other.client.post(f"/api/sessions/{queued}/continue", json={"prompt": "x"})
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_an_unknown_model_is_refused_and_nothing_changes(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        before = await lab.ended(session_id)
    answer = await lab.client.post(
        f"/api/sessions/{session_id}/continue", json={"prompt": "x", "model": "no-such-model"}
    )
    assert answer.status_code in (404, 422)
    assert await lab.read(session_id) == before


async def test_a_prompt_that_no_row_can_hold_is_refused(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        await lab.ended(session_id)
    for prompt in ("", "a\0b"):
        await lab.post(f"/api/sessions/{session_id}/continue", 422, prompt=prompt)


async def test_continuing_is_audited_and_needs_its_scope(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        await lab.ended(session_id)
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset())
    without = await lab.gateway.client(key)
    body = {"prompt": "x"}
    path = f"/api/sessions/{session_id}/continue"
    assert (await without.post(path, json=body)).status_code == 403
    await lab.post(path, prompt="x")
    actions = await lab.superuser.fetch(
        "select action from audit_log where target_id = $1 order by id", str(session_id)
    )
    assert [row["action"] for row in actions] == ["session.created", "session.continued"]
