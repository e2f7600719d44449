"""Forks: a new session out of the steps of another, that owes it nothing afterwards."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.test_rollback import fingerprint, told, write

from agentos.execution.pulse import conversation, journal
from agentos.execution.retention import delete_ended_sessions
from agentos.integrations.objects import service as objects
from agentos.integrations.workspaces.garbage import collect_garbage
from agentos.kernel.ids import uuid7


async def fork(lab: Lab, session_id: UUID, seq: int, **body: Any) -> UUID:
    made = await lab.post(f"/api/sessions/{session_id}/fork", 201, seq=seq, **body)
    return UUID(made["id"])


async def spoken(lab: Lab, session_id: UUID) -> list[asyncpg.Record]:
    return [row for row in await lab.journal(session_id) if row["kind"] in conversation.SPOKEN]


async def unused_answer(lab: Lab, session_id: UUID) -> int:
    """The step of the last answer."""
    return int([r["seq"] for r in await lab.journal(session_id) if r["kind"] == "model"][-1])


async def test_a_fork_goes_its_own_way_with_the_same_past(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), "say Done.", "usage 100 10"))
        original = await lab.ended(session_id)
        at = await unused_answer(lab, session_id)
        prompt = script(write("b", "2"), "say Forked.")
        fork_id = await fork(lab, session_id, at, prompt=prompt, model="demo/demo")
        read = await lab.ended(fork_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Forked.")
    assert (read["forked_from"], read["forked_seq"]) == (str(session_id), at)
    assert (read["model"], read["title"]) == ("demo/demo", original["title"])
    assert await lab.read(session_id) == original
    assert set(fingerprint(lab, fork_id)) == {b"/a", b"/b"}
    assert set(fingerprint(lab, session_id)) == {b"/a"}
    shared = await spoken(lab, session_id)
    copied = (await spoken(lab, fork_id))[: len(shared)]
    assert [row["output"] for row in copied] == [row["output"] for row in shared]
    assert [row["snapshot_id"] for row in copied] == [row["snapshot_id"] for row in shared]
    assert all(row["call_id"] is None and not row["input_tokens"] for row in copied)
    assert not any(row["cost_micros"] for row in copied)
    past = await told(lab, session_id, at)
    assert (await told(lab, fork_id, 10**6))[: len(past)] == past


async def test_keys_of_calls_follow_the_new_numbers(lab: Lab) -> None:
    """A copied result belongs to its call, so nothing is done again."""
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), write("b", "2"), "say Done."))
        await lab.ended(session_id)
        at = await unused_answer(lab, session_id) - 1
        fork_id = await fork(lab, session_id, at)
        read = await lab.ended(fork_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Done.")
    rows = await lab.journal(fork_id)
    assert [row["key"] for row in rows if row["kind"] == "tool"] == ["2.0", "2.1"]
    assert [row["kind"] for row in rows if row["kind"] in conversation.SPOKEN] == [
        "message", "model", "tool", "tool", "model",
    ]  # fmt: skip


async def test_at_the_first_message_the_prompt_takes_its_place(lab: Lab) -> None:
    session_id = await lab.create(script("say One."), instructions="Be brief.")
    fork_id = await fork(
        lab, session_id, 2, prompt=script("say Two."), instructions="Be long.", run=False
    )
    read = await lab.read(fork_id)
    assert (read["state"], read["queued"], read["steps"]) == ("CREATED", False, 1)
    assert read["config"]["prompt"] == script("say Two.")
    assert read["config"]["instructions"] == "Be long."
    assert read["title"].startswith("```demo say Two.")
    async with lab.engine():
        await lab.post(f"/api/sessions/{fork_id}/run")
        assert (await lab.ended(fork_id))["result"]["text"] == "Two."


async def test_between_calls_it_takes_the_step_before_them(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), write("b", "2"), "say Done."))
        await lab.ended(session_id)
        first = next(r["seq"] for r in await lab.journal(session_id) if r["kind"] == "tool")
        fork_id = await fork(lab, session_id, first, prompt=script("say New."))
        read = await lab.ended(fork_id)
    assert (read["forked_seq"], read["result"]["text"]) == (first - 2, "New.")


async def test_a_running_session_can_be_forked(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script(write("a", "1"), "say Now.", 'call shell {"command": "sleep 60"}')
        )
        while "tool" not in await lab.kinds(session_id):
            await lab.read(session_id)
        tool = next(r["seq"] for r in await lab.journal(session_id) if r["kind"] == "tool")
        fork_id = await fork(lab, session_id, tool, prompt=script("say Forked."))
        assert (await lab.ended(fork_id))["state"] == "COMPLETE"
        assert (await lab.read(session_id))["state"] == "RUNNING"
        await lab.post(f"/api/sessions/{session_id}/cancel")


async def test_after_an_answer_a_prompt_is_needed_to_run(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say One."))
        await lab.ended(session_id)
        at = await unused_answer(lab, session_id)
        told = await lab.post(f"/api/sessions/{session_id}/fork", 422, seq=at)
        assert told["code"] == "prompt_needed"
        # The step before it has the answer given anew.
        fork_id = await fork(lab, session_id, at - 1)
        assert (await lab.ended(fork_id))["result"]["text"] == "One."


async def test_each_survives_the_deletion_of_the_other(lab: Lab) -> None:
    """What is too large for the journal is copied; the snapshots of files are counted."""
    large = "y" * 100_000
    prompt = script(write("a", large), 'call shell {"command": "seq 1 20000"}', "say Done.")
    async with lab.engine():
        session_id = await lab.create(prompt, max_output_tokens=100_000)
        ended = await lab.ended(session_id)
        assert ended["state"] == "COMPLETE", ended["error"]
        at = await unused_answer(lab, session_id)
        fork_id = await fork(lab, session_id, at, run=False)
    names = ("input_object", "output_object")
    own = {row[n] for row in await lab.journal(session_id) for n in names} - {None}
    copied = {row[n] for row in await lab.journal(fork_id) for n in names} - {None}
    assert len(copied) >= len(own) > 0
    assert not own & copied
    past = [m.parts for m in await told(lab, session_id, at)]

    await delete_ended_sessions(lab.parts.platform_db, lab.clock.now() + timedelta(hours=1))
    assert (await lab.client.get(f"/api/sessions/{session_id}")).status_code == 404
    await collect_garbage(lab.parts.platform_db, timedelta(0))
    await lab.superuser.execute(
        "update discarded_objects set discarded_at = now() - interval '1 day'"
    )
    store = lab.gateway.parts.objects
    swept = await objects.sweep(lab.parts.platform_db, store, older_than=timedelta(hours=1))
    assert swept >= len(own) + 1
    kept = [m.parts for m in await told(lab, fork_id, 10**6)]
    assert len(kept) == len(past)
    tools = [row for row in await lab.journal(fork_id) if row["kind"] == "tool"]
    whole = await lab.client.get(f"/api/sessions/{fork_id}/steps/{tools[-1]['seq']}/whole")
    assert whole.content.startswith(b"1\n2\n")
    # The text names the copy, not what is gone.
    assert json.loads(tools[-1]["output"])["whole"] in json.loads(tools[-1]["output"])["text"]
    first = await lab.client.get(f"/api/sessions/{fork_id}/files/content", params={"path": "a"})
    assert first.text == large


async def test_checkpoints_and_the_budget_are_the_forks_own(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say One."), budget_micros=1000)
        await lab.ended(session_id)
        await lab.post(f"/api/sessions/{session_id}/checkpoints", 201, name="good")
        fork_id = await fork(lab, session_id, (await lab.read(session_id))["steps"], run=False)
    answer = await lab.client.get(f"/api/sessions/{fork_id}/checkpoints")
    (end, good) = answer.json()["items"]
    assert (end["name"], good["name"], good["session_id"]) == ("end", "good", str(fork_id))
    caps = await lab.superuser.fetch("select cap_micros from budgets order by created_at")
    assert [row["cap_micros"] for row in caps] == [1000, 1000]


async def test_forks_are_announced_and_audited(lab: Lab) -> None:
    session_id = await lab.create()
    fork_id = await fork(lab, session_id, 1)
    events = await lab.superuser.fetch(
        """select type from outbox where data ->> 'session_id' = $1 union
           select type from events where data ->> 'session_id' = $1""",
        str(fork_id),
    )
    assert {row["type"] for row in events} == {
        "session.forked",
        "session.created",
        "session.queued",
    }
    actions = await lab.superuser.fetch(
        "select action from audit_log where target_id = $1", str(fork_id)
    )
    assert [row["action"] for row in actions] == ["session.forked"]


async def test_what_is_refused(lab: Lab) -> None:
    session_id = await lab.create()
    other = await lab.gateway.tenant()
    where = f"/api/sessions/{session_id}/fork"
    assert (await lab.post(where, 404, seq=99))["code"] == "step_not_found"
    answer = await other.client.post(where, json={"seq": 1})
    assert answer.json()["code"] == "session_not_found"
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset())
    assert (await (await lab.gateway.client(key)).post(where, json={"seq": 1})).status_code == 403
    answer = await lab.client.post(where, json={"seq": 1, "model": "no-such-model"})
    assert answer.status_code in (404, 422)
    answer = await lab.client.post(f"/api/sessions/{uuid7()}/fork", json={"seq": 1})
    assert answer.json()["code"] == "session_not_found"


async def test_a_compaction_still_points_at_what_it_kept(lab: Lab) -> None:
    session_id = await lab.create(script("say One."))
    await lab.superuser.execute(
        """insert into steps (tenant_id, session_id, seq, parent, kind, name, status, key, input,
               output, fence, at)
           select $1, $2, n.seq, n.seq - 1, n.kind, 'x', 'done', null, n.input::json,
               n.output::json, 0, now()
           from (values (3, 'message', null, '{"text":"old"}'), (4, 'state', null, null),
               (5, 'message', null, '{"text":"kept"}'),
               (6, 'compaction', '{"kept_from":5}', '{"text":"sum"}')) as n (seq, kind, input, output)""",
        lab.person.tenant_id,
        session_id,
    )
    await lab.superuser.execute("update sessions set seq = 6 where id = $1", session_id)
    fork_id = await fork(lab, session_id, 6, run=False)
    async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
        path = await journal.read_path(tx, fork_id, 10)
    assert [step.output["text"] for step in conversation.in_context(path)] == ["sum", "kept"]
