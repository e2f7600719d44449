"""Money is escrowed: no call starts without room for its worst case in every budget it counts against."""

from __future__ import annotations

from typing import Protocol

from agentos.kernel.database import Transaction
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender


class Escrow(Protocol):
    async def reserve(self, spender: Spender, worst: Amount) -> Reservation:
        """Room for a call, and one of the tenant's slots for concurrent calls.

        Raises BudgetExhausted, TokensExhausted, PriceUnknown, TooManyCalls.
        """
        ...

    def settle(self, reservation: Reservation, call: FinishedCall) -> None:
        """Books what a call took. Once this returns, `kill -9` cannot lose it."""
        ...

    def release(self, reservation: Reservation, reason: str) -> None:
        """Gives back all of a reservation: nothing was spent."""
        ...

    async def settle_in(
        self, tx: Transaction, reservation: Reservation, call: FinishedCall
    ) -> None:
        """Books a call in the caller's own transaction, with what it led to."""
        ...
