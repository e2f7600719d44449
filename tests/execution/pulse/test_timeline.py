"""The timeline: every step with what went in and out, and whether it is in force."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import httpx
from hypothesis import given
from hypothesis import strategies as st
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.history.paths import InForce
from agentos.kernel.ids import uuid7

WRITE = 'call write_file {"path": "a.txt", "content": "one"}'


async def steps_of(lab: Lab, session_id: UUID, **query: Any) -> list[dict[str, Any]]:
    """All pages of a timeline."""
    items: list[dict[str, Any]] = []
    while True:
        answer = await lab.client.get(f"/api/sessions/{session_id}/steps", params=query)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        if answer.json()["next_cursor"] is None:
            return items
        query["cursor"] = answer.json()["next_cursor"]


async def seqs_in_force(lab: Lab, session_id: UUID) -> list[int]:
    return [step["seq"] for step in await steps_of(lab, session_id) if step["in_force"]]


async def test_a_timeline_shows_every_step_as_it_happened(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say Done.", "usage 100 10"))
        await lab.ended(session_id)
    steps = await steps_of(lab, session_id, limit=3)
    rows = await lab.journal(session_id)
    assert [step["seq"] for step in steps] == [row["seq"] for row in rows]
    assert [step["kind"] for step in steps] == [row["kind"] for row in rows]
    assert all(step["in_force"] and not step["truncated"] for step in steps)
    tool = next(step for step in steps if step["kind"] == "tool")
    assert json.loads(tool["input"]["arguments"]) == {"path": "a.txt", "content": "one"}
    assert tool["has_files"]
    assert not tool["output"]["failed"]
    answer = [step for step in steps if step["kind"] == "model"][-1]
    assert (answer["input_tokens"], answer["output_tokens"]) == (100, 10)


async def test_one_kind_is_listed_and_a_step_is_read_by_itself(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say Done."))
        await lab.ended(session_id)
    (tool,) = await steps_of(lab, session_id, kind="tool")
    read = (await lab.client.get(f"/api/sessions/{session_id}/steps/{tool['seq']}")).json()
    assert read == tool


async def test_large_inputs_are_excerpts_in_lists_and_whole_by_themselves(lab: Lab) -> None:
    long, longer = "x" * 10_000, "y" * 100_000
    sessions = []
    async with lab.engine():
        for content in (long, longer):
            call = json.dumps({"path": "a", "content": content})
            session_id = await lab.create(
                script(f"call write_file {call}", "say Done."), max_output_tokens=100_000
            )
            assert (await lab.ended(session_id))["state"] == "COMPLETE"
            sessions.append((session_id, content))
    for session_id, content in sessions:
        (tool,) = await steps_of(lab, session_id, kind="tool")
        assert tool["truncated"]
        assert set(tool["input"]) == {"excerpt", "bytes"}
        assert tool["input"]["bytes"] > len(content)
        read = (await lab.client.get(f"/api/sessions/{session_id}/steps/{tool['seq']}")).json()
        assert json.loads(read["input"]["arguments"])["content"] == content
        assert not read["truncated"]
    rows = await lab.journal(sessions[1][0])
    assert any(row["input_object"] for row in rows)


async def test_all_of_a_long_output_can_be_had(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script('call shell {"command": "seq 1 20000"}', "say Done."))
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    (tool,) = await steps_of(lab, session_id, kind="tool")
    where = f"/api/sessions/{session_id}/steps"
    whole = await lab.client.get(f"{where}/{tool['seq']}/whole")
    assert whole.content.startswith(b"1\n2\n")
    assert whole.content.rstrip().endswith(b"\n20000")
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["x-content-type-options"] == "nosniff"
    none = await lab.client.get(f"{where}/1/whole")
    assert (none.status_code, none.json()["code"]) == (404, "no_whole_output")


async def test_in_force_follows_rollbacks_and_their_undoing(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say One."))
        await lab.ended(session_id)
    first = len(await lab.journal(session_id))
    assert await seqs_in_force(lab, session_id) == list(range(1, first + 1))
    back = await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=2)
    # The state step before the rollback is behind it, too.
    after = [1, 2, first + 2, first + 3]
    assert (back["undo_seq"], await seqs_in_force(lab, session_id)) == (first, after)
    again = await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=1)
    assert await seqs_in_force(lab, session_id) == [1, first + 5, first + 6]
    undone = await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=again["undo_seq"])
    assert await seqs_in_force(lab, session_id) == [*after, first + 8, first + 9]
    assert undone["undo_seq"] == first + 6
    await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=first)
    assert await seqs_in_force(lab, session_id) == [*range(1, first + 1), first + 11, first + 12]


def test_ranges_in_force() -> None:
    assert InForce.of([], 5).ranges == ((1, 5),)
    assert InForce.of([(4, 2)], 6).ranges == ((1, 2), (4, 6))
    # The second rollback undoes the first.
    assert InForce.of([(4, 2), (6, 3)], 7).ranges == ((1, 3), (6, 7))
    # Before the second, the first was in force.
    assert InForce.of([(4, 2), (6, 3)], 5).ranges == ((1, 2), (4, 5))
    # Back into what followed an earlier rollback.
    assert InForce.of([(4, 2), (8, 5)], 8).ranges == ((1, 2), (4, 5), (8, 8))
    assert 3 not in InForce.of([(4, 2)], 6)


@given(choices=st.lists(st.integers(0, 10**6), max_size=40))
def test_ranges_are_what_following_parents_gives(choices: list[int]) -> None:
    """A journal of random steps and rollbacks to random steps, looked at from every tip."""
    parents: list[int] = [0, 0]
    rollbacks: list[tuple[int, int]] = []
    for choice in choices:
        seq = len(parents)
        back = choice % 3 == 0
        parents.append(1 + choice % (seq - 1) if back else seq - 1)
        if back:
            rollbacks.append((seq, parents[-1]))
    for tip in range(1, len(parents)):
        at, path = tip, set()
        while at:
            path.add(at)
            at = parents[at]
        known = InForce.of([r for r in rollbacks if r[0] <= tip], tip)
        assert {seq for seq in range(1, len(parents)) if seq in known} == path
        assert InForce.of(rollbacks, tip) == known


async def test_what_is_not_there_and_what_is_not_allowed(lab: Lab) -> None:
    session_id = await lab.create(script("say Hi."), run=False)
    other = await lab.gateway.tenant()
    where = f"/api/sessions/{session_id}/steps"

    async def told(client: httpx.AsyncClient, path: str) -> tuple[int, str]:
        answer = await client.get(path)
        return answer.status_code, answer.json()["code"]

    assert await told(lab.client, f"{where}/99") == (404, "step_not_found")
    assert await told(lab.client, f"/api/sessions/{uuid7()}/steps") == (404, "session_not_found")
    for path in (where, f"{where}/1", f"{where}/1/whole"):
        assert await told(other.client, path) == (404, "session_not_found")
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset())
    without = await lab.gateway.client(key)
    for path in (where, f"{where}/1"):
        assert (await without.get(path)).status_code == 403
    assert await told(lab.client, f"{where}?cursor=Zm9v") == (422, "bad_cursor")
