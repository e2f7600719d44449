"""What advances chains, without an engine: sessions end as the tests say, workers die as they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.execution.pulse.conftest import Lab

from agentos.execution.pulse.aftermath import session_ended
from agentos.execution.pulse.chains.advance import BATCH, advance, advance_due, keep_advancing
from agentos.execution.pulse.parts import PulseParts
from agentos.kernel.database import Transaction
from agentos.kernel.outbox import Announced, Outbox


class Crash(Exception):
    """The worker dies here."""


class CrashingOutbox(Outbox):
    """Lets its worker die in the middle of a transaction, at its n-th event."""

    def __init__(self, survives: int):
        super().__init__(lambda: None)
        self.left = survives

    async def announce(
        self, tx: Transaction, tenant_id: UUID, at: datetime, *events: Announced
    ) -> list[UUID]:
        self.left -= 1 + len(events)
        if self.left < 0:
            raise Crash
        return await super().announce(tx, tenant_id, at, *events)


@dataclass
class Bench:
    lab: Lab

    @property
    def parts(self) -> PulseParts:
        return self.lab.parts

    async def create(self, nodes: dict[str, Any], **chain: Any) -> UUID:
        body = {"name": "test", "nodes": nodes, **chain}
        return UUID((await self.lab.post("/api/chains", 201, **body))["id"])

    async def advance(self, chain_id: UUID) -> bool:
        return await advance(self.parts, self.lab.person.tenant_id, chain_id)

    async def read(self, chain_id: UUID) -> dict[str, Any]:
        answer = await self.lab.client.get(f"/api/chains/{chain_id}")
        read: dict[str, Any] = answer.json()
        return read

    async def sessions(self, chain_id: UUID, *, only_open: bool = False) -> list[asyncpg.Record]:
        return await self.lab.superuser.fetch(
            """select id, state, chain_node from sessions
               where chain_id = $1 and (not $2 or finished_at is null) order by id""",
            chain_id,
            only_open,
        )

    async def is_due(self, chain_id: UUID) -> bool:
        due: bool = await self.lab.superuser.fetchval(
            "select due_at is not null from chains where id = $1", chain_id
        )
        return due

    async def end(
        self, chain_id: UUID, session_id: UUID, *, fails: bool = False, text: str = "done"
    ) -> None:
        """Ends a session as its worker would: with its chain, in one transaction."""
        parts, tenant_id = self.parts, self.lab.person.tenant_id
        now = parts.clock.now()
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            await tx.execute(
                """update sessions set state = $3, queued_at = null, finished_at = $4, error = $5,
                       result = $6 where tenant_id = $1 and id = $2""",
                tenant_id,
                session_id,
                "FAILED" if fails else "COMPLETE",
                now,
                "broken" if fails else None,
                None if fails else {"text": text, "output": None},
            )
            await session_ended(tx, tenant_id, session_id, now, parent_id=None, chain_id=chain_id)


@pytest.fixture
def bench(lab: Lab) -> Bench:
    return Bench(lab)


def states(chain: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["state"] for node in chain["nodes"]}


async def test_a_wide_fan_out_starts_in_batches_and_in_order(bench: Bench) -> None:
    count = 2 * BATCH + 3
    chain_id = await bench.create(
        {"each": {"prompt": "{{ item }}", "for_each": list(range(count)), "max_parallel": 1000}}
    )
    seen = []
    while await bench.is_due(chain_id):
        assert await bench.advance(chain_id)
        seen.append(len(await bench.sessions(chain_id)))
    assert seen == [BATCH, 2 * BATCH, count]
    rows = await bench.lab.superuser.fetch(
        "select chain_node from sessions where chain_id = $1 order by queued_at, id", chain_id
    )
    assert [row["chain_node"] for row in rows] == [f"each[{n}]" for n in range(count)]


async def test_no_more_items_run_at_once_than_allowed(bench: Bench) -> None:
    chain_id = await bench.create(
        {"each": {"prompt": "{{ item }}", "for_each": [1, 2, 3, 4, 5], "max_parallel": 2}}
    )
    most = 0
    while await bench.advance(chain_id):
        running = await bench.sessions(chain_id, only_open=True)
        most = max(most, len(running))
        if running:
            await bench.end(chain_id, running[0]["id"])
    assert most == 2
    assert (await bench.read(chain_id))["state"] == "COMPLETE"


async def test_two_at_once_start_nothing_twice(bench: Bench) -> None:
    chain_id = await bench.create(
        {"each": {"prompt": "{{ item }}", "for_each": list(range(10))}, "one": {"prompt": "x"}}
    )
    done = await asyncio.gather(*(bench.advance(chain_id) for _ in range(6)))
    assert done.count(True) == 1
    labels = Counter(row["chain_node"] for row in await bench.sessions(chain_id))
    assert set(labels.values()) == {1}
    assert len(labels) == 11


async def test_a_crash_inside_leaves_the_chain_as_it_was(bench: Bench) -> None:
    chain_id = await bench.create({"a": {"prompt": "x"}, "b": {"prompt": "y"}})
    for survives in range(3):
        dying = replace(bench.parts, outbox=CrashingOutbox(survives))
        with pytest.raises(Crash):
            await advance(dying, bench.lab.person.tenant_id, chain_id)
        assert await bench.is_due(chain_id)
        assert await bench.sessions(chain_id) == []
    assert await bench.advance(chain_id)
    assert len(await bench.sessions(chain_id)) == 2


async def test_a_crash_between_commit_and_wake_loses_nothing(bench: Bench) -> None:
    async def dies() -> None:
        raise Crash

    chain_id = await bench.create({"a": {"prompt": "2 + 2", "model": "demo"}})
    dying = replace(bench.parts, wake=dies)
    with pytest.raises(Crash):
        await advance(dying, bench.lab.person.tenant_id, chain_id)
    (session,) = await bench.sessions(chain_id)
    assert session["state"] == "QUEUED"
    assert not await bench.is_due(chain_id)
    async with bench.lab.engine():
        await bench.lab.ended(session["id"])
    assert await bench.is_due(chain_id)
    assert await bench.advance(chain_id)
    assert (await bench.read(chain_id))["state"] == "COMPLETE"


async def test_one_chain_that_breaks_does_not_hold_up_the_others(bench: Bench) -> None:
    broken = await bench.create({"a": {"prompt": "x"}})
    good = await bench.create({"a": {"prompt": "x"}})
    # As no update of AgentOS should leave it.
    await bench.lab.superuser.execute(
        "update chains set definition = definition - 'order' where id = $1", broken
    )
    assert await advance_due(bench.parts) == 1
    assert len(await bench.sessions(good)) == 1
    assert await bench.sessions(broken) == []
    assert await bench.is_due(broken)
    assert await advance_due(bench.parts) == 0, "it is put off"


async def test_a_chain_that_cannot_be_read_any_more_fails(bench: Bench) -> None:
    chain_id = await bench.create({"a": {"prompt": "x"}}, output="nodes.a.text")
    await bench.lab.superuser.execute(
        """update chains set definition = jsonb_set(definition, '{output}', '"nodes.gone.text"')
           where id = $1""",
        chain_id,
    )
    assert await bench.advance(chain_id)
    error = await bench.lab.superuser.fetchval(
        "select error from chains where id = $1 and state = 'FAILED'", chain_id
    )
    assert "cannot read the chain any more" in error


async def test_a_failed_session_that_somebody_went_on_with_counts_again(bench: Bench) -> None:
    chain_id = await bench.create(
        {
            "bad": {"prompt": "x"},
            "after": {"prompt": "{{ nodes.bad.text }}"},
            "slow": {"prompt": "y"},
        }
    )
    await bench.advance(chain_id)
    bad = (await bench.sessions(chain_id))[0]
    await bench.end(chain_id, bad["id"], fails=True)
    await bench.advance(chain_id)
    assert states(await bench.read(chain_id)) == {
        "bad": "FAILED",
        "slow": "RUNNING",
        "after": "SKIPPED",
    }
    await bench.end(chain_id, bad["id"])
    await bench.advance(chain_id)
    assert states(await bench.read(chain_id)) == {
        "bad": "COMPLETE",
        "slow": "RUNNING",
        "after": "RUNNING",
    }
    for session in await bench.sessions(chain_id, only_open=True):
        await bench.end(chain_id, session["id"])
    await bench.advance(chain_id)
    assert (await bench.read(chain_id))["state"] == "COMPLETE"


async def test_what_a_person_cancelled_is_not_tried_again(bench: Bench) -> None:
    chain_id = await bench.create({"a": {"prompt": "x", "retry": {"times": 5}}})
    await bench.advance(chain_id)
    (session,) = await bench.sessions(chain_id)
    await bench.lab.post(f"/api/sessions/{session['id']}/cancel")
    await bench.advance(chain_id)
    assert (await bench.read(chain_id))["state"] == "FAILED"
    assert len(await bench.sessions(chain_id)) == 1


async def test_a_failed_node_is_retried_while_others_run(bench: Bench) -> None:
    chain_id = await bench.create(
        {
            "bad": {"prompt": "x"},
            "after": {"prompt": "y", "needs": ["bad"]},
            "slow": {"prompt": "z"},
        }
    )
    await bench.advance(chain_id)
    bad = (await bench.sessions(chain_id))[0]
    await bench.end(chain_id, bad["id"], fails=True)
    await bench.advance(chain_id)
    refused = await bench.lab.post(f"/api/chains/{chain_id}/retry", 409, node="slow")
    assert (refused["code"], refused["detail"]) == ("chain_busy", "slow is running.")
    await bench.lab.post(f"/api/chains/{chain_id}/retry", node=None)
    await bench.advance(chain_id)
    assert states(await bench.read(chain_id)) == {
        "bad": "RUNNING",
        "slow": "RUNNING",
        "after": "PENDING",
    }


async def test_a_cancelled_chain_goes_on_when_it_is_retried(bench: Bench) -> None:
    chain_id = await bench.create(
        {
            "each": {"prompt": "{{ item }}", "for_each": [1, 2, 3]},
            "end": {"prompt": "y", "needs": ["each"]},
        }
    )
    await bench.advance(chain_id)
    await bench.end(chain_id, (await bench.sessions(chain_id))[0]["id"])
    await bench.advance(chain_id)
    await bench.lab.post(f"/api/chains/{chain_id}/cancel")
    await bench.lab.post(f"/api/chains/{chain_id}/retry", node=None)
    while await bench.advance(chain_id):
        for session in await bench.sessions(chain_id, only_open=True):
            await bench.end(chain_id, session["id"])
    chain = await bench.read(chain_id)
    assert (chain["state"], states(chain)) == ("COMPLETE", {"each": "COMPLETE", "end": "COMPLETE"})
    labels = Counter(row["chain_node"] for row in await bench.sessions(chain_id))
    assert labels == {"each[0]": 1, "each[1]": 2, "each[2]": 2, "end": 1}, "what was done stays"


async def test_cancelling_while_others_advance_and_sessions_end(bench: Bench) -> None:
    """Whoever is first, nobody waits for ever, and nothing goes on afterwards."""
    chain_id = await bench.create(
        {
            "each": {"prompt": "{{ item }}", "for_each": list(range(20))},
            "after": {"prompt": "{{ nodes.each.text }}"},
        }
    )
    await bench.advance(chain_id)
    running = await bench.sessions(chain_id, only_open=True)

    async def end_and_advance(session_id: UUID) -> None:
        try:
            await bench.end(chain_id, session_id)
        except asyncpg.DeadlockDetectedError:
            pytest.fail("a session's end and a cancel wait for each other")
        await bench.advance(chain_id)

    async def cancel() -> None:
        await bench.lab.post(f"/api/chains/{chain_id}/cancel")

    await asyncio.gather(
        *(end_and_advance(session["id"]) for session in running[:5]),
        cancel(),
        *(end_and_advance(session["id"]) for session in running[5:]),
    )
    assert not await bench.advance(chain_id)
    chain = await bench.read(chain_id)
    assert chain["state"] == "CANCELLED"
    assert states(chain) == {"each": "CANCELLED", "after": "CANCELLED"}
    assert await bench.sessions(chain_id, only_open=True) == []


async def test_two_workers_take_many_chains_to_their_ends(bench: Bench) -> None:
    nodes = {
        "each": {"prompt": "{{ item }} + 1", "for_each": [1, 2, 3], "model": "demo"},
        "end": {"prompt": "{{ length(nodes.each.output) }} + 0", "model": "demo"},
    }
    chains = [await bench.create(nodes) for _ in range(4)]
    advancers = [asyncio.create_task(keep_advancing(bench.parts)) for _ in range(2)]
    try:
        async with bench.lab.engine(), asyncio.timeout(60):
            for chain_id in chains:
                while (await bench.read(chain_id))["state"] == "RUNNING":  # noqa: ASYNC110 - the API is asked
                    await asyncio.sleep(0.05)
    finally:
        for task in advancers:
            task.cancel()
        await asyncio.gather(*advancers, return_exceptions=True)
    for chain_id in chains:
        chain = await bench.read(chain_id)
        assert chain["state"] == "COMPLETE", chain
        labels = sorted(row["chain_node"] for row in await bench.sessions(chain_id))
        assert labels == ["each[0]", "each[1]", "each[2]", "end"]


# Any chain, any order, any failure --------------------------------------------------------------


@st.composite
def dags(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    names = [f"n{number}" for number in range(draw(st.integers(1, 6)))]
    nodes: dict[str, dict[str, Any]] = {}
    for position, name in enumerate(names):
        before = names[:position]
        node: dict[str, Any] = {
            "prompt": name,
            "needs": draw(st.lists(st.sampled_from(before), unique=True)) if before else [],
            "join": draw(st.sampled_from(["all", "any"])),
            "on_fail": draw(st.sampled_from(["fail", "continue"])),
            "retry": {"times": draw(st.integers(0, 1))},
            "max_parallel": draw(st.integers(1, 2)),
        }
        if draw(st.booleans()):
            node["for_each"] = list(range(draw(st.integers(0, 3))))
        if (when := draw(st.sampled_from([None, None, "`true`", "`false`"]))) is not None:
            node["when"] = when
        nodes[name] = node
    # In another order than that of their needs.
    return {name: nodes[name] for name in draw(st.permutations(names))}


@given(nodes=dags(), data=st.data())
@settings(
    max_examples=50,
    deadline=None,
    # Shrinking a failure would take longer than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    # One database for all examples: each has a chain of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_every_node_ends_as_its_needs_say(
    bench: Bench, nodes: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    chain_id = await bench.create(nodes)
    outcomes: dict[str, list[bool]] = {}
    while True:
        how = data.draw(st.sampled_from(["one", "two", "crash"]))
        if how == "crash":
            dying = replace(bench.parts, outbox=CrashingOutbox(data.draw(st.integers(0, 4))))
            try:
                await advance(dying, bench.lab.person.tenant_id, chain_id)
            except Crash:
                assert await bench.is_due(chain_id)
        await asyncio.gather(*(bench.advance(chain_id) for _ in range(1 + (how == "two"))))
        running = await bench.sessions(chain_id, only_open=True)
        if not running:
            break
        session = running[data.draw(st.integers(0, len(running) - 1))]
        fails = data.draw(st.booleans())
        outcomes.setdefault(session["chain_node"], []).append(not fails)
        await bench.end(chain_id, session["id"], fails=fails)
    while await bench.advance(chain_id):
        pass
    chain = await bench.read(chain_id)
    expected = expected_states(nodes, outcomes)
    assert states(chain) == expected
    fatal = [n for n, s in expected.items() if s == "FAILED" and nodes[n]["on_fail"] == "fail"]
    assert chain["state"] == ("FAILED" if fatal else "COMPLETE")
    # Every session was started once for each try, and no try was one too many.
    for label, tries in outcomes.items():
        most = 1 + nodes[label.partition("[")[0]]["retry"]["times"]
        assert len(tries) <= most
        assert all(not passed for passed in tries[:-1])
    started = Counter(row["chain_node"] for row in await bench.sessions(chain_id))
    assert started == {label: len(tries) for label, tries in outcomes.items()}


def expected_states(
    nodes: dict[str, dict[str, Any]], outcomes: dict[str, list[bool]]
) -> dict[str, str]:
    """What the documents say of each node, given how each try at its sessions ended."""
    found: dict[str, str] = {}
    for name in sorted(nodes):  # every node comes after what it needs
        node = nodes[name]
        fine = [
            found[need] == "COMPLETE"
            or (found[need] == "FAILED" and nodes[need]["on_fail"] == "continue")
            for need in node["needs"]
        ]
        reached = any(fine) if node["join"] == "any" and fine else all(fine)
        labels = [f"{name}[{item}]" for item in node["for_each"]] if "for_each" in node else [name]
        if not reached or node.get("when") == "`false`":
            found[name] = "SKIPPED"
            assert not any(label in outcomes for label in labels)
        else:
            passed = all(outcomes[label][-1] for label in labels)
            found[name] = "COMPLETE" if passed else "FAILED"
    return found
