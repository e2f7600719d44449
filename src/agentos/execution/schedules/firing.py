"""Fires schedules: each moment of each becomes one run, however many workers look.

As the platform role, for all tenants at once. The run's own key says that there is one for each
moment; the schedule's row, locked, that only one worker counts on from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg

from agentos.contracts.events import RunQueued
from agentos.execution.runs import repository as runs
from agentos.execution.schedules import repository, times
from agentos.execution.schedules.service import timing_of
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.outbox import Outbox

_BATCH = 100
# Later than this a run is not just late but missed.
_LATE = timedelta(minutes=1)


async def fire_due(db: Database, outbox: Outbox, now: datetime) -> int:
    """Makes runs of what is due; returns how many schedules had something due."""
    async with db.transaction() as tx:
        rows = await repository.due(tx, now, _BATCH)
        for row in rows:
            await _fire(tx, outbox, row, now)
    return len(rows)


async def _fire(tx: Transaction, outbox: Outbox, row: asyncpg.Record, now: datetime) -> None:
    timing = timing_of(row)
    due = times.missed(timing, row["next_at"], now)
    wanted = _wanted(due, row["missed"], now)
    for moment in wanted:
        await _make(tx, outbox, row, moment, now)
    if not wanted:
        await _note_skipped(tx, row, due[-1], len(due), now)
    await repository.set_next(tx, row["tenant_id"], row["id"], times.next_moment(timing, now))


def _wanted(due: list[datetime], missed: str, now: datetime) -> list[datetime]:
    """The moments that are run: the one that is due now, and of those before it as it was chosen."""
    if missed == "all":
        return due
    newest = due[-1]
    if missed == "skip" and now - newest > _LATE:
        return []
    return [newest]


async def _make(
    tx: Transaction, outbox: Outbox, row: asyncpg.Record, moment: datetime, now: datetime
) -> None:
    run_id = uuid7()
    made = await runs.insert(
        tx,
        row["tenant_id"],
        run_id,
        schedule_id=row["id"],
        due_at=moment,
        manual=False,
        state="queued",
        prompt=row["prompt"],
        session=row["session"],
        now=now,
    )
    if made:
        event = RunQueued(run_id=run_id, schedule_id=row["id"], webhook_id=None, due_at=moment)
        await outbox.announce(tx, TenantId(row["tenant_id"]), now, event)


async def _note_skipped(
    tx: Transaction, row: asyncpg.Record, moment: datetime, count: int, now: datetime
) -> None:
    """One line in its history for all that was skipped."""
    times_word = "time" if count == 1 else "times"
    await runs.insert(
        tx,
        row["tenant_id"],
        uuid7(),
        schedule_id=row["id"],
        due_at=moment,
        manual=False,
        state="skipped",
        prompt=None,
        session=None,
        now=now,
        error=f"Nothing was running when it was due {count} {times_word}; it was skipped.",
    )
