"""Meters: what is counted by day besides model calls. Compute seconds, stored byte-hours, API calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import date
from typing import Literal
from uuid import UUID

import asyncpg

from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

Meter = Literal["compute_seconds", "storage_byte_hours", "api_calls"]

_FLUSH_SECONDS = 1.0
# A process that stops must not wait for a database that is away.
_LAST_FLUSH_SECONDS = 3.0
_HOURS_A_DAY = 24


async def add(tx: Transaction, tenant_id: UUID, day: date, meter: Meter, quantity: int) -> None:
    """Counts `quantity` more, with whatever else the transaction does."""
    await tx.execute(
        """insert into meters as m (tenant_id, day, meter, quantity) values ($1, $2, $3, $4)
           on conflict (tenant_id, day, meter)
               do update set quantity = m.quantity + excluded.quantity""",
        tenant_id,
        day,
        meter,
        quantity,
    )


async def by_day(tx: Transaction, tenant_id: UUID, first: date, last: date) -> list[asyncpg.Record]:
    """All meters of these days, the last included: day, meter, quantity."""
    return await tx.fetch(
        """select day, meter, quantity from meters
           where tenant_id = $1 and day between $2 and $3 order by day, meter""",
        tenant_id,
        first,
        last,
    )


class ApiCallMeter:
    """Counts API calls in memory, and writes them down every second.

    A process that is killed loses the calls of at most a second, in the customer's favour: to
    write each one down before it is answered would cost more than it is worth.
    """

    def __init__(self, platform_db: Database, clock: Clock):
        self._db = platform_db
        self._clock = clock
        self._fresh: Counter[UUID] = Counter()
        self._waiting: Counter[tuple[UUID, date]] = Counter()

    def count(self, tenant_id: UUID) -> None:
        """One more call of this tenant."""
        self._fresh[tenant_id] += 1

    async def run(self) -> None:
        """Writes counts down until cancelled, and then what is left.

        Nothing is lost while the database is away; close it only after this has ended.
        """
        try:
            while True:
                await asyncio.sleep(_FLUSH_SECONDS)
                await self._try_flush()
        finally:
            await self._last_flush()

    async def flush(self) -> None:
        """Writes down all that was counted. If it fails, the counts are kept for the next time."""
        self._date_fresh()
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, Counter()
        written = False
        try:
            async with self._db.transaction() as tx:
                await _add_calls(tx, batch)
                # From here on only the answer to the commit can fail. Counts that may have been
                # written are not written again: no customer pays twice.
                written = True
        finally:
            if not written:
                self._waiting += batch

    def _date_fresh(self) -> None:
        """Dates what was counted since the last time, so that waiting cannot move it to a later day."""
        today = self._clock.now().date()
        fresh, self._fresh = self._fresh, Counter()
        for tenant_id, calls in fresh.items():
            self._waiting[tenant_id, today] += calls

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except (AgentOSError, asyncpg.PostgresError, OSError) as error:
            log.warning("API calls not written down, trying again", error=repr(error))

    async def _last_flush(self) -> None:
        try:
            async with asyncio.timeout(_LAST_FLUSH_SECONDS):
                await self._try_flush()
        except TimeoutError:
            pass
        if self._waiting:
            log.warning("API calls not counted", calls=self._waiting.total())


async def _add_calls(tx: Transaction, calls: Counter[tuple[UUID, date]]) -> None:
    # A tenant that is gone by now must not keep the others from being counted. In one order, so
    # that two gateways cannot wait for each other.
    await tx.execute(
        """insert into meters as m (tenant_id, day, meter, quantity)
           select c.tenant_id, c.day, 'api_calls', c.calls
           from unnest($1::uuid[], $2::date[], $3::bigint[]) as c (tenant_id, day, calls)
           join tenants t on t.id = c.tenant_id
           order by c.tenant_id, c.day
           on conflict (tenant_id, day, meter)
               do update set quantity = m.quantity + excluded.quantity""",
        [tenant_id for tenant_id, _ in calls],
        [day for _, day in calls],
        list(calls.values()),
    )


async def sample_storage(platform_db: Database, clock: Clock) -> int:
    """Meters what each tenant stores today, once a day, and returns how many tenants it metered.

    The first sample of a day that finds anything stands for the rest of that day, this hour
    included. Call it every hour: later ones, and those of other workers, change nothing.
    """
    now = clock.now()
    async with platform_db.transaction() as tx:
        return await tx.execute(
            """insert into meters (tenant_id, day, meter, quantity)
               select tenant_id, $1, 'storage_byte_hours', bytes * $2
               from storage_usage where bytes > 0 order by tenant_id
               on conflict do nothing""",
            now.date(),
            _HOURS_A_DAY - now.hour,
        )
