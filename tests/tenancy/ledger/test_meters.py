from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database, DatabaseUnavailable, Transaction
from agentos.kernel.ids import uuid7
from agentos.tenancy.ledger import meters
from agentos.tenancy.ledger.meters import ApiCallMeter, add, sample_storage

DAY = date(2026, 11, 30)
LATE = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)

Metered = Callable[[], Awaitable[dict[tuple[UUID, date, str], int]]]


@pytest.fixture
def metered(superuser: asyncpg.Connection[Any]) -> Metered:
    async def read() -> dict[tuple[UUID, date, str], int]:
        rows = await superuser.fetch("select tenant_id, day, meter, quantity from meters")
        return {(row["tenant_id"], row["day"], row["meter"]): row["quantity"] for row in rows}

    return read


async def _tenant(tenant_work: TenantWork) -> UUID:
    async with tenant_work() as work:
        return work.tenant_id


class AwayDatabase(Database):
    """The real one, but for what is away: the statement, or only the answer to the commit."""

    def __init__(self, real: Database, *, after_commit: bool = False):
        self._real = real
        self._after_commit = after_commit

    @asynccontextmanager
    async def transaction(self, **context: Any):  # type: ignore[no-untyped-def]
        if not self._after_commit:
            raise DatabaseUnavailable()
        async with self._real.transaction(**context) as tx:
            yield tx
        raise DatabaseUnavailable()


async def test_adding_adds_up_by_day_and_meter(tenant_work: TenantWork, metered: Metered) -> None:
    async with tenant_work() as work:
        await add(work.tx, work.tenant_id, DAY, "compute_seconds", 60)
        await add(work.tx, work.tenant_id, DAY, "compute_seconds", 5)
        await add(work.tx, work.tenant_id, DAY + timedelta(days=1), "compute_seconds", 7)
        await add(work.tx, work.tenant_id, DAY, "api_calls", 1)
    tenant = work.tenant_id
    assert await metered() == {
        (tenant, DAY, "compute_seconds"): 65,
        (tenant, DAY + timedelta(days=1), "compute_seconds"): 7,
        (tenant, DAY, "api_calls"): 1,
    }
    async with tenant_work(tenant=tenant) as work:
        rows = await meters.by_day(work.tx, tenant, DAY, DAY)
    assert [(row["meter"], row["quantity"]) for row in rows] == [
        ("api_calls", 1),
        ("compute_seconds", 65),
    ]


async def test_calls_of_all_tenants_are_written_together(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    one, other = await _tenant(tenant_work), await _tenant(tenant_work)
    first, second = (ApiCallMeter(platform_db, MovableClock(LATE)) for _ in range(2))
    for tenant, count in ((one, 3), (other, 2)):
        for _ in range(count):
            first.count(tenant)
            second.count(tenant)
    await asyncio.gather(first.flush(), second.flush())
    await first.flush()
    assert await metered() == {(one, DAY, "api_calls"): 6, (other, DAY, "api_calls"): 4}


async def test_a_tenant_that_is_gone_does_not_stop_the_others(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    tenant = await _tenant(tenant_work)
    meter = ApiCallMeter(platform_db, MovableClock(LATE))
    meter.count(uuid7())
    meter.count(tenant)
    await meter.flush()
    assert await metered() == {(tenant, DAY, "api_calls"): 1}


async def test_counts_wait_for_the_database_and_keep_their_day(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    tenant, clock = await _tenant(tenant_work), MovableClock(LATE)
    meter = ApiCallMeter(AwayDatabase(platform_db), clock)
    meter.count(tenant)
    with pytest.raises(DatabaseUnavailable):
        await meter.flush()
    clock.advance(timedelta(seconds=2))
    meter.count(tenant)
    meter.count(tenant)
    with pytest.raises(DatabaseUnavailable):
        await meter.flush()
    meter._db = platform_db
    await meter.flush()
    assert await metered() == {
        (tenant, DAY, "api_calls"): 1,
        (tenant, date(2026, 12, 1), "api_calls"): 2,
    }


async def test_counts_that_may_have_been_written_are_not_written_again(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    tenant = await _tenant(tenant_work)
    meter = ApiCallMeter(AwayDatabase(platform_db, after_commit=True), MovableClock(LATE))
    meter.count(tenant)
    with pytest.raises(DatabaseUnavailable):
        await meter.flush()
    meter._db = platform_db
    await meter.flush()
    assert await metered() == {(tenant, DAY, "api_calls"): 1}


async def test_what_is_left_is_written_when_it_stops(
    tenant_work: TenantWork,
    platform_db: Database,
    metered: Metered,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meters, "_FLUSH_SECONDS", 3600.0)
    tenant = await _tenant(tenant_work)
    meter = ApiCallMeter(platform_db, MovableClock(LATE))
    running = asyncio.create_task(meter.run())
    await asyncio.sleep(0)
    meter.count(tenant)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert await metered() == {(tenant, DAY, "api_calls"): 1}


async def test_it_goes_on_after_the_database_was_away(
    tenant_work: TenantWork,
    platform_db: Database,
    metered: Metered,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meters, "_FLUSH_SECONDS", 0.0)
    tenant, written = await _tenant(tenant_work), asyncio.Event()
    refused = 0

    class Flaky(AwayDatabase):
        @asynccontextmanager
        async def transaction(self, **context: Any):  # type: ignore[no-untyped-def]
            nonlocal refused
            refused += 1
            if refused < 3:
                raise DatabaseUnavailable()
            async with platform_db.transaction(**context) as tx:
                yield tx
            written.set()

    meter = ApiCallMeter(Flaky(platform_db), MovableClock(LATE))
    meter.count(tenant)
    running = asyncio.create_task(meter.run())
    await asyncio.wait_for(written.wait(), 10)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert await metered() == {(tenant, DAY, "api_calls"): 1}


async def _store(tx: Transaction, tenant_id: UUID, size: int) -> None:
    await tx.execute(
        """insert into storage_usage (tenant_id, bytes, objects) values ($1, $2, 1)
           on conflict (tenant_id) do update set bytes = excluded.bytes""",
        tenant_id,
        size,
    )


async def test_storage_is_sampled_once_a_day_whoever_does_it(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    clock = MovableClock(datetime(2028, 2, 29, 0, 40, tzinfo=UTC))
    async with tenant_work() as work:
        await _store(work.tx, work.tenant_id, 1000)
    tenant = work.tenant_id
    counts = await asyncio.gather(*(sample_storage(platform_db, clock) for _ in range(3)))
    assert sorted(counts) == [0, 0, 1]
    async with tenant_work(tenant=tenant) as work:
        await _store(work.tx, tenant, 5000)
    clock.advance(timedelta(hours=23))
    assert await sample_storage(platform_db, clock) == 0
    clock.advance(timedelta(hours=1))
    assert await sample_storage(platform_db, clock) == 1
    assert await metered() == {
        (tenant, date(2028, 2, 29), "storage_byte_hours"): 24_000,
        (tenant, date(2028, 3, 1), "storage_byte_hours"): 120_000,
    }


async def test_the_hours_before_the_first_sample_are_free(
    tenant_work: TenantWork, platform_db: Database, metered: Metered
) -> None:
    clock = MovableClock(datetime(2026, 11, 30, 1, tzinfo=UTC))
    async with tenant_work() as work:
        await _store(work.tx, work.tenant_id, 0)
    assert await sample_storage(platform_db, clock) == 0
    async with tenant_work(tenant=work.tenant_id) as later:
        await _store(later.tx, work.tenant_id, 10)
    clock.advance(timedelta(hours=21, minutes=30))
    assert await sample_storage(platform_db, clock) == 1
    assert await metered() == {(work.tenant_id, DAY, "storage_byte_hours"): 20}
