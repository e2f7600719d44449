"""Pots: what this process holds of accounts, as it is in memory."""

from __future__ import annotations

from typing import Literal

from agentos.tenancy.ledger.periods import Account

Unit = Literal["micros", "tokens", "calls"]

# A pot is filled up to this many times what is drawn from one look at it to the next.
_LOOKS_AHEAD = 4


class Pot:
    """One unit of a hold. In Postgres the hold has free + taken + unposted of it."""

    __slots__ = (
        "_drawn",
        "_pace",
        "_peak",
        "_start",
        "cap",
        "free",
        "hold",
        "taken",
        "unit",
        "unposted",
        "water",
    )

    def __init__(self, hold: Hold, unit: Unit):
        self.hold = hold
        self.unit = unit
        self.cap: int | None = None
        # To hand out; reserved by calls that run; spent by calls that Postgres has not heard of.
        self.free = 0
        self.taken = 0
        self.unposted = 0
        # With less than this free, more is fetched before a call has to wait for it.
        self.water = 0
        # All that was ever drawn and not given back: now, at the last look, at most since then.
        self._drawn = self._start = self._peak = 0
        self._pace = 0

    @property
    def total(self) -> int:
        return self.free + self.taken + self.unposted

    @property
    def pace(self) -> int:
        """How far calls lately drew it down from one look to the next, spending and running."""
        return max(self._pace, self._peak - self._start)

    @property
    def enough(self) -> int:
        """What should be free, as far as there is room."""
        return self.pace * _LOOKS_AHEAD

    @property
    def unneeded(self) -> int:
        """What would be left if as many calls ran at once again as lately did."""
        return self.free - (self._peak - self._drawn)

    def take(self, amount: int) -> None:
        self.free -= amount
        self.taken += amount
        drawn = self._drawn = self._drawn + amount
        if drawn > self._peak:
            self._peak = drawn

    def give_back(self, amount: int, kept: int = 0) -> None:
        """Ends a call's use of `amount`, of which `kept` was spent."""
        rest = amount - kept
        self.taken -= amount
        self.free += rest
        self._drawn -= rest
        self.unposted += kept

    def set_water(self) -> None:
        # Half of what is there, so that it is asked for less and less often as a cap comes near.
        self.water = min(self.enough, self.free) // 2

    def look(self) -> None:
        """Learns its pace, every few tenths of a second. One not kept up halves in about a second."""
        # To the last, for a tenant with one call at a time a moment's silence means nothing; what
        # is not used at all goes back anyway.
        least = min(self._pace, 1)
        self._pace = max(self._peak - self._start, self._pace * 3 // 4, least)
        self._start = self._peak = self._drawn


class Hold:
    """What this process has of one account. Replaced by a new one if Postgres no longer has it."""

    __slots__ = (
        "account",
        "calls",
        "doubts",
        "fresh_until",
        "fresh_until_wall",
        "known",
        "leased_until",
        "leased_until_wall",
        "looks",
        "lost",
        "micros",
        "pots",
        "tokens",
        "used_at",
    )

    def __init__(self, account: Account):
        self.account = account
        self.micros = Pot(self, "micros")
        self.tokens = Pot(self, "tokens")
        self.calls = Pot(self, "calls")
        self.pots = (self.micros, self.tokens, self.calls)
        # Its row in accounts exists.
        self.known = False
        # Postgres gave it to others: what was taken from it is covered by nothing any more.
        self.lost = False
        # How often a transaction ended without saying how, since the row was last looked at.
        self.doubts = 0
        # How often what is free was concluded from the row.
        self.looks = 0
        # Caps older than a second are not trusted, nor is a hold whose time is up. Twice, because
        # the monotonic clock stands still while a machine sleeps.
        self.fresh_until = self.fresh_until_wall = 0.0
        self.leased_until = self.leased_until_wall = 0.0
        self.used_at = 0.0

    @property
    def empty(self) -> bool:
        return not (self.micros.total or self.tokens.total or self.calls.total)

    def doubt(self) -> None:
        """Lets nobody have of it until its row has been looked at."""
        self.doubts += 1

    def fresh(self, now: float, wall: float, seconds: float) -> None:
        """Notes that its caps were read just now."""
        self.fresh_until, self.fresh_until_wall = now + seconds, wall + seconds
        if not self.empty:
            self.fresh_until = min(self.fresh_until, self.leased_until)
            self.fresh_until_wall = min(self.fresh_until_wall, self.leased_until_wall)

    def leased(self, now: float, wall: float, seconds: float) -> None:
        self.leased_until, self.leased_until_wall = now + seconds, wall + seconds


class Uncapped:
    """An account of a team or session without a budget: nothing of it is held, only spent.

    Believed for a second after it was read, like the caps of a hold; before, and after, nothing is
    known of it.
    """

    __slots__ = ("account", "fresh_until", "fresh_until_wall", "used_at")

    def __init__(self, account: Account):
        self.account = account
        self.fresh_until = self.fresh_until_wall = 0.0
        self.used_at = 0.0

    def fresh(self, now: float, wall: float, seconds: float) -> None:
        """Notes that it was read just now."""
        self.fresh_until, self.fresh_until_wall = now + seconds, wall + seconds
