"""UUIDv7 identifiers: sortable by time, typed per noun."""

from __future__ import annotations

import os
import threading
import time
from typing import NewType
from uuid import UUID

TenantId = NewType("TenantId", UUID)
UserId = NewType("UserId", UUID)
LoginId = NewType("LoginId", UUID)
InvitationId = NewType("InvitationId", UUID)
ApiKeyId = NewType("ApiKeyId", UUID)
SecretId = NewType("SecretId", UUID)
EventId = NewType("EventId", UUID)
AuditId = NewType("AuditId", UUID)
ObjectId = NewType("ObjectId", UUID)

_RANDOM_BITS = 74


class _Sequence:
    """Hands out strictly rising 122-bit values: 48 bits of milliseconds, then random ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        millis = time.time_ns() // 1_000_000
        with self._lock:
            if millis > self._last >> _RANDOM_BITS:
                self._last = millis << _RANDOM_BITS | int.from_bytes(os.urandom(10)) >> 6
            else:
                # Within one millisecond, or when the clock steps back, count on instead of
                # drawing anew: lists ordered by id must keep the order of creation.
                self._last += 1
            return self._last


_sequence = _Sequence()


def uuid7() -> UUID:
    """A new UUIDv7, strictly greater than every earlier one of this process."""
    value = _sequence.next()
    high, low = value >> 62, value & ((1 << 62) - 1)
    millis, rand_a = high >> 12, high & 0xFFF
    return UUID(int=(millis << 80) | (0x7 << 76) | (rand_a << 64) | (0b10 << 62) | low)
