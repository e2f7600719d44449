"""Events leave with the transaction that caused them, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7


class Announced(Protocol):
    """What the outbox needs of an event; the contracts say the rest."""

    @property
    def type(self) -> str: ...


class Outbox:
    """Writes events in the caller's transaction and wakes the relay after its commit.

    Announce after the state change: the row lock taken by that change is what puts the events of
    one thing in the order in which they happened.
    """

    # `wake` is for those who write the outbox's rows in a statement of their own.
    def __init__(self, wake: Callable[[], Awaitable[None] | None]):
        self.wake = wake

    async def announce(
        self, tx: Transaction, tenant_id: UUID, at: datetime, *events: Announced
    ) -> None:
        for event in events:
            await tx.execute(
                "insert into outbox (tenant_id, id, type, data, at) values ($1, $2, $3, $4, $5)",
                tenant_id,
                uuid7(),
                event.type,
                msgspec.to_builtins(event),
                at,
            )
        tx.after_commit(self.wake)
