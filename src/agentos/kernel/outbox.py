"""Events leave with the transaction that caused them, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
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


# Events that go in one statement; few, because each number is a statement that has to be known.
_AT_ONCE = 4


def _insert(count: int) -> str:
    rows = ", ".join(f"($1, ${n}, ${n + 1}, ${n + 2}, $2)" for n in range(3, 3 + 3 * count, 3))
    return f"insert into outbox (tenant_id, id, type, data, at) values {rows}"  # noqa: S608 - numbers


_INSERT = [_insert(count) for count in range(_AT_ONCE + 1)]


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
    ) -> list[UUID]:
        """Returns the ids of the events."""
        ids = [uuid7() for _ in events]
        for first in range(0, len(events), _AT_ONCE):
            some = events[first : first + _AT_ONCE]
            values = _values(ids[first:], some)
            await tx.execute(_INSERT[len(some)], tenant_id, at, *values)
        tx.after_commit(self.wake)
        return ids


def _values(ids: Iterable[UUID], events: Iterable[Announced]) -> Iterator[object]:
    for event_id, event in zip(ids, events, strict=False):
        yield from (event_id, event.type, msgspec.to_builtins(event))
