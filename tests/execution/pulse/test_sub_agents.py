"""Sub-agents: started by a session, on their own, within its limits and its budget."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.execution.pulse.asking import policy, used, waiting
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.sub_agents.shares import parts_of


def spawn(*tasks: str | dict[str, Any]) -> str:
    """The line of a script that starts these."""
    bodies = [{"prompt": task} if isinstance(task, str) else task for task in tasks]
    return f"call spawn_agents {json.dumps({'tasks': bodies})}"


async def children(lab: Lab, session_id: UUID) -> list[dict[str, Any]]:
    answer = await lab.client.get("/api/sessions", params={"parent_id": str(session_id)})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items[::-1]


async def results(lab: Lab, session_id: UUID) -> list[dict[str, Any]]:
    """What the calls of spawn_agents were answered with."""
    rows = await lab.journal(session_id)
    return [json.loads(r["output"]) for r in rows if r["name"] == "spawn_agents"]


async def test_agents_work_in_parallel_and_their_results_are_collected(lab: Lab) -> None:
    prompt = script(
        'call write_file {"path": "shared.txt", "content": "S"}',
        "say Now the others.",
        spawn(
            {
                "title": "First",
                "prompt": script(
                    'call shell {"command": "cat shared.txt > a.txt; echo A >> a.txt"}',
                    "say A done.",
                ),
            },
            script("say B done."),
        ),
        "say All:",
        "result",
    )
    async with lab.engine():
        session_id = await lab.create(prompt, guards={"max_turns": 7})
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    first, second = await children(lab, session_id)
    assert (first["title"], first["state"], second["state"]) == ("First", "COMPLETE", "COMPLETE")
    (result,) = await results(lab, session_id)
    assert [agent["id"] for agent in result["agents"]] == [first["id"], second["id"]]
    text = result["text"]
    assert text.index("A done.") < text.index("Files it changed: a.txt (added).")
    assert text.index("a.txt") < text.index("B done.")
    # They have a copy of the files, and change nothing of their parent's.
    assert [file["path"] for file in read["result"]["files"]] == ["shared.txt"]
    config = (await lab.read(UUID(first["id"])))["config"]
    assert config["guards"]["max_turns"] == 7
    assert "children" in [
        json.loads(row["output"])["reason"]
        for row in await lab.journal(session_id)
        if row["name"] == "PAUSED"
    ]


async def test_a_parent_waits_without_a_slot_even_nested_on_a_free_plan(lab: Lab) -> None:
    lab.person = await lab.gateway.tenant(plan="free")
    leaf = script("say Leaf.")
    middle = script(spawn(leaf, leaf), "say Middle.")
    async with lab.engine():
        session_id = await lab.create(script(spawn(middle, middle, middle), "say Top."))
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Top.")
    (result,) = await results(lab, session_id)
    assert result["text"].count("Middle.") == 3


async def test_a_failed_agent_is_a_result(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script(spawn(script("fail auth No key."), script("say Fine.")), "say Well.")
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    (result,) = await results(lab, session_id)
    assert [agent["state"] for agent in result["agents"]] == ["FAILED", "COMPLETE"]
    assert "It did not get done: " in result["text"]


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"prompt": "Go.", "tools": ["http_send"]}, "tools that you do not have: http_send"),
        ({"prompt": "Go.", "model": "nobody/nothing"}, "There is no model"),
        ({"prompt": "Go.\0"}, "zero byte"),
        ({"prompt": "Go.", "budget_share": 2}, "The arguments do not fit"),
        ({}, "The arguments do not fit"),
    ],
)
async def test_what_cannot_be_started(lab: Lab, task: dict[str, Any], told: str) -> None:
    async with lab.engine():
        session_id = await lab.create(script(spawn(task), "say Well."))
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    ((_, status, text),) = used(await lab.journal(session_id))
    assert status == "failed"
    assert told in text
    assert await children(lab, session_id) == []


async def test_agents_have_no_more_tools_than_they_are_given(lab: Lab) -> None:
    task = {
        "prompt": script('call write_file {"path": "a", "content": "b"}', "say No."),
        "tools": [],
    }
    async with lab.engine():
        session_id = await lab.create(script(spawn(task), "say Done."))
        await lab.ended(session_id)
    (child,) = await children(lab, session_id)
    assert used(await lab.journal(UUID(child["id"]))) == []


async def test_nesting_ends_at_the_third_level(lab: Lab) -> None:
    prompt = script("say Bottom.")
    for name in ("third", "second", "first", "top"):
        prompt = script(spawn(prompt), f"say {name}.")
    async with lab.engine():
        session_id = await lab.create(prompt)
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    depths, level = [], [session_id]
    while level:
        depths.append(level)
        level = [UUID(c["id"]) for each in level for c in await children(lab, each)]
    # The top, and three below it: the third is not offered the tool.
    assert [len(each) for each in depths] == [1, 1, 1, 1]
    assert used(await lab.journal(depths[-1][0])) == []


async def test_a_family_has_fifty_members_at_most(lab: Lab) -> None:
    leaf = script("say Leaf.")
    one = spawn(*[leaf] * 20)
    async with lab.engine():
        session_id = await lab.create(
            script(one, "say 20.", one, "say 40.", spawn(*[leaf] * 11), "say 51.", "say Done.")
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    steps = used(await lab.journal(session_id))
    assert [status for _, status, _ in steps] == ["done", "done", "failed"]
    assert "40 were started" in steps[2][2]


async def test_cancelling_a_session_cancels_its_agents(lab: Lab) -> None:
    await policy(lab, "shell", "ask")
    leaf = script('call shell {"command": "true"}', "say No.")
    middle = script(spawn(leaf), "say No.")
    async with lab.engine(), asyncio.timeout(60):
        session_id = await lab.create(script(spawn(middle, leaf), "say No."))
        while len(await waiting(lab)) < 2:  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)
        await lab.post(f"/api/sessions/{session_id}/cancel")
    rows = await lab.superuser.fetch(
        "select state, error_code from sessions where tenant_id = $1", lab.person.tenant_id
    )
    assert [tuple(row) for row in rows] == [("FAILED", "cancelled")] * 4
    assert await waiting(lab) == []


async def test_cancelling_an_agent_lets_its_parent_go_on(lab: Lab) -> None:
    ask = script('call ask_human {"question": "Well?"}', "say No.")
    async with lab.engine(), asyncio.timeout(60):
        session_id = await lab.create(script(spawn(ask), "say Well."))
        while not await waiting(lab):  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)
        (child,) = await children(lab, session_id)
        await lab.post(f"/api/sessions/{child['id']}/cancel")
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"


async def deadlocks(superuser: asyncpg.Connection[Any]) -> int:
    await superuser.execute("select pg_stat_clear_snapshot()")
    count: int = await superuser.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    return count


async def test_agents_that_end_at_once_and_a_cancel_in_the_middle(lab: Lab) -> None:
    """Whatever comes first, all end, and nobody waits for each other."""
    before = await deadlocks(lab.superuser)
    leaf = script("say Leaf.")
    middle = script(spawn(*[leaf] * 4), "say Middle.")
    async with lab.engine(), lab.engine(), asyncio.timeout(100):
        for number in range(6):
            session_id = await lab.create(script(spawn(*[middle] * 3), "say Top."))
            # Each time a little later.
            while len(await children(lab, session_id)) < 3:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0)
            await asyncio.sleep(0.1 * number)
            answer = await lab.client.post(f"/api/sessions/{session_id}/cancel")
            assert answer.status_code in (200, 409), answer.text
            await lab.ended(session_id)
            for child in await children(lab, session_id):
                assert child["state"] in ("COMPLETE", "FAILED")
    open_ones = await lab.superuser.fetchval(
        """select count(*) from sessions where tenant_id = $1
           and state not in ('COMPLETE', 'FAILED', 'ROLLED_BACK')""",
        lab.person.tenant_id,
    )
    assert open_ones == 0
    assert await deadlocks(lab.superuser) == before


async def a_waiting_agent(lab: Lab) -> tuple[UUID, UUID, str]:
    """A session that waits for its agent, the agent, and the question that this waits with."""
    ask = script('call ask_human {"question": "Well?"}', "say Yes.")
    session_id = await lab.create(script(spawn(ask), "say Well."))
    async with asyncio.timeout(60):
        while not (items := await waiting(lab)):  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)
    return session_id, UUID(items[0]["session_id"]), items[0]["id"]


async def test_an_agent_that_ends_locks_its_parent_before_itself(lab: Lab) -> None:
    """As does whoever cancels the parent: so they cannot wait for each other."""
    async with lab.engine(), asyncio.timeout(60):
        session_id, child_id, item = await a_waiting_agent(lab)
        async with lab.superuser.transaction():
            await lab.superuser.execute("select from sessions where id = $1 for update", session_id)
            await lab.post(f"/api/approvals/{item}/approve", answer="Yes.")
            while not await lab.superuser.fetchval(  # noqa: ASYNC110 - the database is asked
                "select exists (select from pg_locks where not granted)"
            ):
                await asyncio.sleep(0.02)
            await lab.superuser.execute(
                "select from sessions where id = $1 for update nowait", child_id
            )
        assert (await lab.ended(session_id))["state"] == "COMPLETE"


async def test_an_agent_that_costs_too_many_workers_is_a_result(lab: Lab) -> None:
    async with lab.engine(), asyncio.timeout(60):
        session_id, child_id, item = await a_waiting_agent(lab)
        await lab.superuser.execute(
            """update sessions set state = 'RUNNING', owner = $2, losses = 2, waiting_for = null,
               wake_at = null, running_since = now() where id = $1""",
            child_id,
            uuid4(),
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    (result,) = await results(lab, session_id)
    assert result["agents"][0]["state"] == "FAILED"
    assert (await lab.client.get(f"/api/approvals/{item}")).json()["state"] == "withdrawn"


async def test_a_lost_worker_does_not_start_agents_twice(lab: Lab) -> None:
    slow = script('call ask_human {"question": "Well?"}', "say Yes.")
    async with asyncio.timeout(60):
        async with lab.engine(drain_seconds=0):
            session_id = await lab.create(script(spawn(slow, slow), "say Done."))
            while len(await waiting(lab)) < 2:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        async with lab.engine():
            for item in await waiting(lab):
                await lab.post(f"/api/approvals/{item['id']}/approve", answer="Yes.")
            read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    assert len(await children(lab, session_id)) == 2


# Files


async def collecting(lab: Lab, arguments: str) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """A session that collects what its agent has made; `{id}` in the arguments is the agent's."""
    work = script(
        'call shell {"command": "mkdir d; echo 1 > d/one; echo 2 > d/two; echo 3 > three"}',
        "say Made.",
    )
    session_id = await lab.create(script(spawn(work), "say So far."), files={"three": "old"})
    await lab.ended(session_id)
    (child,) = await children(lab, session_id)
    line = f"call collect_files {arguments.replace('ID', child['id'])}"
    await lab.post(f"/api/sessions/{session_id}/continue", prompt=script(line, "say Done."))
    read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    return read, used(await lab.journal(session_id))[1:]


@pytest.mark.parametrize(
    ("arguments", "copied"),
    [
        ('{"agent": "ID"}', ["d/one", "d/two", "three"]),
        ('{"agent": "ID", "paths": ["d"]}', ["d/one", "d/two"]),
        ('{"agent": "ID", "paths": ["three", "./d/two"]}', ["three", "d/two"]),
    ],
)
async def test_files_of_an_agent_are_copied(lab: Lab, arguments: str, copied: list[str]) -> None:
    async with lab.engine():
        read, ((_, status, text),) = await collecting(lab, arguments)
    assert (status, text) == ("done", f"Copied {', '.join(copied)}.")
    changed = [f["path"] for f in read["result"]["files"] if f["path"] != "d"]
    assert changed == sorted(copied)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"agent": "ID", "paths": ["four"]}', "The agent has no file four."),
        ('{"agent": "ID", "paths": ["../etc/passwd"]}', "The agent has no file ../etc/passwd."),
        (f'{{"agent": "{UUID(int=7)}"}}', "This session has started no such agent."),
        ('{"agent": "me"}', "This session has started no such agent."),
    ],
)
async def test_files_that_are_not_there(lab: Lab, arguments: str, told: str) -> None:
    async with lab.engine():
        _, ((_, status, text),) = await collecting(lab, arguments)
    assert status == "failed"
    assert text.startswith(told)


# Budgets


@pytest.mark.parametrize(
    ("room", "shares", "parts"),
    [
        (90, [None, None], [30, 30]),
        (100, [0.5, None], [50, 25]),
        (100, [0.5, 0.5], [50, 50]),
        (100, [1.0, None], [100, 0]),
        (10, [None] * 3, [2, 2, 2]),
        (0, [None], [0]),
    ],
)
def test_shares(room: int, shares: list[float | None], parts: list[int]) -> None:
    assert parts_of(room, shares) == parts


async def priced(lab: Lab) -> None:
    """A dollar for a million tokens, in and out."""
    body = {"provider": "demo", "model": "demo", "input": 1_000_000, "output": 1_000_000}
    assert (await lab.client.put("/api/models/prices", json=body)).status_code == 200


async def caps(lab: Lab) -> dict[UUID, tuple[int, int]]:
    """Cap and what is spent, by session."""
    rows = await lab.superuser.fetch(
        """select b.subject_id, b.cap_micros, coalesce(a.spent_micros, 0) as spent
           from budgets b left join accounts a on a.tenant_id = b.tenant_id
               and a.scope = b.scope and a.subject_id = b.subject_id
           where b.tenant_id = $1 and b.scope = 'session' order by b.subject_id""",
        lab.person.tenant_id,
    )
    return {row["subject_id"]: (row["cap_micros"], row["spent"]) for row in rows}


async def test_agents_get_shares_of_the_budget_and_give_back_what_is_left(lab: Lab) -> None:
    await priced(lab)
    ask = script('call ask_human {"question": "Well?"}', "say Done.", "usage 1000 0")
    whole = 1_000_000
    async with lab.engine(), asyncio.timeout(100):
        session_id = await lab.create(
            script(spawn(ask, {"prompt": ask, "budget_share": 0.5}), "say Done."),
            budget_micros=whole,
            max_output_tokens=1000,
        )
        while len(await waiting(lab)) < 2:  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)
        shared = await caps(lab)
        assert sum(cap for cap, _ in shared.values()) == whole
        parent, first, second = (shared[key][0] for key in sorted(shared))
        # Of what was neither spent nor held for the parent's next call.
        assert second == pytest.approx(2 * first, abs=1)
        assert whole / 4 >= first >= whole / 5
        assert parent >= first
        for item in await waiting(lab):
            await lab.post(f"/api/approvals/{item['id']}/approve", answer="Go.")
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    after = await caps(lab)
    assert sum(cap for cap, _ in after.values()) == whole
    for child_id, (cap, spent) in after.items():
        if child_id != session_id:
            assert cap == spent > 0
    assert sum(spent for _, spent in after.values()) <= whole


async def test_an_agent_that_has_spent_its_share_fails_and_its_parent_goes_on(lab: Lab) -> None:
    await priced(lab)
    async with lab.engine(), asyncio.timeout(100):
        session_id = await lab.create(
            script(spawn({"prompt": "What is 2 + 2?", "budget_share": 0.0001}), "say Done."),
            budget_micros=1_000_000,
            max_output_tokens=1000,
        )
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    (child,) = await children(lab, session_id)
    assert (child["state"], child["error_code"]) == ("FAILED", "budget_exhausted")
    assert sum(cap for cap, _ in (await caps(lab)).values()) == 1_000_000
