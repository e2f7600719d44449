"""Token buckets in Postgres, shared by all processes, taken in small leases."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from agentos.kernel import metrics
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Kind

# A process takes this part of a minute's tokens at a time, and what it does not use within the
# second is lost to the others: at most 2 % of the limit, for one query in fifty requests.
_LEASE_PART = 50
_LEASE_SECONDS = 1.0
_MOST_ENTRIES = 20_000


class RateLimited(AgentOSError):
    """Too many requests."""

    code = "rate_limited"
    kind = Kind.LIMITED
    hint = "Wait as long as Retry-After says. A larger plan allows more."


@dataclass(slots=True)
class _Lease:
    tokens: int
    left_in_bucket: float
    until: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the RateLimit headers say."""

    limit: int
    remaining: int
    reset_seconds: int


class RateLimiter:
    def __init__(self, db: Database):
        self._db = db
        self._leases: dict[str, _Lease] = {}

    async def take(self, bucket: str, per_minute: int) -> Allowance:
        """Takes one token, or raises RateLimited."""
        lease = self._leases.get(bucket)
        if lease is None or lease.tokens < 1 or lease.until < time.monotonic():
            lease = await self._lease(bucket, per_minute)
        remaining = int(lease.left_in_bucket) + lease.tokens
        if lease.tokens < 1:
            metrics.rate_limited.inc()
            wait = math.ceil(60 / per_minute)
            raise RateLimited(
                f"More than {per_minute} requests a minute.", limit=per_minute, retry_after=wait
            )
        lease.tokens -= 1
        return Allowance(per_minute, remaining - 1, _seconds_to_full(per_minute, remaining - 1))

    async def _lease(self, bucket: str, per_minute: int) -> _Lease:
        want = max(1, per_minute // _LEASE_PART)
        async with self._db.connection() as connection:
            row = await connection.fetchrow(
                "select granted, remaining from take_tokens($1, $2, $3, $4)",
                bucket,
                want,
                float(per_minute),
                per_minute / 60,
            )
        assert row is not None
        lease = _Lease(row["granted"], row["remaining"], time.monotonic() + _LEASE_SECONDS)
        if len(self._leases) >= _MOST_ENTRIES:
            self._leases.clear()
        self._leases[bucket] = lease
        return lease


def _seconds_to_full(per_minute: int, remaining: int) -> int:
    return math.ceil((per_minute - remaining) * 60 / per_minute)
