"""From the commit of what announces an event to its frame at a client, as `agentos up` runs it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from urllib.parse import urlsplit

import uvloop

from agentos.contracts.events import HeartbeatAlert
from agentos.execution.relay import relay_waker
from agentos.kernel.bus import Bus, Message
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.kernel.installation import Addresses, addresses, bus_authority
from agentos.kernel.outbox import Outbox
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings
from agentos.tenancy.opaque_tokens import parse_token
from bench.installed import Installed, installed
from bench.percentiles import p50_and_p99, percentile
from bench.report import Benchmark, figure, ratio
from bench.sockets import connect
from bench.stack import data_directory

EVENTS = 300
WARM_UP = 30
# Long enough for the relay to have written down how far it is: one event at a time.
PAUSE_SECONDS = 0.015
SUBJECT = "platform.bench"


def _run() -> None:
    with data_directory() as place, installed(place) as running:
        settings = Settings(data_dir=place)
        key = load_secret_key(settings)
        uvloop.run(_measure(running, addresses(settings, key), key))


async def _measure(running: Installed, where: Addresses, key: bytes) -> None:
    token = parse_token("sk", running.api_key)
    assert token is not None
    async with AsyncExitStack() as stack:
        db = await Database.connect(where.runtime, size=2, name="bench")
        stack.push_async_callback(db.close)
        credentials = bus_authority(key).platform_credentials()
        one = await Bus.connect(where.nats, credentials, name="bench-one")
        stack.push_async_callback(one.close)
        other = await Bus.connect(where.nats, credentials, name="bench-other")
        stack.push_async_callback(other.close)
        path = _Path(db, Outbox(relay_waker(one)), token.tenant_id)
        raw = _Raw(one)
        await other.subscribe(SUBJECT, raw.receive)
        await other.flush()
        port = urlsplit(running.url).port
        assert port is not None
        socket = await connect(
            port, "/api/events", running.api_key, path.receive, on_lost=lambda: None
        )
        for number in range(WARM_UP + EVENTS):
            if number == WARM_UP:
                path.times.clear()
                path.commits.clear()
                raw.times.clear()
            await asyncio.wait_for(path.once(), 10)
            await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.wait_for(raw.once(), 10)
        socket.close()
    figure("commit alone", p50_and_p99(path.commits))
    figure("commit to frame", p50_and_p99(path.times))
    # Two waits for the disk are part of it: this commit and the relay's.
    after = [whole - commit for whole, commit in zip(path.times, path.commits, strict=True)]
    figure("of that after the commit", p50_and_p99(after))
    figure("raw NATS, publish to callback", p50_and_p99(raw.times))
    ratio(
        "event_latency_vs_raw_nats_p50",
        percentile(path.times, 0.5) / percentile(raw.times, 0.5),
        "≤20",
    )


class _Path:
    """The whole way: transaction, outbox, relay, bus, hub, socket."""

    def __init__(self, db: Database, outbox: Outbox, tenant_id: TenantId):
        self._db = db
        self._outbox = outbox
        self._tenant_id = tenant_id
        self._arrived = asyncio.Event()
        self._at = 0.0
        self.times: list[float] = []
        self.commits: list[float] = []

    def receive(self, data: bytes, start: int, end: int) -> None:
        if data.find(b'"seq"', start, end) >= 0:
            self._at = time.perf_counter()
            self._arrived.set()

    async def once(self) -> None:
        self._arrived.clear()
        event = HeartbeatAlert(priority=1, message="x" * 64)
        async with self._db.transaction(tenant_id=self._tenant_id) as tx:
            tx.after_commit(lambda: self.commits.append(time.perf_counter() - started))
            await self._outbox.announce(tx, self._tenant_id, datetime.now(UTC), event)
            started = time.perf_counter()
        await self._arrived.wait()
        self.times.append(self._at - started)


class _Raw:
    """The limit: one message through the same server, from one connection to another."""

    def __init__(self, bus: Bus):
        self._bus = bus
        self._arrived = asyncio.Event()
        self._at = 0.0
        self.times: list[float] = []

    async def receive(self, _: Message) -> None:
        self._at = time.perf_counter()
        self._arrived.set()

    async def once(self) -> None:
        self._arrived.clear()
        started = time.perf_counter()
        await self._bus.publish(SUBJECT, b"x" * 256)
        await self._arrived.wait()
        self.times.append(self._at - started)


BENCHMARK = Benchmark("event-latency", "300 events, one at a time, against raw NATS in turn", _run)
