"""The writer: the commits of all runs of a process, those that come together in one transaction.

It never waits for more to come. What is asked for while a transaction is on its way goes with the
next one; so a lone session is not slowed down, and a hundred of them share round trips and syncs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse import journal
from agentos.execution.pulse.journal import Change, Committed, Session
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.tenancy.ledger.calls import FinishedCall, Reservation
from agentos.tenancy.ledger.escrow import Escrow

# More would make the first of them wait for the last, and others for the accounts of its tenants.
MOST_TOGETHER = 16
# One transaction is on its way while another is at work.
_LANES = 2
_BUDGET_IN_QUESTION = "AO001"


Wake = Callable[[bool], Awaitable[None]]


class NeedsTransaction(AgentOSError):
    """More belongs to this commit than one statement can do."""

    code = "needs_transaction"


@dataclass(slots=True, eq=False)
class _Commit:
    session: Session
    row: tuple[Any, ...]
    settled: list[Callable[[], None]]
    releases: bool
    outcome: asyncio.Future[Committed | None]

    @property
    def place(self) -> tuple[UUID, UUID]:
        return self.session.tenant_id, self.session.id


class Writer:
    """One for each process. `db` is of the runtime role: every change is seen as its tenant's."""

    def __init__(self, db: Database, escrow: Escrow, wake: Wake):
        """`wake` is told after every commit whether a session was released with it."""
        self._db = db
        self._escrow = escrow
        self._wake = wake
        self._waiting: list[_Commit] = []
        self._lanes: set[asyncio.Task[None]] = set()

    async def commit(
        self,
        session: Session,
        change: Change,
        now: datetime,
        booked: Sequence[tuple[Reservation, FinishedCall]],
    ) -> Committed:
        """Applies a change as journal.commit does, and books calls with it; then it is committed.

        Raises NeedsTransaction if a budget has to be looked at; then nothing has happened.
        """
        settling = [self._escrow.settling(*each) for each in booked]
        row = journal.change_row(session, change, now, [call for call, _ in settling])
        outcome: asyncio.Future[Committed | None] = asyncio.get_running_loop().create_future()
        mine = _Commit(session, row, [end for _, end in settling], change.release, outcome)
        self._waiting.append(mine)
        if len(self._lanes) < _LANES:
            lane = asyncio.create_task(self._write_waiting())
            self._lanes.add(lane)
            lane.add_done_callback(self._lanes.discard)
        committed = await outcome
        if committed is None:
            async with self._db.transaction(tenant_id=session.tenant_id) as tx:
                raise await journal.why_not(tx, session)
        return committed

    async def _write_waiting(self) -> None:
        while self._waiting:
            # Who was cancelled wants nothing any more.
            some = [each for each in self._waiting[:MOST_TOGETHER] if not each.outcome.done()]
            del self._waiting[:MOST_TOGETHER]
            # Rows are locked in the same order by all.
            some.sort(key=attrgetter("place"))
            if some:
                await self._write(some)

    async def _write(self, some: Sequence[_Commit]) -> None:
        """Writes changes in one transaction, and tells those who wait what came of it."""
        try:
            rows = await self._db.fetch(journal.COMMIT, [each.row for each in some])
        except Exception as error:  # noqa: BLE001 - all kinds are for those who wait to handle
            # Somebody else's must not become theirs.
            if len(some) > 1 and not isinstance(error, Unavailable):
                await asyncio.gather(*(self._write([each]) for each in some))
            else:
                _tell(some, error)
        else:
            _tell_done(some, {row["nth"]: row for row in rows})
            await self._wake(any(each.releases for each in some))


def _tell(some: Sequence[_Commit], error: Exception) -> None:
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _BUDGET_IN_QUESTION:
        error = NeedsTransaction()
    for each in some:
        if not each.outcome.done():
            each.outcome.set_exception(error)


def _committed(row: asyncpg.Record) -> Committed:
    return Committed(row["pause_requested"], row["ran_ms"])


def _tell_done(some: Sequence[_Commit], rows: Mapping[int, asyncpg.Record]) -> None:
    for number, each in enumerate(some, 1):
        row = rows.get(number)
        if row is not None:
            # Also if nobody waits any more.
            for settled in each.settled:
                settled()
        if not each.outcome.done():
            each.outcome.set_result(None if row is None else _committed(row))
