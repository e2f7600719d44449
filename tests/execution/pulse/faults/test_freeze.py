"""A worker that is stopped past its lease, and wakes up late."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal
from tests.execution.pulse.faults.processes import Crew, until
from tests.execution.pulse.faults.worker import REFUSED

# The lease is ten seconds; waiting for that long would prove no more.
SHORT: dict[str, Any] = {
    "dead_seconds": 1.5,
    "self_fence_seconds": 1.0,
    "beat_seconds": 0.2,
    "most_idle_seconds": 2,
}
SILENT = """select exists (select from workers
    where pid = $1 and seen_at < clock_timestamp() - $2 * interval '1 second')"""


async def registrations(lab: Lab, pid: int) -> set[Any]:
    rows = await lab.superuser.fetch("select id from workers where pid = $1", pid)
    return {row["id"] for row in rows}


async def test_a_worker_that_wakes_up_late_cannot_write_and_starts_anew(
    lab: Lab, crew: Crew
) -> None:
    session_id = await lab.create(
        script('call shell {"command": "echo one >> notes"}', "then", "say Done.")
    )
    frozen = await crew.start(moment="freeze", nth=2, **SHORT)
    await frozen.stopped()
    (before,) = await registrations(lab, frozen.pid)
    other = await crew.start(**SHORT)
    assert (await lab.ended(session_id))["state"] == "COMPLETE"
    assert not await registrations(lab, frozen.pid)
    journal = await check_journal(lab.superuser, session_id)

    frozen.send(signal.SIGCONT)

    async def is_back() -> bool:
        return REFUSED in frozen.log and bool(await registrations(lab, frozen.pid))

    await until(is_back)
    assert await registrations(lab, frozen.pid) != {before}
    assert await check_journal(lab.superuser, session_id) == journal
    assert [row["status"] for row in journal if row["kind"] == "tool"] == ["done"]

    # It works again: alone, it has to.
    other.send(signal.SIGTERM)
    assert await other.ended() == 0
    again = await lab.create(script("say Done."))
    assert (await lab.ended(again))["state"] == "COMPLETE"
    await crew.dismiss()
    await check_books(lab.superuser)


async def test_a_worker_stopped_in_a_transaction_holds_up_nothing_for_long(
    lab: Lab, crew: Crew
) -> None:
    """It has locks on its session, and perhaps on accounts, until the database ends that."""
    stuck = await lab.create(script("say Done."))
    frozen = await crew.start(moment="freeze_amid", capacity=1, **SHORT)
    await frozen.stopped()

    async def is_missed() -> bool:
        return bool(await lab.superuser.fetchval(SILENT, frozen.pid, SHORT["dead_seconds"]))

    await until(is_missed)
    lost = await lab.create(script("say Done."))
    assert (
        await crew.fork(moment="before", capacity=1, reaps=False, **SHORT).ended()
        == -signal.SIGKILL
    )
    await crew.start(**SHORT)
    assert (await lab.ended(lost))["state"] == "COMPLETE"
    assert (await lab.ended(stuck))["state"] == "COMPLETE"
    frozen.send(signal.SIGCONT)
    await crew.dismiss()
    await check_journal(lab.superuser, stuck)
    await check_books(lab.superuser)


@pytest.mark.parametrize("moment", ["freeze_claim", "freeze_reap"])
async def test_a_worker_stopped_while_it_dispatches_does_not_stop_the_others(
    lab: Lab, crew: Crew, moment: str
) -> None:
    lost = await lab.create(script("say Done."))
    assert await crew.fork(moment="before", reaps=False).ended() == -signal.SIGKILL
    frozen = crew.fork(moment=moment, **SHORT)
    await frozen.stopped()
    await crew.start(**SHORT)
    assert (await lab.ended(lost))["state"] == "COMPLETE"
    frozen.send(signal.SIGCONT)
    await crew.dismiss()
    await check_journal(lab.superuser, lost)
    await check_books(lab.superuser)
