"""Steps of many sessions in one transaction, each with its own outcome."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal

from agentos.execution.pulse import journal
from agentos.execution.pulse.journal import Change, Session
from agentos.kernel.database import Database

SESSIONS = 12
PROMPT = script('call update_plan {"plan": [{"step": "a", "status": "done"}]}', "say Done.")
# Each makes three commits: answer, tool, answer with the end.
COMMITS = 3


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many changes each statement of the writer had."""
    fetch, sizes = Database.fetch, []

    async def counted(self: Database, query: str, *args: Any) -> Any:
        if query == journal.COMMIT:
            sizes.append(len(args[0]))
        return await fetch(self, query, *args)

    monkeypatch.setattr(Database, "fetch", counted)
    return sizes


async def many(lab: Lab) -> list[UUID]:
    return [await lab.create(PROMPT) for _ in range(SESSIONS)]


async def states(lab: Lab, ids: list[UUID]) -> list[str]:
    return [(await lab.ended(session_id))["state"] for session_id in ids]


async def closed_books(lab: Lab) -> None:
    escrow = lab.parts.router.escrow
    assert escrow._open == {}
    await escrow.flush()
    await escrow._teller.give_up()
    await check_books(lab.superuser)


async def test_what_is_ready_together_is_committed_together(lab: Lab, batches: list[int]) -> None:
    ids = await many(lab)
    async with lab.engine():
        assert await states(lab, ids) == ["COMPLETE"] * SESSIONS
    assert sum(batches) == COMMITS * SESSIONS
    assert len(batches) < sum(batches)
    for session_id in ids:
        await check_journal(lab.superuser, session_id)
    await closed_books(lab)


async def test_one_that_cannot_be_written_fails_alone(
    lab: Lab, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await many(lab)
    real, bad = journal.change_row, ids[SESSIONS // 2]

    def spoiled(session: Session, change: Change, *args: Any) -> tuple[Any, ...]:
        row = real(session, change, *args)
        if session.id != bad or not any(step.kind == "tool" for step in change.steps):
            return row
        # There is no such state.
        return (*row[:5], "NOWHERE", *row[6:])

    monkeypatch.setattr(journal, "change_row", spoiled)
    async with lab.engine():
        ended = dict(zip(ids, await states(lab, ids), strict=True))
    assert ended.pop(bad) == "FAILED"
    assert set(ended.values()) == {"COMPLETE"}
    assert (await lab.read(bad))["error_code"] == "internal"
    await closed_books(lab)


async def test_one_that_is_not_ours_any_more_is_left_out(
    lab: Lab, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await many(lab)
    real, lost = journal.change_row, ids[SESSIONS // 2]

    def late(session: Session, change: Change, *args: Any) -> tuple[Any, ...]:
        row = real(session, change, *args)
        return (*row[:2], session.fence - 1, *row[3:]) if session.id == lost else row

    monkeypatch.setattr(journal, "change_row", late)
    others = [session_id for session_id in ids if session_id != lost]
    async with lab.engine():
        assert await states(lab, others) == ["COMPLETE"] * len(others)
    assert await lab.kinds(lost) == ["message", "QUEUED", "RUNNING"]


async def test_somebody_elses_lock_holds_up_one_session_only(lab: Lab, batches: list[int]) -> None:
    ids = await many(lab)
    locked = ids[0]
    queued = "select from sessions where id = $1 for update"
    claimed = "select owner is not null or finished_at is not null from sessions where id = $1"
    others = ids[1:]
    async with lab.engine(capacity=SESSIONS):
        async with lab.superuser.transaction():
            while not await lab.superuser.fetchval(claimed, locked):  # noqa: ASYNC110 - the database is asked
                await asyncio.sleep(0.001)
            await lab.superuser.execute(queued, locked)
            assert await states(lab, others) == ["COMPLETE"] * len(others)
        assert await states(lab, [locked]) == ["COMPLETE"]
    await check_journal(lab.superuser, locked)


async def test_a_budget_nearly_spent_is_still_warned_of_once(lab: Lab, batches: list[int]) -> None:
    prices = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
    await lab.client.put("/api/models/prices", json=prices)
    spent = "update accounts set spent_micros = 1000000000 where scope = 'tenant'"
    async with lab.engine():
        assert await states(lab, [await lab.create(PROMPT)]) == ["COMPLETE"]
        await lab.superuser.execute(spent)
        cap = {"scope": "tenant", "cap_micros": 1_200_000_000}
        assert (await lab.client.put("/api/budgets", json=cap)).status_code == 200
        ids = await many(lab)
        assert await states(lab, ids) == ["COMPLETE"] * SESSIONS
    warned = """select count(*) from (select type from outbox union all select type from events) e
        where type = 'budget.warned'"""
    assert await lab.superuser.fetchval(warned) == 1
    await closed_books(lab)
