"""Money is escrowed: no call starts without room for its worst case in every budget it counts against."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
from prometheus_client import Counter

from agentos.kernel import metrics
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import AgentOSError, Conflict
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.drawer import Drawer, Group, Takes
from agentos.tenancy.ledger.periods import session_account
from agentos.tenancy.ledger.poster import Poster
from agentos.tenancy.ledger.posting import Entry, tokens_of
from agentos.tenancy.ledger.recovery import recover
from agentos.tenancy.ledger.settling import settle_one, settled_call
from agentos.tenancy.ledger.spool import (
    COVERS_SESSION,
    COVERS_TEAM,
    COVERS_TENANT,
    COVERS_TOKENS,
    Released,
    Reserved,
    Settled,
    Spool,
    SpoolUnwritable,
)
from agentos.tenancy.ledger.teller import FRESH_SECONDS, Teller

log = get_logger(__name__)

overruns = Counter(
    "ledger_overruns_total",
    "Model calls that cost more than was reserved for them.",
    namespace="agentos",
    registry=metrics.registry,
)

# A stopping process waits this long for Postgres; its spool can wait longer.
_LAST_TRIES, _LAST_PAUSE_SECONDS = 5, 0.3

_COVERS = {
    ("tenant", "micros"): COVERS_TENANT,
    ("team", "micros"): COVERS_TEAM,
    ("session", "micros"): COVERS_SESSION,
    ("tenant", "tokens"): COVERS_TOKENS,
}


class ReservationEnded(Conflict):
    """This call was settled or released before."""

    code = "reservation_ended"


@dataclass(slots=True)
class _Opened(Reservation):
    """A reservation and where its room came from."""

    group: Group = field(repr=False)
    takes: Takes = field(repr=False)
    # A transaction may have booked it, and nobody has heard whether it did: how often its holds
    # had been looked at when that began.
    tried_at: int | None = None

    @property
    def looks(self) -> int:
        return sum(hold.looks for hold in self.group.holds)

    @property
    def seen_amid(self) -> bool:
        """Whether what is free may have been concluded from rows that had its booking already."""
        return self.tried_at is not None and self.tried_at != self.looks


class Escrow:
    """One for each process. `platform_db` is of the platform role: one transaction serves all tenants.

    Room is taken out of accounts in blocks and handed out from memory, so that a call usually
    waits for no database; what is booked is on disk before it is told, and in Postgres soon after.
    """

    def __init__(
        self,
        platform_db: Database,
        outbox: Outbox,
        clock: Clock,
        directory: Path,
        queue_seconds: float,
    ) -> None:
        self.owner = uuid7()
        self._db = platform_db
        self._outbox = outbox
        self._clock = clock
        self._directory = directory
        self._spool = Spool(directory, self.owner)
        self._poster = Poster(platform_db, outbox, clock, self.owner, self._spool)
        self._drawer = Drawer(clock)
        self._teller = Teller(
            platform_db, outbox, clock, self.owner, self._drawer, self._poster, queue_seconds
        )
        self._open: dict[UUID, _Opened] = {}

    async def reserve(self, spender: Spender, worst: Amount) -> Reservation:
        """Room for a call, and one of the tenant's slots for concurrent calls.

        Raises BudgetExhausted, TokensExhausted, PriceUnknown, TooManyCalls.
        """
        taken = self._drawer.try_take(spender, worst)
        if taken is None:
            taken = await self._drawer.wait(spender, worst)
        return self._begin(spender, worst, *taken)

    def settle(self, reservation: Reservation, call: FinishedCall) -> None:
        """Books what a call took. Once this returns, `kill -9` cannot lose it."""
        opened = self._open.pop(reservation.call_id, None)
        if opened is None:
            raise ReservationEnded()
        at = self._clock.now()
        entry = self._settlement(opened, call)
        entry.at = at
        entry.segment = self._spool.end(Settled(opened.call_id, at, call))
        self._poster.add(entry)
        if opened.seen_amid:
            _doubt(opened)
        self._drawer.give_back(
            opened.spender.tenant_id, opened.takes, [amount for _, amount in entry.kept]
        )

    def release(self, reservation: Reservation, reason: str) -> None:
        """Gives back all of a reservation: nothing was spent. Does nothing to one that has ended."""
        opened = self._open.pop(reservation.call_id, None)
        if opened is None:
            return
        at = self._clock.now()
        self._poster.add(
            Entry(
                kind="release",
                call_id=opened.call_id,
                spender=opened.spender,
                at=at,
                accounts=opened.group.accounts,
                held_micros=-opened.micros,
                held_tokens=-opened.tokens,
                reason=reason,
                segment=self._spool.end(Released(opened.call_id, at, reason)),
            )
        )
        if opened.tried_at is not None:
            _doubt(opened)
        self._drawer.give_back(opened.spender.tenant_id, opened.takes, [0] * len(opened.takes))

    def no_budget(self, tenant_id: TenantId, session_id: UUID) -> None:
        """Takes the caller's word that a session has no budget: the database said so just now.

        Then its first call need not wait to hear it. As with all that is read about budgets it is
        believed for a second.
        """
        account = session_account(tenant_id, session_id)
        if account not in self._drawer.holds:
            self._drawer.no_budget(account).fresh(time.monotonic(), time.time(), FRESH_SECONDS)

    async def settle_in(
        self, tx: Transaction, reservation: Reservation, call: FinishedCall
    ) -> None:
        """Books a call in the caller's own transaction, with what it led to.

        Let it be the last thing in the transaction: others wait for the tenant's accounts from
        here to its end. If it rolls back the reservation is still open, to be settled or released.
        """
        entry, settled = self._settling(reservation, call)
        await settle_one(tx, self.owner, entry, self._outbox)
        tx.after_commit(settled)

    def settling(
        self, reservation: Reservation, call: FinishedCall
    ) -> tuple[tuple[Any, ...], Callable[[], None]]:
        """For callers whose statement books a call: what to give to settle_call of the schema.

        And what to do once that is committed. As with `settle_in`, until then it is still open.
        """
        entry, settled = self._settling(reservation, call)
        return settled_call(self.owner, entry), settled

    def _settling(
        self, reservation: Reservation, call: FinishedCall
    ) -> tuple[Entry, Callable[[], None]]:
        opened = self._open.get(reservation.call_id)
        if opened is None:
            raise ReservationEnded()
        if opened.tried_at is None:
            opened.tried_at = opened.looks
        entry = self._settlement(opened, call)
        entry.at = self._clock.now()
        return entry, lambda: self._settled_elsewhere(opened, entry)

    async def flush(self) -> None:
        """Posts all that is pending now."""
        await self._poster.flush()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Opens the escrow, first recovering what dead processes on this machine left behind."""
        self._spool.open()
        await self._recover()
        caller = asyncio.current_task()
        assert caller is not None, "runs in a task"
        loops = [asyncio.create_task(self._poster.run()), asyncio.create_task(self._teller.run())]

        def stop_caller(loop: asyncio.Task[None]) -> None:
            # Without it nothing would be posted or granted any more.
            if not loop.cancelled() and loop.exception() is not None:
                caller.cancel()

        for loop in loops:
            loop.add_done_callback(stop_caller)
        try:
            yield
        finally:
            # Between two transactions, not in the middle of one.
            async with self._teller.at_work, self._poster.desk:
                for loop in loops:
                    loop.cancel()
            ends = await asyncio.gather(*loops, return_exceptions=True)
            await self._close()
            for end in ends:
                if isinstance(end, Exception):
                    raise end

    def _begin(self, spender: Spender, worst: Amount, group: Group, takes: Takes) -> Reservation:
        opened = _Opened(
            call_id=uuid7(),
            spender=spender,
            at=self._clock.now(),
            micros=worst.micros or 0,
            tokens=worst.tokens,
            group=group,
            takes=takes,
        )
        record = Reserved(
            opened.call_id,
            spender,
            opened.at,
            group.accounts[0].period,
            opened.micros,
            opened.tokens,
            _covers(takes),
        )
        try:
            segment = self._spool.begin(record)
        except SpoolUnwritable:
            self._drawer.give_back(spender.tenant_id, takes, [0] * len(takes))
            raise
        self._open[opened.call_id] = opened
        self._poster.add(
            Entry(
                kind="reserve",
                call_id=opened.call_id,
                spender=spender,
                at=opened.at,
                accounts=group.accounts,
                held_micros=opened.micros,
                held_tokens=opened.tokens,
                segment=segment,
            )
        )
        return opened

    def _settlement(self, opened: _Opened, call: FinishedCall) -> Entry:
        cost = call.cost_micros or 0
        if cost > opened.micros:
            self._overrun(opened, call, cost)
        spent = {"micros": cost, "tokens": tokens_of(call), "calls": 0}
        return Entry(
            kind="settle",
            call_id=opened.call_id,
            spender=opened.spender,
            at=opened.at,
            accounts=opened.group.accounts,
            held_micros=-opened.micros,
            held_tokens=-opened.tokens,
            call=call,
            kept=[(pot, min(amount, spent[pot.unit])) for pot, amount in opened.takes],
        )

    def _overrun(self, opened: _Opened, call: FinishedCall, cost: int) -> None:
        """Covers as much as possible of a cost that was not foreseen, and says so."""
        overruns.inc()
        log.warning(
            "a model call cost more than was reserved for it",
            call_id=str(opened.call_id),
            provider=call.provider,
            model=call.model,
            reserved_micros=opened.micros,
            cost_micros=cost,
        )
        for number, (pot, amount) in enumerate(opened.takes):
            if pot.unit == "micros":
                more = min(cost - amount, max(pot.free, 0))
                pot.take(more)
                opened.takes[number] = (pot, amount + more)
        # The rest is covered by nothing: no more is handed out before it is posted.
        _doubt(opened)

    def _settled_elsewhere(self, opened: _Opened, entry: Entry) -> None:
        if self._open.pop(opened.call_id, None) is None:
            return
        self._spool.ended_elsewhere(opened.call_id)
        for pot, amount in entry.kept:
            # What give_back is about to count as unposted is posted already.
            pot.unposted -= amount
        if opened.seen_amid:
            _doubt(opened)
        self._drawer.give_back(
            opened.spender.tenant_id, opened.takes, [amount for _, amount in entry.kept]
        )

    async def _recover(self) -> None:
        try:
            await recover(self._directory, self._db, self._outbox, self._clock)
        except (AgentOSError, asyncpg.PostgresError, OSError) as error:
            # The sweeper tries again.
            log.warning("ledger spools could not be recovered yet", error=repr(error))

    async def _close(self) -> None:
        for opened in list(self._open.values()):
            self.release(opened, "the process stopped")
        posted = False
        for _ in range(_LAST_TRIES):
            try:
                await self._poster.flush()
                await self._teller.give_up()
            except (AgentOSError, asyncpg.PostgresError, OSError) as error:
                log.warning("the ledger cannot be posted at the end", error=repr(error))
                await asyncio.sleep(_LAST_PAUSE_SECONDS)
            else:
                posted = True
                break
        # What is not posted stays, for whoever recovers it.
        self._spool.close(remove=posted)


def _doubt(opened: _Opened) -> None:
    for hold in opened.group.holds:
        hold.doubt()


def _covers(takes: Takes) -> int:
    covers = 0
    for pot, _ in takes:
        covers |= _COVERS.get((pot.hold.account.scope, pot.unit), 0)
    return covers
