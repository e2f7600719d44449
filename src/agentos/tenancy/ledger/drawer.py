"""The drawer: hands out to calls what this process holds. Nothing here waits for a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice

from agentos.kernel.clock import Clock
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.tenancy.ledger.calls import Amount, Spender
from agentos.tenancy.ledger.errors import PriceUnknown
from agentos.tenancy.ledger.periods import Account, accounts_of, month_of, next_month
from agentos.tenancy.ledger.pots import Hold, Pot, Uncapped

log = get_logger(__name__)

# No water is so low: whoever has asked for more does not ask again.
_ASKED = -1
_HANDED_ON_AT_ONCE = 8

Takes = list[tuple[Pot, int]]


@dataclass(slots=True, eq=False)
class Group:
    """The accounts a spender's calls count against in one month, and the holds they come out of."""

    # The tenant's first.
    accounts: tuple[Account, ...]
    # The tenant's first, then those of a team or session with a budget.
    holds: tuple[Hold, ...]
    uncapped: tuple[Uncapped, ...]
    until: datetime
    money: tuple[Pot, ...]
    tokens: Pot
    calls: Pot

    @property
    def read(self) -> bool:
        """Whether it is known which of its accounts have a budget, or was a moment ago."""
        return all(uncapped.fresh_until for uncapped in self.uncapped)

    def takes(self, worst: Amount) -> Takes:
        """What a call takes of the pots that have a cap; raises PriceUnknown."""
        takes: Takes = []
        for pot in self.money:
            if pot.cap is not None:
                if worst.micros is None:
                    raise PriceUnknown()
                takes.append((pot, worst.micros))
        if self.tokens.cap is not None:
            takes.append((self.tokens, worst.tokens))
        if self.calls.cap is not None:
            takes.append((self.calls, 1))
        return takes


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


class Drawer:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.holds: dict[Account, Hold] = {}
        self.uncapped: dict[Account, Uncapped] = {}
        self._groups: dict[Spender, Group] = {}
        self._waiting: dict[TenantId, dict[Want, None]] = {}
        # Pots that have become low, for the teller to fill.
        self._low: set[Pot] = set()
        # Set when there is something for the teller to do.
        self.asked = asyncio.Event()

    def try_take(self, spender: Spender, worst: Amount) -> tuple[Group, Takes] | None:
        """Room for a call out of what is held already, unless others of its tenant wait."""
        if self._waiting and spender.tenant_id in self._waiting:
            return None
        return self._take(spender, worst)

    def give_back(self, tenant_id: TenantId, takes: Takes, kept: Iterable[int]) -> None:
        """Ends a call's use of its room, and hands on what is free now."""
        for (pot, amount), spent in zip(takes, kept, strict=True):
            pot.give_back(amount, spent)
        if self._waiting and tenant_id in self._waiting:
            self.hand_on(tenant_id)

    async def wait(self, spender: Spender, worst: Amount) -> tuple[Group, Takes]:
        """Room for a call, as soon as there is; raises what the escrow promises."""
        want = Want(spender, worst, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(spender.tenant_id, {})[want] = None
        self.asked.set()
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

    def group(self, spender: Spender) -> Group:
        now = self._clock.now()
        group = self._groups.get(spender)
        if group is None or now >= group.until:
            group = self._groups[spender] = self._new_group(spender, month_of(now))
        return group

    def hold(self, account: Account) -> Hold:
        hold = self.holds.get(account)
        if hold is None:
            hold = self.holds[account] = Hold(account)
        return hold

    def no_budget(self, account: Account) -> Uncapped:
        """What is known of an account that had no budget when it was last read, if it ever was."""
        uncapped = self.uncapped.get(account)
        if uncapped is None:
            uncapped = self.uncapped[account] = Uncapped(account)
        return uncapped

    def found_capped(self, uncapped: Iterable[Uncapped]) -> None:
        """Has calls wait for holds of accounts that have a budget now."""
        for each in uncapped:
            self.uncapped.pop(each.account, None)
            self.hold(each.account)
        self._groups.clear()

    def forget_uncapped(self, uncapped: Iterable[Uncapped]) -> None:
        for each in uncapped:
            del self.uncapped[each.account]
        self._groups.clear()

    def has(self, hold: Hold) -> bool:
        return self.holds.get(hold.account) is hold

    def remove(self, holds: Iterable[Hold]) -> None:
        for hold in holds:
            del self.holds[hold.account]
        self._groups.clear()

    def lose(self, hold: Hold) -> None:
        """Forgets a hold that Postgres no longer has; calls that run on it are covered no more."""
        log.warning("a hold was given to others while this process stood still")
        hold.lost = True
        hold.fresh_until = 0.0
        self.remove([hold])

    # What the teller does for those who wait

    @property
    def somebody_waits(self) -> bool:
        return bool(self._waiting)

    def wants(self, most_of_a_tenant: int | None = None) -> Iterator[Want]:
        """Those who wait, the longest first in each tenant."""
        for waiting in list(self._waiting.values()):
            yield from islice(waiting, most_of_a_tenant)

    def grant(self, want: Want, group: Group, takes: Takes) -> None:
        """Gives what was taken for a call to it, or back if it is gone."""
        self._forget(want)
        if want.granted.done():
            for pot, amount in takes:
                pot.give_back(amount)
        else:
            want.granted.set_result((group, takes))

    def refuse(self, want: Want, error: AgentOSError) -> None:
        self._forget(want)
        if not want.granted.done():
            want.granted.set_exception(error)

    def hand_on_to_all(self, most_of_a_tenant: int | None = _HANDED_ON_AT_ONCE) -> None:
        for tenant_id in list(self._waiting):
            self.hand_on(tenant_id, most_of_a_tenant)

    def hand_on(self, tenant_id: TenantId, most: int | None = _HANDED_ON_AT_ONCE) -> None:
        """Serves those who wait longest, as far as what is free here goes."""
        for want in list(islice(self._waiting.get(tenant_id, ()), most)):
            # Whoever is being served by the database comes first.
            if want.busy:
                return
            if want.granted.done():
                continue
            try:
                taken = self._take(want.spender, want.worst)
            except PriceUnknown as error:
                self.refuse(want, error)
                continue
            if taken is not None:
                self.grant(want, *taken)
            elif self.group(want.spender).calls.free < 1:
                return

    # What the teller does before anybody has to wait

    @property
    def something_is_low(self) -> bool:
        return bool(self._low)

    def run_low(self, pot: Pot) -> None:
        """Has a pot filled up soon."""
        pot.water = _ASKED
        self._low.add(pot)
        self.asked.set()

    def low_pots(self) -> list[Pot]:
        """The pots that became low since the last time, but for those that are gone."""
        low, self._low = self._low, set()
        return [pot for pot in low if self.has(pot.hold)]

    def _take(self, spender: Spender, worst: Amount) -> tuple[Group, Takes] | None:
        group = self.group(spender)
        now, wall = time.monotonic(), time.time()
        for hold in group.holds:
            if now >= hold.fresh_until or wall >= hold.fresh_until_wall or hold.doubts:
                return None
            hold.used_at = now
        for uncapped in group.uncapped:
            uncapped.used_at = now
            if now >= uncapped.fresh_until or wall >= uncapped.fresh_until_wall:
                return None
        takes = group.takes(worst)
        for pot, need in takes:
            if pot.free < need:
                return None
        for pot, need in takes:
            pot.take(need)
            if pot.free < pot.water:
                self.run_low(pot)
        return group, takes

    def _new_group(self, spender: Spender, month: date) -> Group:
        tenant, *others = accounts = accounts_of(spender, month)
        held, uncapped = [self.hold(tenant)], []
        for account in others:
            hold = self.holds.get(account)
            if hold is not None:
                held.append(hold)
            else:
                uncapped.append(self.no_budget(account))
        return Group(
            accounts=accounts,
            holds=tuple(held),
            uncapped=tuple(uncapped),
            until=next_month(month),
            money=tuple(hold.micros for hold in held),
            tokens=held[0].tokens,
            calls=held[0].calls,
        )

    def _forget(self, want: Want) -> None:
        tenant_id = want.spender.tenant_id
        waiting = self._waiting.get(tenant_id, {})
        if want in waiting:
            del waiting[want]
            if not waiting:
                del self._waiting[tenant_id]
