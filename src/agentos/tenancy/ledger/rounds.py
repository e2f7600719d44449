"""A round: who gets what, decided between reading the accounts and writing the holds."""

from __future__ import annotations

import time
from collections.abc import Iterable

from agentos.kernel.errors import AgentOSError, NotFound
from agentos.tenancy.ledger.drawer import Drawer, Group, Takes, Want
from agentos.tenancy.ledger.errors import (
    BudgetExhausted,
    PriceUnknown,
    TokensExhausted,
    TooManyCalls,
)
from agentos.tenancy.ledger.holds import Balance, Move
from agentos.tenancy.ledger.periods import Account
from agentos.tenancy.ledger.pots import Hold, Pot

# How long others may take to give back what they do not use.
_ROOM_SECONDS = 1.5
# How many calls like the one that waited are provided for, at least.
_AHEAD = 8
# What is taken ahead leaves most of the room to other processes.
_MOST_OF_ROOM = 4


class Round:
    """Used once: decide, then write `moves` and `exhausted`, then hand out, or undo."""

    def __init__(self, drawer: Drawer, accounts: list[Account], queue_seconds: float) -> None:
        self._drawer = drawer
        self._queue_seconds = queue_seconds
        self.accounts = accounts
        self._balances: dict[Account, Balance] = {}
        self._room: dict[Pot, int] = {}
        # What comes with the commit besides what waiting calls take.
        self._ahead: dict[Pot, int] = {}
        self._granted: list[tuple[Want, Group, Takes]] = []
        self._refused: list[tuple[Want, AgentOSError]] = []
        self.moves: dict[Hold, Move] = {}
        self.exhausted: dict[Account, Balance] = {}

    def decide(
        self, balances: dict[Account, Balance], wants: Iterable[Want], low: Iterable[Pot]
    ) -> None:
        """Decides who gets what. What this process has free already is taken here and now.

        `balances` are of those of the accounts whose tenant exists.
        """
        self._balances = balances
        enough = {pot: pot.enough for pot in low if self._can_grow(pot)}
        for want in wants:
            if not want.granted.done():
                for pot, need in self._decide_on(want):
                    enough[pot] = max(enough.get(pot, 0), pot.enough, need * _AHEAD)
        for pot, amount in enough.items():
            ahead = min(amount - max(pot.free, 0), self._room_of(pot) // _MOST_OF_ROOM)
            if ahead > 0:
                self._move(pot, ahead)
                self._ahead[pot] = ahead

    def hand_out(self) -> None:
        """Gives to calls what was committed."""
        for pot, ahead in self._ahead.items():
            pot.free += ahead
            pot.set_water()
        for want, group, takes in self._granted:
            self._drawer.grant(want, group, takes)
        for want, error in self._refused:
            self._drawer.refuse(want, error)

    def undo(self) -> None:
        """Takes everything back after a failure. Nobody knows what Postgres has of it."""
        for hold in self.moves:
            hold.doubt()
        for _, _, takes in self._granted:
            for pot, amount in takes:
                pot.give_back(amount)

    def _decide_on(self, want: Want) -> Takes:
        """Decides on one call; returns what of its room must be fetched."""
        group = self._drawer.group(want.spender)
        if any(hold.doubts or hold.account not in self.accounts for hold in group.holds):
            return []  # in doubt again, or a new month began: the next round will tell
        if not group.read:
            return []  # it was forgotten meanwhile whether there is a budget
        if group.holds[0].account not in self._balances:
            self._refused.append((want, NotFound("There is no such tenant.")))
            return []
        try:
            takes = group.takes(want.worst)
        except PriceUnknown as error:
            self._refused.append((want, error))
            return []
        short = [(pot, need) for pot, need in takes if _lacking(pot, need) > self._room_of(pot)]
        if short:
            self._decide_on_short(want, short)
            return []
        fetched: Takes = []
        for pot, need in takes:
            lacking = _lacking(pot, need)
            if lacking:
                self._move(pot, lacking)
                # Comes with the commit; until then nothing else can be free.
                pot.free += lacking
                fetched.append((pot, need))
            pot.take(need)
        self._granted.append((want, group, takes))
        return fetched

    def _decide_on_short(self, want: Want, short: Takes) -> None:
        now = time.monotonic()
        for pot, need in short:
            balance = self._balances[pot.hold.account]
            cap = balance.caps[pot.unit]
            hopeless = cap is not None and balance.spent[pot.unit] + need > cap
            if pot.unit != "calls" and hopeless:
                self._refuse(want, pot)
                return
        if any(pot.unit == "calls" for pot, _ in short):
            if want.turn_until is None:
                want.turn_until = now + self._queue_seconds
            if now >= want.turn_until:
                self._refused.append((want, TooManyCalls()))
            return
        if want.room_until is None:
            want.room_until = now + _ROOM_SECONDS
        if now >= want.room_until:
            self._refuse(want, short[0][0])

    def _refuse(self, want: Want, pot: Pot) -> None:
        account = pot.hold.account
        balance = self._balances[account]
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
                self.exhausted[account] = balance
        self._refused.append((want, error))

    def _can_grow(self, pot: Pot) -> bool:
        balance = self._balances.get(pot.hold.account)
        return (
            balance is not None
            and balance.caps[pot.unit] is not None
            and not pot.hold.doubts
            and self._drawer.has(pot.hold)
        )

    def _room_of(self, pot: Pot) -> int:
        if pot not in self._room:
            room = self._balances[pot.hold.account].room(pot.unit)
            assert room is not None, "asked of capped units alone"
            self._room[pot] = room
        return self._room[pot]

    def _move(self, pot: Pot, amount: int) -> None:
        self._room[pot] -= amount
        self.moves.setdefault(pot.hold, Move(pot.hold.account)).add(pot.unit, amount)


def _lacking(pot: Pot, need: int) -> int:
    return max(need - max(pot.free, 0), 0)
