"""A scaled-out installation: engines, a gateway and two workers, each a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import httpx
import pytest
from tests.faults.test_kill_engines import (
    RECOVERY_SECONDS,
    check_nothing_lost,
    errors_in,
    tenants_of,
    under_load,
)
from tests.faults.test_up import Command, Installation, Place, new_place, until

from agentos.control.platform.demo import ensure_demo
from agentos.execution.relay import RELAY_LOCK
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.engines.account import create_data_directory, engine_account
from agentos.kernel.installation import Addresses, embedded_engines, prepare_database
from agentos.kernel.outbox import Outbox
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings

# A leader that is stopped for longer than this has been replaced.
TAKEOVER_SECONDS = 10.0


@dataclass
class ScaledOut:
    place: Place
    where: Addresses
    installation: Installation
    gateway: Command

    async def worker(self) -> Command:
        worker = await self.place.run("worker")
        await worker.line('"working"')
        return worker

    async def leader(self) -> int | None:
        """The database session that leads the relay."""
        connection = await asyncpg.connect(self.where.platform)
        try:
            pid: int | None = await connection.fetchval(
                """select pid from pg_locks where locktype = 'advisory' and granted
                   and classid = ($1::bigint >> 32)::oid and objid = ($1 & 4294967295)::oid""",
                RELAY_LOCK,
            )
        finally:
            await connection.close()
        return pid

    async def another_leader(self, than: int | None) -> int:
        async with asyncio.timeout(TAKEOVER_SECONDS):
            while True:
                pid = await self.leader()
                if pid is not None and pid != than:
                    return pid
                await asyncio.sleep(0.05)


@asynccontextmanager
async def scaled_out() -> AsyncIterator[ScaledOut]:
    async with new_place() as place:
        settings = Settings(data_dir=place.data_dir)
        create_data_directory(place.data_dir, engine_account())
        key = load_secret_key(settings)
        async with embedded_engines(settings, key, lambda _: None) as where:
            try:
                await prepare_database(settings, key, where, lambda _: None)
                database = await Database.connect(where.platform, size=2, name="test")
                demo = await ensure_demo(database, key, Outbox(lambda: None), SystemClock())
                await database.close()
                assert demo is not None
                gateway = await place.run("serve", "--port", "0")
                url = (await gateway.line('"serving"'))["url"]
                entrance = {"email": demo.email, "password": demo.password, "api_key": demo.api_key}
                yield ScaledOut(place, where, Installation(url, entrance), gateway)
            finally:
                # Before the engines, which they need.
                await place.close()


@pytest.fixture
async def out() -> AsyncIterator[ScaledOut]:
    async with scaled_out() as running:
        yield running


async def test_a_killed_or_stopped_relay_is_replaced_and_nothing_is_lost(out: ScaledOut) -> None:
    first = await out.worker()
    leading = await out.another_leader(than=None)
    second = await out.worker()
    tenants = await tenants_of(out.installation)

    async def delivered_again() -> None:
        written = [len(tenant.acknowledged) for tenant in tenants]
        await until(
            lambda: all(
                len(tenant.names) > before for tenant, before in zip(tenants, written, strict=True)
            ),
            within=RECOVERY_SECONDS,
        )

    async with under_load(tenants):
        assert await out.leader() == leading
        first.send(signal.SIGKILL)
        leading = await out.another_leader(than=leading)
        await delivered_again()

        third = await out.worker()
        assert await out.leader() == leading
        second.send(signal.SIGSTOP)
        taken_over = await out.another_leader(than=leading)
        await delivered_again()
        second.send(signal.SIGCONT)
        await delivered_again()
        assert await out.leader() == taken_over

        third.send(signal.SIGKILL)
        await out.another_leader(than=taken_over)
        await delivered_again()
    for tenant in tenants:
        assert tenant.failures == []
        # Relays come and go behind the gateway; its clients notice nothing.
        assert set(tenant.statuses) == {201}
        assert tenant.connections == 1
    await check_nothing_lost(tenants, out.where.platform)
    assert await second.stop() == 0
    assert errors_in(out.gateway.err + second.err + third.err) == []


async def test_sigterm_ends_a_gateway_after_its_requests(out: ScaledOut) -> None:
    sent, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first half, "
        sent.set()
        await go_on.wait()
        yield b"second half"

    async with (
        out.installation.client() as client,
        client.stream("GET", "/api/events/stream") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        upload = asyncio.create_task(client.put("/api/objects/slow.txt", content=slowly()))
        await sent.wait()
        # Until the gateway has begun to read it.
        await asyncio.sleep(0.3)
        out.gateway.send(signal.SIGTERM)
        await refuses(out.installation.url)
        assert not out.gateway.ended
        # Told to come back, to another gateway or after the next start.
        told = [line async for line in lines]
        assert "event: dropped" in told
        assert any('"restart"' in line for line in told)
        go_on.set()
        stored = await upload
        assert stored.status_code in (200, 201), stored.text
        assert stored.json()["size"] == len("first half, second half")
    assert await out.gateway.wait(within=10) == 0
    assert errors_in(out.gateway.err) == []
    assert "Traceback" not in out.gateway.output


async def test_signals_end_a_worker_in_order(out: ScaledOut) -> None:
    leading = await out.worker()
    await out.another_leader(than=None)
    standby = await out.worker()
    for worker, number in ((standby, signal.SIGINT), (leading, signal.SIGTERM)):
        assert not worker.ended
        worker.send(number)
        assert await worker.wait(within=10) == 0
        assert errors_in(worker.err) == []
        assert "Traceback" not in worker.output
    assert await out.leader() is None


async def refuses(url: str) -> None:
    """Waits until nothing listens there any more."""
    async with asyncio.timeout(10):
        while True:
            try:
                async with httpx.AsyncClient(base_url=url, timeout=5) as client:
                    await client.get("/health/live")
            except httpx.TransportError:
                return
            await asyncio.sleep(0.05)
