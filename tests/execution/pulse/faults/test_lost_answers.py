"""A database that commits, and is gone before it can say so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal

from agentos.execution.pulse import journal
from agentos.kernel.database import Database, DatabaseUnavailable, Transaction


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The answer to every commit of a run is lost; what committed them."""
    commit, committed, fetch = journal.commit, Transaction._committed, Database.fetch
    runs: list[Transaction] = []
    lost: list[object] = []

    async def noted(tx: Transaction, *args: Any) -> Any:
        done = await commit(tx, *args)
        runs.append(tx)
        return done

    async def unheard(self: Transaction) -> None:
        if self in runs:
            lost.append(self)
            raise DatabaseUnavailable()
        await committed(self)

    async def unheard_statement(self: Database, query: str, *args: Any) -> Any:
        rows = await fetch(self, query, *args)
        if query == journal.COMMIT and rows:
            lost.append(rows)
            raise DatabaseUnavailable()
        return rows

    monkeypatch.setattr(journal, "commit", noted)
    monkeypatch.setattr(Transaction, "_committed", unheard)
    monkeypatch.setattr(Database, "fetch", unheard_statement)
    return lost


async def test_a_commit_whose_answer_was_lost_is_found_and_not_made_again(
    lab: Lab, lost_answers: list[object]
) -> None:
    prices = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
    await lab.client.put("/api/models/prices", json=prices)
    prompt = script(
        'call shell {"command": "echo one >> notes"}',
        'call write_file {"path": "a", "content": "A"}',
        "say Done.",
    )
    async with lab.engine():
        session_id = await lab.create(prompt, gates=[{"kind": "file", "name": "a", "path": "a"}])
        ended = await lab.ended(session_id)
    assert ended["state"] == "COMPLETE", ended["error"]
    # Answer, two tools, answer, checkpoint, gates entered, gate, end.
    assert len(lost_answers) == 8
    kinds = await lab.kinds(session_id)
    assert [kinds.count(kind) for kind in ("model", "tool", "checkpoint", "gate")] == [2, 2, 1, 1]
    await check_journal(lab.superuser, session_id)
    # The slots and the room of the calls are free again, not only when the process ends.
    escrow = lab.parts.router.escrow
    assert escrow._open == {}
    await escrow.flush()
    await escrow._teller.give_up()
    await check_books(lab.superuser)
