"""The teller: takes holds out of accounts for calls that wait, and brings back what is not used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from uuid import UUID

import asyncpg

from agentos.contracts import events
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import AgentOSError, NotFound, Unavailable
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger import holds as rows
from agentos.tenancy.ledger.calls import Amount, Spender
from agentos.tenancy.ledger.errors import (
    BudgetExhausted,
    PriceUnknown,
    TokensExhausted,
    TooManyCalls,
)
from agentos.tenancy.ledger.holds import LEASE, Balance, Hold, Move, Pot
from agentos.tenancy.ledger.periods import Account, accounts_of, month_of, next_month
from agentos.tenancy.ledger.poster import Poster

log = get_logger(__name__)

_TRY_AGAIN_SECONDS = 0.1
# How long others may take to give back what they do not use.
_ROOM_SECONDS = 1.5
_TICK_SECONDS = 0.4
# A budget that was set, lowered or removed is respected after this at the latest.
_FRESH_SECONDS = 1.0
_RENEW_SECONDS = 15.0
# Accounts used within this time have their caps looked at every tick; others are forgotten.
_ACTIVE_SECONDS = 10.0
# How many calls like this one a hold is taken for, and the most when that is not enough.
_AHEAD, _MOST_AHEAD = 8, 1024
_SOON_SECONDS = 0.2
_MOST_FAILURES = 5
_MOST_OF_A_TENANT = 200
_MOST_IN_A_ROUND = 1000

Takes = list[tuple[Pot, int]]
_FAILURES = (AgentOSError, asyncpg.PostgresError, OSError)


@dataclass(slots=True, eq=False)
class Group:
    """The holds a spender's calls are handed out of, in one month."""

    holds: tuple[Hold, ...]
    until: datetime
    money: tuple[Pot, ...]
    tokens: Pot
    calls: Pot

    def needs(self, worst: Amount) -> list[tuple[Pot, int]]:
        needs = [(pot, worst.micros or 0) for pot in self.money]
        needs.append((self.tokens, worst.tokens))
        needs.append((self.calls, 1))
        return needs


@dataclass(slots=True, eq=False)
class Want:
    """A call that waits for room."""

    spender: Spender
    worst: Amount
    granted: asyncio.Future[tuple[Group, Takes]]
    # When to give up, once it is known what is missing.
    room_until: float | None = None
    turn_until: float | None = None
    # Being served by the database.
    busy: bool = False


@dataclass(slots=True)
class _Round:
    """What is decided between reading the accounts and writing the holds."""

    # Those whose balances were asked for.
    accounts: list[Account]
    balances: dict[Account, Balance] = field(default_factory=dict)
    room: dict[Pot, int] = field(default_factory=dict)
    moves: dict[Hold, Move] = field(default_factory=dict)
    ahead: dict[Pot, int] = field(default_factory=dict)
    granted: list[tuple[Want, Group, Takes]] = field(default_factory=list)
    refused: list[tuple[Want, AgentOSError]] = field(default_factory=list)
    exhausted: dict[Account, Balance] = field(default_factory=dict)

    def room_of(self, pot: Pot) -> int:
        if pot not in self.room:
            room = self.balances[pot.hold.account].room(pot.unit)
            assert room is not None, "asked of capped units alone"
            self.room[pot] = room
        return self.room[pot]

    def move(self, pot: Pot, amount: int) -> None:
        self.room[pot] -= amount
        self.moves.setdefault(pot.hold, Move(pot.hold.account)).add(pot.unit, amount)


class Teller:
    def __init__(
        self,
        db: Database,
        outbox: Outbox,
        clock: Clock,
        owner: UUID,
        poster: Poster,
        queue_seconds: float,
    ) -> None:
        self._db = db
        self._outbox = outbox
        self._clock = clock
        self._owner = owner
        self._poster = poster
        self._queue_seconds = queue_seconds
        self._holds: dict[Account, Hold] = {}
        self._groups: dict[Spender, Group] = {}
        self._waiting: dict[TenantId, dict[Want, None]] = {}
        self._asked = asyncio.Event()
        self._next_tick = 0.0
        self._next_renewal = 0.0
        self._failures = 0

    # What needs no database

    def try_take(self, spender: Spender, worst: Amount) -> tuple[Group, Takes] | None:
        """Room for a call out of what is held already, unless others of its tenant wait."""
        if spender.tenant_id in self._waiting:
            return None
        return self._take(spender, worst)

    def give_back(self, tenant_id: TenantId, takes: Takes, kept: Iterable[int]) -> None:
        """Ends a call's use of its room, and hands on what is free now."""
        for (pot, amount), spent in zip(takes, kept, strict=True):
            pot.give_back(amount, spent)
        if tenant_id in self._waiting:
            self._hand_on(tenant_id)

    async def wait(self, spender: Spender, worst: Amount) -> tuple[Group, Takes]:
        """Room for a call, as soon as there is; raises what the escrow promises."""
        want = Want(spender, worst, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(spender.tenant_id, {})[want] = None
        self._asked.set()
        try:
            return await want.granted
        except asyncio.CancelledError:
            granted = want.granted
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                takes = granted.result()[1]
                self.give_back(spender.tenant_id, takes, [0] * len(takes))
            raise
        finally:
            self._forget(want)

    def doubt(self, hold_list: Iterable[Hold]) -> None:
        """Lets nobody have of these holds until their rows have been looked at."""
        for hold in hold_list:
            hold.doubtful = True

    def _take(self, spender: Spender, worst: Amount) -> tuple[Group, Takes] | None:
        group = self._group(spender)
        now, wall = time.monotonic(), time.time()
        for hold in group.holds:
            if now >= hold.fresh_until or wall >= hold.fresh_until_wall or hold.doubtful:
                return None
            hold.used_at = now
        if worst.micros is None and any(pot.cap is not None for pot in group.money):
            raise PriceUnknown()
        takes = [need for need in group.needs(worst) if need[0].cap is not None]
        for pot, need in takes:
            if pot.free < need:
                return None
        for pot, need in takes:
            pot.take(need)
        return group, takes

    def _group(self, spender: Spender) -> Group:
        now = self._clock.now()
        group = self._groups.get(spender)
        if group is None or now >= group.until:
            month = month_of(now)
            held = tuple(self._hold(account) for account in accounts_of(spender, month))
            group = self._groups[spender] = Group(
                holds=held,
                until=next_month(month),
                money=tuple(hold.micros for hold in held),
                tokens=held[0].tokens,
                calls=held[0].calls,
            )
        return group

    def _hold(self, account: Account) -> Hold:
        hold = self._holds.get(account)
        if hold is None:
            hold = self._holds[account] = Hold(account)
        return hold

    def _forget(self, want: Want) -> None:
        tenant_id = want.spender.tenant_id
        waiting = self._waiting.get(tenant_id, {})
        if want in waiting:
            del waiting[want]
            if not waiting:
                del self._waiting[tenant_id]

    def _hand_on(self, tenant_id: TenantId) -> None:
        """Serves those who wait longest, as far as what is free here goes."""
        for want in list(islice(self._waiting.get(tenant_id, ()), 8)):
            # Whoever is being served by the database comes first.
            if want.busy:
                return
            if want.granted.done():
                continue
            try:
                taken = self._take(want.spender, want.worst)
            except PriceUnknown as error:
                self._answer(want, error)
                continue
            if taken is not None:
                self._forget(want)
                want.granted.set_result(taken)
            elif self._group(want.spender).calls.free < 1:
                return

    def _answer(self, want: Want, error: AgentOSError) -> None:
        self._forget(want)
        if not want.granted.done():
            want.granted.set_exception(error)

    # The loop

    async def run(self) -> None:
        """Serves those who wait until cancelled."""
        while True:
            await self._rest()
            try:
                async with self._poster.desk:
                    if self._waiting:
                        await self._serve()
                    if time.monotonic() >= self._next_tick:
                        await self._tick()
                        self._next_tick = time.monotonic() + _TICK_SECONDS
            except _FAILURES as error:
                self._failed(error)
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
            else:
                self._failures = 0

    async def _rest(self) -> None:
        seconds = self._next_tick - time.monotonic()
        if self._waiting:
            seconds = min(seconds, _TRY_AGAIN_SECONDS)
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._asked.wait()
        except TimeoutError:
            pass
        self._asked.clear()

    def _failed(self, error: BaseException) -> None:
        if not self._failures:
            log.warning("holds cannot be changed, trying again", error=repr(error))
        self._failures += 1
        # A deadlock or the like is gone the next time.
        if isinstance(error, AgentOSError) or self._failures >= _MOST_FAILURES:
            for want in [want for waiting in self._waiting.values() for want in waiting]:
                self._answer(want, Unavailable("The ledger is not answering right now."))

    # Serving those who wait

    async def _serve(self) -> None:
        await self._be_certain()
        wants = list(islice(self._first_of_each(), _MOST_IN_A_ROUND))
        for want in wants:
            want.busy = True
        try:
            await self._serve_round(wants)
        finally:
            for want in wants:
                want.busy = False
        for tenant_id in list(self._waiting):
            self._hand_on(tenant_id)

    def _first_of_each(self) -> Iterator[Want]:
        for waiting in list(self._waiting.values()):
            yield from islice(waiting, _MOST_OF_A_TENANT)

    async def _serve_round(self, wants: list[Want]) -> None:
        held = {hold for want in wants for hold in self._group(want.spender).holds}
        accounts = sorted(hold.account for hold in held)
        now, wall = time.monotonic(), time.time()
        current = _Round(accounts)
        for hold in held:
            hold.used_at = now
        try:
            async with self._db.transaction() as tx:
                unknown = [hold.account for hold in held if not hold.known]
                if unknown:
                    await rows.open_accounts(tx, unknown)
                await rows.lock_accounts(tx, accounts)
                current.balances = await rows.read_balances(tx, accounts, self._owner)
                self._learn(current.balances, now, wall)
                self._decide(current, wants)
                if current.moves:
                    await rows.grow(tx, self._owner, current.moves.values())
                await self._mark_exhausted(tx, current.exhausted)
        except BaseException:
            self.doubt(current.moves)
            for _, _, takes in current.granted:
                for pot, amount in takes:
                    pot.give_back(amount)
            raise
        self._hand_out(current, now, wall)

    def _decide(self, current: _Round, wants: list[Want]) -> None:
        """Decides who gets what. What this process has free already is taken here and now."""
        for want in wants:
            if not want.granted.done():
                self._decide_on(current, want)
        eagerness = {hold: self._eagerness(hold) for hold in {pot.hold for pot in current.ahead}}
        for pot, need in current.ahead.items():
            ahead = max(min(need * eagerness[pot.hold], current.room[pot] // 4), 0)
            current.move(pot, ahead)
            current.ahead[pot] = ahead

    def _decide_on(self, current: _Round, want: Want) -> None:
        group = self._group(want.spender)
        if any(hold.doubtful or hold.account not in current.accounts for hold in group.holds):
            return  # in doubt again, or a new month began: the next round will tell
        if group.holds[0].account not in current.balances:
            current.refused.append((want, NotFound("There is no such tenant.")))
            return
        takes = [need for need in group.needs(want.worst) if need[0].cap is not None]
        if want.worst.micros is None and any(pot.unit == "micros" for pot, _ in takes):
            current.refused.append((want, PriceUnknown()))
            return
        short = [
            (pot, need) for pot, need in takes if need - max(pot.free, 0) > current.room_of(pot)
        ]
        if short:
            self._decide_on_short(current, want, short)
            return
        for pot, need in takes:
            lacking = need - max(pot.free, 0)
            if lacking > 0:
                current.move(pot, lacking)
                current.ahead[pot] = max(need, current.ahead.get(pot, 0))
                # Comes with the commit; until then nothing else can be free.
                pot.free += lacking
            pot.take(need)
        current.granted.append((want, group, takes))

    def _decide_on_short(self, current: _Round, want: Want, short: Takes) -> None:
        now = time.monotonic()
        for pot, need in short:
            balance = current.balances[pot.hold.account]
            cap = balance.caps[pot.unit]
            hopeless = cap is not None and balance.spent[pot.unit] + need > cap
            if pot.unit != "calls" and hopeless:
                self._refuse(current, want, pot)
                return
        if any(pot.unit == "calls" for pot, _ in short):
            if want.turn_until is None:
                want.turn_until = now + self._queue_seconds
            if now >= want.turn_until:
                current.refused.append((want, TooManyCalls()))
            return
        if want.room_until is None:
            want.room_until = now + _ROOM_SECONDS
        if now >= want.room_until:
            self._refuse(current, want, short[0][0])

    def _refuse(self, current: _Round, want: Want, pot: Pot) -> None:
        account = pot.hold.account
        balance = current.balances[account]
        if pot.unit == "tokens":
            error: AgentOSError = TokensExhausted(
                allowed_tokens=balance.caps["tokens"], spent_tokens=balance.spent["tokens"]
            )
        else:
            error = BudgetExhausted(
                scope=account.scope,
                subject_id=account.subject_id,
                cap_micros=balance.caps["micros"],
                spent_micros=balance.spent["micros"],
            )
            if not balance.exhausted:
                current.exhausted[account] = balance
        current.refused.append((want, error))

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

    def _hand_out(self, current: _Round, now: float, wall: float) -> None:
        for hold in current.moves:
            hold.grown_at = now
            self._lease(hold, now, wall)
        for pot, ahead in current.ahead.items():
            pot.free += ahead
        for want, group, takes in current.granted:
            self._forget(want)
            if want.granted.done():
                for pot, amount in takes:
                    pot.give_back(amount)
            else:
                want.granted.set_result((group, takes))
        for want, error in current.refused:
            self._answer(want, error)

    def _eagerness(self, hold: Hold) -> int:
        """How far ahead to take: more each time that it was soon used up."""
        soon = time.monotonic() - hold.grown_at < _SOON_SECONDS
        hold.eagerness = min(hold.eagerness * 2, _MOST_AHEAD) if soon else _AHEAD
        return max(hold.eagerness, _AHEAD)

    # What is known of accounts

    def _learn(self, balances: dict[Account, Balance], now: float, wall: float) -> None:
        for account, balance in balances.items():
            hold = self._holds.get(account)
            if hold is None:
                continue
            if not balance.holding and not hold.empty:
                self._lose(hold)
                hold = self._hold(account)
            hold.known = True
            for pot in hold.pots:
                pot.cap = balance.caps[pot.unit]
            self._freshen(hold, now, wall)

    def _freshen(self, hold: Hold, now: float, wall: float) -> None:
        hold.fresh_until = now + _FRESH_SECONDS
        hold.fresh_until_wall = wall + _FRESH_SECONDS
        if not hold.empty:
            hold.fresh_until = min(hold.fresh_until, hold.leased_until)
            hold.fresh_until_wall = min(hold.fresh_until_wall, hold.leased_until_wall)

    def _lease(self, hold: Hold, now: float, wall: float) -> None:
        seconds = LEASE.total_seconds()
        hold.leased_until, hold.leased_until_wall = now + seconds, wall + seconds
        hold.fresh_until, hold.fresh_until_wall = now + _FRESH_SECONDS, wall + _FRESH_SECONDS

    def _lose(self, hold: Hold) -> None:
        """Forgets a hold that Postgres no longer has; calls that run on it are covered no more."""
        log.warning("a hold was given to others while this process stood still")
        hold.lost = True
        hold.fresh_until = 0.0
        del self._holds[hold.account]
        self._groups.clear()

    async def _be_certain(self) -> None:
        """Finds out what became of holds whose last change ended without an answer."""
        doubtful = [hold for hold in self._holds.values() if hold.doubtful]
        if doubtful:
            await self._poster.post_pending()
            async with self._db.transaction() as tx:
                await rows.lock_accounts(tx, sorted(hold.account for hold in doubtful))
                there = await rows.read_holds(tx, self._owner)
            for hold in doubtful:
                self._correct(hold, there.get(hold.account))
        if any(
            not hold.empty and time.monotonic() >= hold.leased_until
            for hold in self._holds.values()
        ):
            await self._renew()

    def _correct(self, hold: Hold, there: dict[rows.Unit, int] | None) -> None:
        used = any(pot.taken or pot.unposted for pot in hold.pots)
        if there is None and used:
            self._lose(hold)
            return
        for pot in hold.pots:
            total = there[pot.unit] if there is not None else 0
            pot.free = pot.low = total - pot.taken - pot.unposted
        hold.doubtful = False

    # What happens every now and then

    async def _tick(self) -> None:
        await self._be_certain()
        if time.monotonic() >= self._next_renewal:
            await self._renew()
        active = self._active()
        if active:
            now, wall = time.monotonic(), time.time()
            async with self._db.transaction() as tx:
                balances = await rows.read_balances(tx, active, self._owner)
            self._learn(balances, now, wall)
            await self._return_surplus(balances)

    def _active(self) -> list[Account]:
        """The accounts to look at. Those that nobody used for a while are forgotten."""
        oldest = time.monotonic() - _ACTIVE_SECONDS
        idle = [
            hold.account for hold in self._holds.values() if hold.used_at < oldest and hold.empty
        ]
        if idle:
            for account in idle:
                del self._holds[account]
            self._groups.clear()
        return sorted(
            hold.account
            for hold in self._holds.values()
            if hold.used_at >= oldest or any(pot.free for pot in hold.pots)
        )

    async def _return_surplus(self, balances: dict[Account, Balance]) -> None:
        moves: dict[Hold, Move] = {}
        for account, balance in balances.items():
            hold = self._holds.get(account)
            if hold is None:
                continue
            for pot in hold.pots:
                surplus = _surplus(pot, balance)
                if surplus > 0:
                    pot.free -= surplus
                    moves.setdefault(hold, Move(account)).add(pot.unit, surplus)
                pot.low = pot.free
        if moves:
            await self._return(moves)

    async def _return(self, moves: dict[Hold, Move]) -> None:
        accounts = sorted(move.account for move in moves.values())
        try:
            async with self._db.transaction() as tx:
                await rows.lock_accounts(tx, accounts)
                await rows.lower(tx, self._owner, moves.values())
                await rows.drop_empty(tx, self._owner, accounts)
        except BaseException:
            self.doubt(moves)
            raise

    async def _renew(self) -> None:
        self._next_renewal = time.monotonic() + _RENEW_SECONDS
        expected = [hold for hold in self._holds.values() if not hold.empty]
        if not expected:
            return
        now, wall = time.monotonic(), time.time()
        async with self._db.transaction() as tx:
            there = await rows.renew(tx, self._owner)
        for hold in expected:
            if hold.account in there:
                hold.leased_until = now + LEASE.total_seconds()
                hold.leased_until_wall = wall + LEASE.total_seconds()
            elif not hold.empty:
                self._lose(hold)

    async def give_up(self) -> None:
        """Gives back everything this process holds. Nothing runs any more, and all is posted."""
        async with self._poster.desk, self._db.transaction() as tx:
            await rows.give_up(tx, self._owner)


def _surplus(pot: Pot, balance: Balance) -> int:
    """What others may have: what nobody needed lately, and all that is over the cap."""
    free = max(pot.free, 0)
    room = balance.room(pot.unit)
    if room is None:
        return free
    return min(free, max(pot.low, -room, 0))
