"""Token buckets in Postgres, shared by all processes, taken in small leases."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field

import asyncpg

from agentos.kernel import metrics
from agentos.kernel.database import Database, reporting_loss
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# A process takes this part of a minute's tokens at a time and keeps what it does not use: for one
# query in fifty requests, each process can hold back or go beyond 2 % of the limit.
_LEASE_PART = 50
_LARGEST_LEASE = 10_000
_LEASE_SECONDS = 1.0
_MOST_ENTRIES = 20_000


class RateLimited(AgentOSError):
    """Too many requests."""

    code = "rate_limited"
    kind = Kind.LIMITED
    hint = "Wait as long as Retry-After says. A larger plan allows more."


@dataclass(slots=True)
class _Lease:
    """Tokens that this process has taken out of a bucket."""

    tokens: int = 0
    left_in_bucket: float = 0
    until: float = 0
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_old(self) -> bool:
        return self.until < time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.tokens < 1 or self.is_old


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
        self._renewals: set[asyncio.Task[None]] = set()

    async def take(self, bucket: str, per_minute: int) -> Allowance:
        """Takes one token, or raises RateLimited."""
        lease = self._leases.get(bucket)
        if lease is None:
            if len(self._leases) >= _MOST_ENTRIES:
                self._leases.clear()
            lease = self._leases[bucket] = _Lease()
        if lease.tokens < 1:
            await self._renew_once(lease, bucket, per_minute)
        elif lease.is_old and not lease.renewing.locked():
            # What is left of it was taken out of the bucket: nobody has to wait for more.
            self._renew_soon(lease, bucket, per_minute)
        if lease.tokens < 1:
            metrics.rate_limited.inc()
            raise RateLimited(
                f"More than {per_minute} requests a minute.",
                limit=per_minute,
                retry_after=math.ceil(60 / max(1, per_minute)),
            )
        lease.tokens -= 1
        remaining = int(lease.left_in_bucket) + lease.tokens
        return Allowance(per_minute, remaining, _seconds_to_full(per_minute, remaining))

    def _renew_soon(self, lease: _Lease, bucket: str, per_minute: int) -> None:
        async def renew() -> None:
            try:
                await self._renew_once(lease, bucket, per_minute)
            except (AgentOSError, asyncpg.PostgresError) as error:
                log.warning("a rate limit is not renewed", error=repr(error))

        task = asyncio.create_task(renew())
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def _renew_once(self, lease: _Lease, bucket: str, per_minute: int) -> None:
        # One at a time: a burst would otherwise lease all there is, and use a part of it.
        async with lease.renewing:
            if lease.is_over:
                await self._renew(lease, bucket, per_minute)

    async def _renew(self, lease: _Lease, bucket: str, per_minute: int) -> None:
        want = min(max(1, per_minute // _LEASE_PART), _LARGEST_LEASE) - lease.tokens
        async with self._db.connection() as connection:
            with reporting_loss:
                row = await connection.fetchrow(
                    "select granted, remaining from take_tokens($1, $2, $3, $4)",
                    bucket,
                    max(0, want),
                    float(per_minute),
                    per_minute / 60,
                )
        assert row is not None
        lease.tokens += row["granted"]
        lease.left_in_bucket = row["remaining"]
        lease.until = time.monotonic() + _LEASE_SECONDS


def _seconds_to_full(per_minute: int, remaining: int) -> int:
    return max(0, math.ceil((per_minute - remaining) * 60 / per_minute))
