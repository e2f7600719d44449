"""One tenant's events to 200 sockets: our hub against a server that writes finished frames."""

from __future__ import annotations

import asyncio
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import asyncpg
import msgspec
import uvloop

from agentos.contracts.events import Envelope, HeartbeatAlert, subject
from agentos.execution.relay import relay_waker
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.installation import bus_authority
from agentos.kernel.outbox import Outbox
from agentos.tenancy.opaque_tokens import new_token
from bench import usage
from bench.listeners import Arrival, Listeners, listeners, stamp
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack, free_port, process, stack

CLIENTS = 200
BURST_ROUNDS = 3
BURST = 2000
PACED_ROUNDS = 2
PER_SECOND = 50
PACED = 250

Send = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Measured:
    arrival: Arrival
    cpu: float
    """Seconds of the server per 100,000 deliveries."""


@dataclass
class Contestant:
    """A server, its clients, and two ways to make it send."""

    pid: int
    clients: Listeners
    burst: Send
    pace: Send
    bursts: list[Measured] = field(default_factory=list)
    paced: list[Measured] = field(default_factory=list)

    async def measure(self, send: Send, events: int) -> Measured:
        await self.clients.expect(events)
        before = usage.cpu_seconds(self.pid)
        await send()
        arrival = await self.clients.arrival()
        spent = usage.cpu_seconds(self.pid) - before
        return Measured(arrival, spent / (events * CLIENTS) * 100_000)

    @property
    def burst_cpu(self) -> float:
        return statistics.median(each.cpu for each in self.bursts)

    @property
    def paced_cpu(self) -> float:
        return statistics.median(each.cpu for each in self.paced)


async def _run() -> None:
    async with AsyncExitStack() as everything:
        running = await everything.enter_async_context(stack())
        ours = await everything.enter_async_context(_ours(running))
        limit = await everything.enter_async_context(_limit(running))
        contestants = {"ours": ours, "pre-framed": limit}
        # Paced events first: they get their numbers from the relay, those of a burst from us.
        for round_number in range(PACED_ROUNDS + 1):
            for each in contestants.values():
                measured = await each.measure(each.pace, PACED)
                if round_number:  # the first warms up
                    each.paced.append(measured)
        for round_number in range(BURST_ROUNDS + 1):
            for each in contestants.values():
                measured = await each.measure(each.burst, BURST)
                if round_number:
                    each.bursts.append(measured)
    for name, each in contestants.items():
        _report(name, each)
    ratio("fanout_paced_cpu_vs_preframed", ours.paced_cpu / limit.paced_cpu, "≤2")
    ratio("fanout_burst_cpu_vs_preframed", ours.burst_cpu / limit.burst_cpu, "≤2")


def _report(name: str, each: Contestant) -> None:
    seconds = statistics.median(measured.arrival.seconds for measured in each.bursts)
    figure(
        f"{name}, burst of {BURST:,}",
        f"{BURST * CLIENTS / seconds:,.0f} deliveries/s, {each.burst_cpu:.2f} CPU-s per 100,000",
    )
    p50 = statistics.median(measured.arrival.p50_ms for measured in each.paced)
    p99 = max(measured.arrival.p99_ms for measured in each.paced)
    figure(
        f"{name}, {PER_SECOND} events/s",
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {each.paced_cpu:.2f} CPU-s per 100,000",
    )


@asynccontextmanager
async def _ours(running: Stack) -> AsyncIterator[Contestant]:
    tenant_id, credential = await _tenant(running)
    port = free_port()
    ready = f"http://127.0.0.1:{port}/health/live"
    async with AsyncExitStack() as stack:
        gateway = stack.enter_context(
            process(
                ["-m", "agentos.cli.main", "serve", "--port", str(port)],
                running.environment(),
                ready=ready,
            )
        )
        stack.enter_context(
            process(["-m", "agentos.cli.main", "worker"], running.environment(), ready=ready)
        )
        credentials = bus_authority(running.secret_key).platform_credentials()
        bus = await Bus.connect(running.where.nats, credentials, name="bench")
        stack.push_async_callback(bus.close)
        db = await Database.connect(running.where.runtime, size=2, name="bench")
        stack.push_async_callback(db.close)
        clients = await stack.enter_async_context(
            listeners(port, "/api/events", credential, CLIENTS)
        )
        source = _Source(db, bus, tenant_id)
        yield Contestant(gateway.pid, clients, source.burst, source.pace)


@asynccontextmanager
async def _limit(running: Stack) -> AsyncIterator[Contestant]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    argv = ["-m", "bench.peers.preframed", str(port)]

    def sending(events: int, per_second: int) -> Send:
        address = f"{url}send?events={events}&per_second={per_second}"
        return lambda: asyncio.to_thread(lambda: urllib.request.urlopen(address).close())

    with process(argv, running.environment(), ready=url) as server:
        async with listeners(port, "/", "none", CLIENTS) as clients:
            yield Contestant(server.pid, clients, sending(BURST, 0), sending(PACED, PER_SECOND))


class _Source:
    def __init__(self, db: Database, bus: Bus, tenant_id: TenantId):
        self._db = db
        self._bus = bus
        self._tenant_id = tenant_id
        self._outbox = Outbox(relay_waker(bus))
        self._seq = 0

    async def pace(self) -> None:
        """The whole way: each event in a transaction of its own, then relay, bus and hub."""
        started = time.monotonic()
        for number in range(PACED):
            await asyncio.sleep(started + number / PER_SECOND - time.monotonic())
            self._seq += 1
            async with self._db.transaction(tenant_id=self._tenant_id) as tx:
                await self._outbox.announce(tx, self._tenant_id, datetime.now(UTC), _event())

    async def burst(self) -> None:
        """Straight to the hub, as fast as the bus carries: what is measured is the fan-out.

        These are not in history, which the hub only asks for what comes after its newest event.
        """
        where = subject(self._tenant_id, HeartbeatAlert.type)
        envelopes = [self._envelope() for _ in range(BURST)]
        for envelope in envelopes:
            await self._bus.publish(where, envelope)
        await self._bus.flush()

    def _envelope(self) -> bytes:
        self._seq += 1
        return msgspec.json.encode(
            Envelope(
                seq=self._seq,
                id=uuid7(),
                type=HeartbeatAlert.type,
                tenant_id=self._tenant_id,
                at=datetime.now(UTC),
                data=msgspec.Raw(msgspec.json.encode(_event())),
            )
        )


def _event() -> HeartbeatAlert:
    """As long as makes an envelope of about 256 bytes."""
    return HeartbeatAlert(priority=1, message=stamp().ljust(31, "."))


async def _tenant(running: Stack) -> tuple[TenantId, str]:
    tenant_id = TenantId(uuid7())
    key = new_token("sk", tenant_id)
    connection = await asyncpg.connect(running.where.platform)
    await connection.execute(
        "insert into tenants (id, name, slug, plan) values ($1, 'Bench', $2, 'enterprise')",
        tenant_id,
        f"t-{tenant_id.hex}",
    )
    await connection.execute(
        """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
           values ($1, $2, 'bench', $3, $4, '{events:read}', 'bench')""",
        tenant_id,
        uuid7(),
        key.last_four,
        key.digest,
    )
    await connection.close()
    return tenant_id, key.text


BENCHMARK = Benchmark(
    "event-fanout", "200 sockets of one tenant, server on one core", lambda: uvloop.run(_run())
)
