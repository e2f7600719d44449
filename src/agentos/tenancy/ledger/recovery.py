"""Recovery: what a process that died had booked is posted, and what it held goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from uuid import UUID

import asyncpg

from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.calls import FinishedCall
from agentos.tenancy.ledger.holds import give_up
from agentos.tenancy.ledger.periods import Account, accounts_of
from agentos.tenancy.ledger.posting import Entry, post_each, tokens_of
from agentos.tenancy.ledger.pots import Hold, Pot
from agentos.tenancy.ledger.spool import (
    COVERS_SESSION,
    COVERS_TEAM,
    COVERS_TENANT,
    COVERS_TOKENS,
    DeadSpool,
    EndedElsewhere,
    Released,
    Reserved,
    Settled,
    append_rejected,
    lock_files,
)

log = get_logger(__name__)

BATCH = 1000
_EVERY_SECONDS = 5.0
# After it, an owner that does not renew is taken for dead. Local recovery comes long before.
_GRACE = timedelta(seconds=60)
_COVERS = {"tenant": COVERS_TENANT, "team": COVERS_TEAM, "session": COVERS_SESSION}


async def keep_recovering(directory: Path, db: Database, outbox: Outbox, clock: Clock) -> None:
    """Recovers what dies on this machine, within seconds, until cancelled.

    While all owners live, a round tries their locks and asks no database.
    """
    failing = False
    while True:
        try:
            await recover(directory, db, outbox, clock)
        except (AgentOSError, asyncpg.PostgresError, OSError) as error:
            if not failing:
                log.warning("ledger spools could not be recovered yet", error=repr(error))
            failing = True
        else:
            failing = False
        await asyncio.sleep(_EVERY_SECONDS)


async def recover(directory: Path, db: Database, outbox: Outbox, clock: Clock) -> int:
    """Posts and removes the spools of dead owners on this machine; returns how many there were.

    `db` is of the platform role. Any number may recover at once: the lock of a spool decides.
    """
    recovered = 0
    for path in lock_files(directory):
        spool = DeadSpool.seize(path)
        if spool is None:
            continue
        try:
            await _Recovery(spool, db, outbox, clock).run()
        finally:
            spool.close()
        recovered += 1
        log.info("recovered the ledger spool of a process that died", owner=str(spool.owner))
    return recovered


async def release_expired_holds(db: Database) -> int:
    """Gives back the holds of owners that stopped renewing a while ago; returns how many.

    `db` is of the platform role. Postgres tells the time, as it does when holds are renewed.
    """
    released = 0
    async with db.transaction() as tx:
        before = await tx.value("select now() - $1::interval", _GRACE)
        rows = await tx.fetch("select distinct owner from holds where expires_at < $1", before)
    for row in rows:
        async with db.transaction() as tx:
            released += await give_up(tx, row["owner"], before)
    if released:
        log.warning("gave back holds whose owners are gone", holds=released)
    return released


class _Recovery:
    """The spool of one dead owner on its way into Postgres."""

    def __init__(self, spool: DeadSpool, db: Database, outbox: Outbox, clock: Clock):
        self._spool = spool
        self._db = db
        self._outbox = outbox
        self._clock = clock
        self._holds: dict[Account, Hold] = {}
        # Calls that have begun and not ended, as far as the spool has been read.
        self._open: dict[UUID, tuple[Reserved, Entry]] = {}

    async def run(self) -> None:
        batch: list[Entry] = []
        for entry in self._entries():
            batch.append(entry)
            if len(batch) == BATCH:
                await self._post(batch)
                batch = []
        now = self._clock.now()
        for _, reserve in self._open.values():
            batch.append(_end(reserve, kind="release", at=now, reason="owner died"))
        for start in range(0, len(batch), BATCH):
            await self._post(batch[start : start + BATCH])
        async with self._db.transaction() as tx:
            await give_up(tx, self._spool.owner)
        self._spool.remove()

    async def _post(self, batch: list[Entry]) -> None:
        await post_each(
            self._db, self._spool.owner, batch, self._outbox, self._clock.now(), self._reject
        )

    def _reject(self, entry: Entry) -> None:
        append_rejected(self._spool.directory, self._spool.owner, entry.line())

    def _entries(self) -> Iterator[Entry]:
        for record in self._spool.records():
            if isinstance(record, Reserved):
                # A new segment repeats those that are open.
                if record.call_id not in self._open:
                    reserve = self._reserve(record)
                    self._open[record.call_id] = record, reserve
                    yield reserve
                continue
            begun = self._open.pop(record.call_id, None)
            if begun is None:
                log.error("a ledger spool ends a call that did not begin", call=str(record.call_id))
                continue
            if isinstance(record, EndedElsewhere):
                continue
            if isinstance(record, Released):
                yield _end(begun[1], kind="release", at=record.at, reason=record.reason)
            else:
                yield self._settle(*begun, record)

    def _reserve(self, record: Reserved) -> Entry:
        return Entry(
            kind="reserve",
            call_id=record.call_id,
            spender=record.spender,
            at=record.at,
            accounts=accounts_of(record.spender, record.period),
            held_micros=record.micros,
            held_tokens=record.tokens,
        )

    def _settle(self, record: Reserved, reserve: Entry, settled: Settled) -> Entry:
        entry = _end(reserve, kind="settle", at=settled.at)
        holds = [self._holds.setdefault(account, Hold(account)) for account in entry.accounts]
        return replace(entry, call=settled.call, kept=list(_kept(record, holds, settled.call)))


def _end(
    reserve: Entry, *, kind: Literal["settle", "release"], at: datetime, reason: str | None = None
) -> Entry:
    return replace(
        reserve,
        kind=kind,
        at=at,
        held_micros=-reserve.held_micros,
        held_tokens=-reserve.held_tokens,
        reason=reason,
    )


def _kept(record: Reserved, holds: list[Hold], call: FinishedCall) -> Iterator[tuple[Pot, int]]:
    for hold in holds:
        if record.covers & _COVERS[hold.account.scope]:
            yield hold.micros, min(call.cost_micros or 0, record.micros)
    if record.covers & COVERS_TOKENS:
        yield holds[0].tokens, min(tokens_of(call), record.tokens)
