"""Chains through the API, with a real engine and an advancer beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.chains.advance import keep_advancing

_PATIENCE = 60
_ENDED = ("COMPLETE", "FAILED", "CANCELLED")


class Chains:
    """Chains of the lab's tenant."""

    def __init__(self, lab: Lab):
        self.lab = lab

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A worker: an engine, and what advances chains."""
        async with self.lab.engine():
            task = asyncio.create_task(keep_advancing(self.lab.parts))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def create(self, nodes: dict[str, Any], **chain: Any) -> dict[str, Any]:
        with_model = {name: {"model": "demo", **node} for name, node in nodes.items()}
        return await self.lab.post(
            "/api/chains", 201, **{"name": "test", "nodes": with_model, **chain}
        )

    async def read(self, chain_id: str) -> dict[str, Any]:
        answer = await self.lab.client.get(f"/api/chains/{chain_id}")
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    async def until(self, chain_id: str, *states: str) -> dict[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            while (read := await self.read(chain_id))["state"] not in states:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        return read

    async def ended(self, chain_id: str) -> dict[str, Any]:
        return await self.until(chain_id, *_ENDED)

    async def run(self, nodes: dict[str, Any], **chain: Any) -> dict[str, Any]:
        """A chain from its creation to its end."""
        async with self.running():
            return await self.ended((await self.create(nodes, **chain))["id"])

    async def events(self, chain_id: str) -> list[tuple[str, str | None]]:
        """What was announced of a chain, in order."""
        rows = await self.lab.superuser.fetch(
            """select type, data ->> 'node' as node from outbox
               where data ->> 'chain_id' = $1 order by id""",
            chain_id,
        )
        return [(row["type"], row["node"]) for row in rows]

    async def sessions(self, chain_id: str) -> list[asyncpg.Record]:
        return await self.lab.superuser.fetch(
            "select * from sessions where chain_id = $1::uuid order by id", chain_id
        )


def states(chain: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["state"] for node in chain["nodes"]}


def node_of(chain: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(node for node in chain["nodes"] if node["id"] == name)
    return found


@pytest.fixture
def chains(lab: Lab) -> Chains:
    return Chains(lab)


async def test_a_sequence_hands_on_what_was_said(chains: Chains) -> None:
    chain = await chains.run(
        {
            "first": {"prompt": script("say Hello, {{ inputs.who }}.")},
            "second": {"prompt": script("say First: {{ nodes.first.text }}")},
        },
        inputs={"who": {"default": "world", "json_schema": {"type": "string"}}},
        values={"who": "Ada"},
        output="{{ nodes.second.text }}",
    )
    assert chain["state"] == "COMPLETE", chain
    assert chain["output"] == "First: Hello, Ada."
    assert chain["layers"] == [["first"], ["second"]]
    assert chain["pct"] == 100
    assert node_of(chain, "first")["output"] == "Hello, Ada."
    assert await chains.events(chain["id"]) == [
        ("chain.created", None),
        ("chain.started", None),
        ("chain.node.started", "first"),
        ("chain.node.completed", "first"),
        ("chain.node.started", "second"),
        ("chain.node.completed", "second"),
        ("chain.completed", None),
    ]
    first, second = await chains.sessions(chain["id"])
    assert (first["chain_node"], second["chain_node"]) == ("first", "second")
    assert str(second["id"]) == node_of(chain, "second")["session_id"]


async def test_nodes_that_need_nothing_start_together_and_are_joined(chains: Chains) -> None:
    chain = await chains.create(
        {
            "left": {"prompt": script("say L")},
            "right": {"prompt": script("say R")},
            "both": {"prompt": script("say {{ nodes.left.text }}{{ nodes.right.text }}")},
        }
    )
    assert chain["layers"] == [["left", "right"], ["both"]]
    async with chains.running():
        chain = await chains.ended(chain["id"])
    assert chain["output"] == {"both": "LR"}
    assert (await chains.events(chain["id"]))[2:4] == [
        ("chain.node.started", "left"),
        ("chain.node.started", "right"),
    ]


async def test_conditions_choose_a_branch(chains: Chains) -> None:
    nodes = {
        "look": {"prompt": script("say bad")},
        "praise": {"prompt": script("say Well done"), "when": "nodes.look.text == 'good'"},
        "after_praise": {"prompt": script("say never"), "needs": ["praise"]},
        "repair": {"prompt": script("say Repaired"), "when": "{{ nodes.look.text == 'bad' }}"},
        "end": {
            "prompt": script("say {{ nodes.praise.text || nodes.repair.text }}"),
            "join": "any",
        },
    }
    chain = await chains.run(nodes, output="nodes.end.text")
    assert states(chain) == {
        "look": "COMPLETE",
        "praise": "SKIPPED",
        "repair": "COMPLETE",
        "after_praise": "SKIPPED",
        "end": "COMPLETE",
    }
    assert (chain["state"], chain["output"]) == ("COMPLETE", "Repaired")
    assert node_of(chain, "after_praise")["error"] == "It needs praise, which was skipped."


async def test_a_list_is_fanned_out_and_joined(chains: Chains) -> None:
    chain = await chains.run(
        {
            "each": {
                "prompt": script("say {{ index }}: {{ item.name }}"),
                "for_each": "inputs.people[?age > `17`]",
                "max_parallel": 2,
            },
            "all": {"prompt": script("say {{ nodes.each.output }}")},
        },
        inputs={"people": None},
        values={
            "people": [
                {"name": "Ada", "age": 36},
                {"name": "Tim", "age": 7},
                {"name": "Bob", "age": 50},
                {"name": "Eve", "age": 20},
            ]
        },
    )
    assert chain["output"] == {"all": '["0: Ada","1: Bob","2: Eve"]'}
    items = node_of(chain, "each")["items"]
    assert [(item["item"], item["state"], item["output"]) for item in items] == [
        (0, "COMPLETE", "0: Ada"),
        (1, "COMPLETE", "1: Bob"),
        (2, "COMPLETE", "2: Eve"),
    ]
    rows = await chains.sessions(chain["id"])
    assert [row["chain_node"] for row in rows] == ["each[0]", "each[1]", "each[2]", "all"]


async def test_a_failed_node_is_tried_again_and_told_why(chains: Chains) -> None:
    chain = await chains.run(
        {"flaky": {"prompt": script("fail invalid Not like this."), "retry": {"times": 2}}}
    )
    assert chain["state"] == "FAILED"
    assert node_of(chain, "flaky")["tries"] == 3
    assert chain["error"].startswith("flaky failed: ")
    rows = await chains.sessions(chain["id"])
    assert len(rows) == 3
    assert "earlier try" not in rows[0]["config"]
    assert "An earlier try at this failed:" in rows[1]["config"]
    assert "Not like this." in rows[2]["config"]


async def test_a_retry_waits_for_its_delay(chains: Chains) -> None:
    chain = await chains.create(
        {
            "flaky": {
                "prompt": script("fail invalid No."),
                "retry": {"times": 1, "delay_seconds": 300},
            }
        }
    )
    async with chains.running():
        async with asyncio.timeout(_PATIENCE):
            while (node := (await chains.read(chain["id"]))["nodes"][0])["error"] is None:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        assert (node["state"], node["tries"]) == ("PENDING", 1)
        assert len(await chains.sessions(chain["id"])) == 1
        chains.lab.clock.advance(timedelta(seconds=301))
        chain = await chains.ended(chain["id"])
    assert (chain["state"], node_of(chain, "flaky")["tries"]) == ("FAILED", 2)


async def test_a_failure_fails_the_chain_once_the_others_have_ended(chains: Chains) -> None:
    chain = await chains.run(
        {
            "bad": {"prompt": script("fail invalid Broken.")},
            "slow": {"prompt": script("wait 300", "say done")},
            "after_slow": {"prompt": script("say {{ nodes.slow.text }} too")},
            "after_bad": {"prompt": script("say never"), "needs": ["bad"]},
            "end": {"prompt": script("say never"), "needs": ["after_bad", "after_slow"]},
        }
    )
    assert chain["state"] == "FAILED"
    assert states(chain) == {
        "bad": "FAILED",
        "slow": "COMPLETE",
        "after_slow": "COMPLETE",
        "after_bad": "SKIPPED",
        "end": "SKIPPED",
    }
    assert (await chains.events(chain["id"]))[-1] == ("chain.failed", None)


async def test_a_failure_may_be_tolerated(chains: Chains) -> None:
    chain = await chains.run(
        {
            "bad": {"prompt": script("fail invalid Broken."), "on_fail": "continue"},
            "each": {
                "prompt": "{{ item }}",
                "for_each": [script("say good"), script("fail invalid Broken.")],
                "on_fail": "continue",
            },
            "end": {
                "prompt": script("say {{ nodes.bad.state }} {{ nodes.each.output }}"),
            },
        }
    )
    assert (chain["state"], chain["output"]) == ("COMPLETE", {"end": 'FAILED ["good",null]'})
    assert states(chain) == {"bad": "FAILED", "each": "FAILED", "end": "COMPLETE"}


async def test_a_gate_of_a_node(chains: Chains) -> None:
    gate = {"kind": "file", "name": "there", "path": "out.txt"}
    write = script('call write_file {"path": "out.txt", "content": "x"}', "say done")
    chain = await chains.run(
        {
            "passes": {"prompt": write, "gates": [gate]},
            "fails": {"prompt": script("say done"), "gates": [gate]},
        }
    )
    assert states(chain) == {"passes": "COMPLETE", "fails": "FAILED"}
    assert "there" in chain["error"]


async def test_a_node_begins_with_the_files_of_another(chains: Chains) -> None:
    chain = await chains.run(
        {
            "write": {
                "prompt": script('call write_file {"path": "a.txt", "content": "kept"}', "say ok")
            },
            "read": {
                "prompt": script('call read_file {"path": "a.txt"}', "result"),
                "files_from": "write",
            },
        }
    )
    assert chain["state"] == "COMPLETE", chain
    assert "kept" in chain["output"]["read"]


async def test_an_output_with_a_schema_is_a_value(chains: Chains) -> None:
    chain = await chains.run(
        {
            "list": {
                "prompt": script('say {"names": ["a", "b"]}'),
                "output_schema": {
                    "type": "object",
                    "properties": {"names": {"type": "array", "items": {"type": "string"}}},
                    "required": ["names"],
                },
            },
            "each": {"prompt": script("say <{{ item }}>"), "for_each": "nodes.list.output.names"},
        }
    )
    assert (chain["state"], chain["output"]) == ("COMPLETE", {"each": ["<a>", "<b>"]}), chain


async def test_an_expression_that_fails_at_work_fails_its_node(chains: Chains) -> None:
    chain = await chains.run(
        {
            "say": {"prompt": script("say text")},
            "sums": {"prompt": "{{ sum(nodes.say.text) }}", "on_fail": "continue"},
            "items": {"prompt": "x", "for_each": "nodes.say.text", "on_fail": "continue"},
            "many": {"prompt": "x", "for_each": "inputs.many", "on_fail": "continue"},
            "none": {"prompt": "x", "for_each": "inputs.none"},
        },
        inputs={"many": {"default": list(range(1001))}, "none": {"default": []}},
        output="nodes.none.output",
    )
    assert (chain["state"], chain["output"]) == ("COMPLETE", [])
    assert "nodes.sums.prompt" in node_of(chain, "sums")["error"]
    assert node_of(chain, "items")["error"].endswith("this is text, not a list.")
    assert "1,001 items" in node_of(chain, "many")["error"]
    assert node_of(chain, "none")["items"] == []


async def test_a_chain_is_run_later(chains: Chains) -> None:
    async with chains.running():
        chain = await chains.create({"a": {"prompt": script("say A")}}, run=False)
        assert chain["state"] == "CREATED"
        await chains.lab.post(f"/api/chains/{chain['id']}/run")
        assert (await chains.ended(chain["id"]))["output"] == {"a": "A"}
        again = await chains.lab.post(f"/api/chains/{chain['id']}/run", 409)
    assert again["code"] == "chain_busy"


async def test_cancelling_ends_the_sessions_at_once(chains: Chains) -> None:
    async with chains.running():
        chain = await chains.create(
            {
                "done": {"prompt": script("say A")},
                "slow": {"prompt": script("wait 5000", "say B"), "needs": ["done"]},
                "after": {"prompt": script("say C"), "needs": ["slow"]},
            }
        )
        async with asyncio.timeout(_PATIENCE):
            while node_of(await chains.read(chain["id"]), "slow")["session_id"] is None:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        chain = await chains.lab.post(f"/api/chains/{chain['id']}/cancel")
        assert chain["state"] == "CANCELLED"
        assert states(chain) == {"done": "COMPLETE", "slow": "CANCELLED", "after": "CANCELLED"}
        slow = (await chains.sessions(chain["id"]))[1]
        assert (slow["state"], slow["error_code"]) == ("FAILED", "cancelled")
        assert (await chains.events(chain["id"]))[-1] == ("chain.cancelled", None)
        again = await chains.lab.post(f"/api/chains/{chain['id']}/cancel", 409)
        assert again["code"] == "chain_busy"


async def test_retry_from_a_node_keeps_what_came_before(chains: Chains) -> None:
    async with chains.running():
        chain = await chains.create(
            {
                "a": {"prompt": script("say A")},
                "b": {"prompt": script("say {{ nodes.a.text }}B")},
                "c": {"prompt": script("say {{ nodes.b.text }}C")},
            }
        )
        before = await chains.ended(chain["id"])
        await chains.lab.post(f"/api/chains/{chain['id']}/retry", node="b")
        after = await chains.ended(chain["id"])
    assert after["output"] == before["output"] == {"c": "ABC"}
    ids = [{n["id"]: n["session_id"] for n in chain["nodes"]} for chain in (before, after)]
    assert ids[0]["a"] == ids[1]["a"]
    assert ids[0]["b"] != ids[1]["b"]
    assert ids[0]["c"] != ids[1]["c"]
    assert [row["chain_node"] for row in await chains.sessions(chain["id"])] == list("abcbc")


async def test_retry_runs_only_what_failed(chains: Chains) -> None:
    async with chains.running():
        chain = await chains.create(
            {
                "good": {"prompt": script("say A")},
                "each": {
                    "prompt": "{{ item }}",
                    "for_each": [script("say fine"), script("fail invalid Broken.")],
                },
                "end": {"prompt": script("say end"), "needs": ["good", "each"]},
            }
        )
        before = await chains.ended(chain["id"])
        assert states(before) == {"good": "COMPLETE", "each": "FAILED", "end": "SKIPPED"}
        await chains.lab.post(f"/api/chains/{chain['id']}/retry", node=None)
        after = await chains.ended(chain["id"])
    assert states(after) == states(before)
    rows = await chains.sessions(chain["id"])
    assert [row["chain_node"] for row in rows] == ["good", "each[0]", "each[1]", "each[1]"]
    nothing = await chains.run({"a": {"prompt": script("say A")}})
    refused = await chains.lab.post(f"/api/chains/{nothing['id']}/retry", 409, node=None)
    assert refused["detail"] == "Nothing in the chain has failed."
    refused = await chains.lab.post(f"/api/chains/{nothing['id']}/retry", 422, node="z")
    assert refused["code"] == "unknown_node"


async def test_two_tenants_do_not_see_each_other(chains: Chains) -> None:
    theirs = await chains.create({"a": {"prompt": script("say A")}}, run=False)
    other = (await chains.lab.gateway.tenant()).client
    missing = "/api/chains/00000000-0000-7000-8000-000000000000"
    for method, end in (("GET", ""), ("POST", "/run"), ("POST", "/cancel"), ("POST", "/retry")):
        body: dict[str, str] | None = {} if end == "/retry" else None
        answers = [
            await other.request(method, f"{path}{end}", json=body)
            for path in (f"/api/chains/{theirs['id']}", missing)
        ]
        assert [a.status_code for a in answers] == [404, 404]
        assert {a.json()["code"] for a in answers} == {"chain_not_found"}
    assert (await other.get("/api/chains")).json()["items"] == []


async def test_the_list_is_paged_newest_first(chains: Chains) -> None:
    made = [
        (await chains.create({"a": {"prompt": "x"}}, name=f"c{n}", run=n == 0))["name"]
        for n in range(3)
    ]
    page = (await chains.lab.client.get("/api/chains", params={"limit": 2})).json()
    assert [chain["name"] for chain in page["items"]] == [made[2], made[1]]
    rest = await chains.lab.client.get("/api/chains", params={"cursor": page["next_cursor"]})
    assert [chain["name"] for chain in rest.json()["items"]] == [made[0]]
    found = await chains.lab.client.get("/api/chains", params={"state": "RUNNING"})
    assert [chain["name"] for chain in found.json()["items"]] == [made[0]]


async def test_a_budget_of_a_node_caps_its_session(chains: Chains) -> None:
    chain = await chains.run({"a": {"prompt": script("say A"), "budget_micros": 5_000_000}})
    assert chain["state"] == "COMPLETE"
    (row,) = await chains.sessions(chain["id"])
    cap = await chains.lab.superuser.fetchval(
        "select cap_micros from budgets where subject_id = $1", row["id"]
    )
    assert cap == 5_000_000


async def test_who_did_what_is_in_the_audit_log(chains: Chains) -> None:
    chain = await chains.run({"a": {"prompt": script("say A")}})
    rows = await chains.lab.superuser.fetch(
        "select action, actor_name from audit_log where tenant_id = $1 order by at, id",
        chains.lab.person.tenant_id,
    )
    assert [row["action"] for row in rows] == [
        "chain.created",
        "session.created",
        "chain.completed",
    ]
    assert {row["actor_name"] for row in rows} == {chain["created_by"]}
