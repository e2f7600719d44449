"""The teller: takes holds out of accounts before calls need them, and brings back what is not used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from itertools import islice
from uuid import UUID

import asyncpg

from agentos.contracts import events
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger import holds as rows
from agentos.tenancy.ledger.drawer import Drawer, Want
from agentos.tenancy.ledger.holds import LEASE, Balance, Move
from agentos.tenancy.ledger.periods import Account
from agentos.tenancy.ledger.poster import Poster
from agentos.tenancy.ledger.pots import Hold, Pot, Uncapped, Unit
from agentos.tenancy.ledger.rounds import Round

log = get_logger(__name__)

_TRY_AGAIN_SECONDS = 0.1
_TICK_SECONDS = 0.4
# What nobody used for so long goes back at the next tick: about a second in all.
_IDLE_SECONDS = 0.6
# A budget that was set, lowered or removed is respected after this at the latest.
FRESH_SECONDS = 1.0
_RENEW_SECONDS = 15.0
# Accounts used within this time have their caps looked at every tick; others are forgotten.
_ACTIVE_SECONDS = 10.0
_MOST_FAILURES = 5
_MOST_OF_A_TENANT = 200
_MOST_IN_A_ROUND = 1000

_FAILURES = (AgentOSError, asyncpg.PostgresError, OSError)


class Teller:
    """One task, so that only the poster changes this owner's holds beside it.

    It does not wait for the poster. Whether there is room is read and written under the locks of
    the accounts, which posting takes too. Both only add to or take from a hold, in its row and in
    memory, so it does not matter who comes first; and the poster deletes no row, so one that is
    missing was taken away. Only to conclude from a row how much is free, nothing may be on its
    way: that is done at the poster's desk.
    """

    def __init__(
        self,
        db: Database,
        outbox: Outbox,
        clock: Clock,
        owner: UUID,
        drawer: Drawer,
        poster: Poster,
        queue_seconds: float,
    ) -> None:
        self._db = db
        self._outbox = outbox
        self._clock = clock
        self._owner = owner
        self._drawer = drawer
        self._poster = poster
        self._queue_seconds = queue_seconds
        self._next_tick = 0.0
        self._next_renewal = 0.0
        self._failures = 0
        # Held while a transaction is open: whoever has it may cancel `run`.
        self.at_work = asyncio.Lock()

    async def run(self) -> None:
        """Serves those who wait, and those who would have to, until cancelled."""
        while True:
            await self._rest()
            try:
                async with self.at_work:
                    if self._drawer.somebody_waits or self._drawer.something_is_low:
                        await self._serve()
                    if time.monotonic() >= self._next_tick:
                        await self._tick()
                        self._next_tick = time.monotonic() + _TICK_SECONDS
            except _FAILURES as error:
                self._failed(error)
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
            else:
                self._failures = 0

    async def give_up(self) -> None:
        """Gives back everything this process holds. Nothing runs any more, and all is posted."""
        async with self._poster.desk, self._db.transaction() as tx:
            await rows.give_up(tx, self._owner)

    async def _rest(self) -> None:
        seconds = self._next_tick - time.monotonic()
        if self._drawer.somebody_waits:
            seconds = min(seconds, _TRY_AGAIN_SECONDS)
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._drawer.asked.wait()
        except TimeoutError:
            pass
        self._drawer.asked.clear()

    def _failed(self, error: BaseException) -> None:
        if not self._failures:
            log.warning("holds cannot be changed, trying again", error=repr(error))
        self._failures += 1
        # A deadlock or the like is gone the next time.
        if isinstance(error, AgentOSError) or self._failures >= _MOST_FAILURES:
            for want in list(self._drawer.wants()):
                self._drawer.refuse(want, Unavailable("The ledger is not answering right now."))

    # Serving

    async def _serve(self) -> None:
        await self._be_certain()
        if await self._read_wanted():
            self._drawer.hand_on_to_all(_MOST_OF_A_TENANT)
        # Who came meanwhile is read for first.
        wants = [want for want in self._wants() if self._drawer.group(want.spender).read]
        low = self._drawer.low_pots()
        if not wants and not low:
            return
        for want in wants:
            want.busy = True
        try:
            await self._serve_round(wants, low)
        finally:
            for want in wants:
                want.busy = False
        self._drawer.hand_on_to_all()

    def _wants(self) -> list[Want]:
        return list(islice(self._drawer.wants(_MOST_OF_A_TENANT), _MOST_IN_A_ROUND))

    async def _read_wanted(self) -> bool:
        """Finds out about the accounts whose budgets some call waits to hear of, if any."""
        now = time.monotonic()
        unread = {
            uncapped
            for want in self._wants()
            for uncapped in self._drawer.group(want.spender).uncapped
            if now >= uncapped.fresh_until
        }
        await self._read_budgets(unread)
        return bool(unread)

    async def _read_budgets(self, unread: Collection[Uncapped]) -> None:
        if not unread:
            return
        now, wall = time.monotonic(), time.time()
        capped = await rows.read_capped(self._db, sorted(each.account for each in unread))
        self._drawer.found_capped([each for each in unread if each.account in capped])
        for each in unread:
            if each.account not in capped:
                each.fresh(now, wall, FRESH_SECONDS)

    async def _serve_round(self, wants: list[Want], low: list[Pot]) -> None:
        now, wall = time.monotonic(), time.time()
        wanted = {hold for want in wants for hold in self._drawer.group(want.spender).holds}
        for hold in wanted:
            hold.used_at = now
        held = wanted.union(pot.hold for pot in low)
        current = Round(self._drawer, sorted(hold.account for hold in held), self._queue_seconds)
        try:
            async with self._db.transaction() as tx:
                unknown = [hold.account for hold in held if not hold.known]
                if unknown:
                    await rows.open_accounts(tx, unknown)
                await rows.lock_accounts(tx, current.accounts)
                balances = await rows.read_balances(tx, current.accounts, self._owner)
                self._learn(balances, now, wall)
                current.decide(balances, wants, low)
                if current.moves:
                    await rows.grow(tx, self._owner, current.moves.values())
                await self._mark_exhausted(tx, current.exhausted)
        except BaseException:
            current.undo()
            raise
        for hold in held:
            # Not before: a row that was rolled back cannot be locked, and what is not locked
            # could be given to two at once.
            hold.known = True
        for hold in current.moves:
            hold.leased(now, wall, LEASE.total_seconds())
            hold.fresh(now, wall, FRESH_SECONDS)
        current.hand_out()

    async def _mark_exhausted(self, tx: Transaction, exhausted: dict[Account, Balance]) -> None:
        now = self._clock.now()
        for account, balance in exhausted.items():
            await tx.execute(
                """update accounts set exhausted_at = $5
                   where (tenant_id, scope, subject_id, period) = ($1, $2, $3, $4)""",
                *account,
                now,
            )
            cap = balance.caps["micros"]
            assert cap is not None, "only a capped account is exhausted"
            event = events.BudgetExhausted(
                scope=account.scope,
                subject_id=account.subject_id,
                cap_micros=cap,
                spent_micros=balance.spent["micros"],
            )
            await self._outbox.announce(tx, account.tenant_id, now, event)

    # What is known of accounts

    def _learn(self, balances: dict[Account, Balance], now: float, wall: float) -> None:
        for account, balance in balances.items():
            hold = self._drawer.holds.get(account)
            if hold is None:
                continue
            if not balance.holding and not hold.empty:
                self._drawer.lose(hold)
                hold = self._drawer.hold(account)
            for pot in hold.pots:
                pot.cap = balance.caps[pot.unit]
            hold.fresh(now, wall, FRESH_SECONDS)

    async def _be_certain(self) -> None:
        """Finds out what became of holds whose last change ended without an answer."""
        doubts = {hold: hold.doubts for hold in self._drawer.holds.values() if hold.doubts}
        if doubts:
            async with self._poster.desk:
                await self._poster.post_pending()
                async with self._db.transaction() as tx:
                    await rows.lock_accounts(tx, sorted(hold.account for hold in doubts))
                    there = await rows.read_holds(tx, self._owner)
                for hold, known_doubts in doubts.items():
                    self._correct(hold, there.get(hold.account))
                    # One that arose meanwhile is not answered by this.
                    hold.doubts -= known_doubts
        if any(
            not hold.empty and time.monotonic() >= hold.leased_until
            for hold in self._drawer.holds.values()
        ):
            await self._renew()

    def _correct(self, hold: Hold, there: dict[Unit, int] | None) -> None:
        used = any(pot.taken or pot.unposted for pot in hold.pots)
        if there is None and used:
            self._drawer.lose(hold)
            return
        hold.looks += 1
        for pot in hold.pots:
            total = there[pot.unit] if there is not None else 0
            pot.free = total - pot.taken - pot.unposted

    # What happens every now and then

    async def _tick(self) -> None:
        await self._be_certain()
        if time.monotonic() >= self._next_renewal:
            await self._renew()
        await self._forget_idle()
        await self._look_for_budgets()
        active = self._active()
        if active:
            now, wall = time.monotonic(), time.time()
            async with self._db.transaction() as tx:
                balances = await rows.read_balances(tx, active, self._owner)
            self._learn(balances, now, wall)
            await self._return(self._look(balances, now))

    def _active(self) -> list[Account]:
        """The accounts to look at."""
        oldest = time.monotonic() - _ACTIVE_SECONDS
        return sorted(
            hold.account
            for hold in self._drawer.holds.values()
            if hold.used_at >= oldest or any(pot.free for pot in hold.pots)
        )

    async def _forget_idle(self) -> None:
        """Drops holds that nobody used for a while and that have nothing in them, here or there."""
        oldest = time.monotonic() - _ACTIVE_SECONDS
        idle = [
            hold
            for hold in self._drawer.holds.values()
            if hold.used_at < oldest and hold.empty and not hold.doubts
        ]
        if not idle:
            return
        there = sorted(hold.account for hold in idle if hold.leased_until)
        if there:
            async with self._db.transaction() as tx:
                await rows.lock_accounts(tx, there)
                await rows.drop_empty(tx, self._owner, there)
        self._drawer.remove(idle)

    async def _look_for_budgets(self) -> None:
        """Reads accounts without a budget again while calls use them, and forgets the others."""
        now = time.monotonic()
        used, unused = [], []
        for uncapped in self._drawer.uncapped.values():
            if uncapped.used_at >= now - _TICK_SECONDS:
                # Not those read since the last tick: most sessions need nothing more.
                if uncapped.fresh_until <= now + FRESH_SECONDS - _TICK_SECONDS:
                    used.append(uncapped)
            elif now >= uncapped.fresh_until:
                unused.append(uncapped)
        if unused:
            self._drawer.forget_uncapped(unused)
        await self._read_budgets(used)

    def _look(self, balances: dict[Account, Balance], now: float) -> dict[Hold, Move]:
        """Takes what others may have out of holds, and has those filled that get low."""
        moves: dict[Hold, Move] = {}
        for account, balance in balances.items():
            hold = self._drawer.holds.get(account)
            if hold is None:
                continue
            idle = now - hold.used_at >= _IDLE_SECONDS
            for pot in hold.pots:
                surplus = _surplus(pot, balance, idle=idle)
                if surplus > 0:
                    pot.free -= surplus
                    moves.setdefault(hold, Move(account)).add(pot.unit, surplus)
                pot.look()
                pot.set_water()
                if not idle and _is_low(pot, balance):
                    self._drawer.run_low(pot)
        return moves

    async def _return(self, moves: dict[Hold, Move]) -> None:
        if not moves:
            return
        try:
            async with self._db.transaction() as tx:
                await rows.lock_accounts(tx, sorted(move.account for move in moves.values()))
                await rows.lower(tx, self._owner, moves.values())
        except BaseException:
            for hold in moves:
                hold.doubt()
            raise

    async def _renew(self) -> None:
        self._next_renewal = time.monotonic() + _RENEW_SECONDS
        expected = [hold for hold in self._drawer.holds.values() if not hold.empty]
        if not expected:
            return
        now, wall = time.monotonic(), time.time()
        async with self._db.transaction() as tx:
            there = await rows.renew(tx, self._owner)
        for hold in expected:
            if hold.account in there:
                hold.leased(now, wall, LEASE.total_seconds())
            elif not hold.empty:
                self._drawer.lose(hold)


def _surplus(pot: Pot, balance: Balance, *, idle: bool) -> int:
    """What others may have: what nobody needed lately, and all that is over the cap."""
    free = max(pot.free, 0)
    room = balance.room(pot.unit)
    if room is None or idle:
        return free
    surplus = pot.unneeded
    # Nothing is kept for a faster pace where little is left for others.
    if room >= 2 * free:
        surplus = min(surplus, free - pot.enough)
    return min(free, max(surplus, -room, 0))


def _is_low(pot: Pot, balance: Balance) -> bool:
    """Whether there is less than is needed soon, and so much room that filling it up will last."""
    room = balance.room(pot.unit)
    return room is not None and pot.free < pot.enough // 2 and room >= 3 * pot.enough
