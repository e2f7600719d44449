"""What the hub keeps: subscriptions only while needed, no tasks after, events without the bus."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.events.conftest import Relay, Rig

from agentos.contracts.events import subject_roots
from agentos.gateway.events.errors import ShuttingDown, TooManyStreams
from agentos.gateway.events.filters import EVERYTHING
from agentos.gateway.events.hub import EventHub, Feed
from agentos.kernel.bus import Bus
from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.database import Database, DatabaseUnavailable
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.ids import TenantId, uuid7

AUTHORITY = BusAuthority(b"e" * 32)


async def _until(condition: Any, within: float = 5) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.02)


def _subscriptions(bus: Bus) -> int:
    return len(bus._client._subs)


async def _seqs(feed: Feed, count: int) -> list[int]:
    seqs: list[int] = []
    async with asyncio.timeout(10):
        while len(seqs) < count:
            frames = await feed.take()
            seqs += [frame.seq or 0 for frame in frames if frame.type != "stream.live"]
            feed.delivered(frames)
    return seqs


async def test_it_listens_only_while_somebody_does(rig: Rig, bus: Bus) -> None:
    before = _subscriptions(bus)
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.listen(key) as one:
        await one.live()
        subscribed = _subscriptions(bus)
        assert subscribed > before
        async with rig.listen(key) as two:
            await two.live()
            assert _subscriptions(bus) == subscribed
        await asyncio.sleep(0.5)
        assert rig.hub.tenants() == {tenant}
    await _until(lambda: not rig.hub.tenants())
    await _until(lambda: _subscriptions(bus) == before)


async def test_a_quick_return_finds_the_channel_as_it_was(rig: Rig, bus: Bus) -> None:
    tenant = await rig.tenant()
    async with rig.hub.attach(tenant, after=None, wanted=EVERYTHING) as feed:
        await feed.take()
    subscribed = _subscriptions(bus)
    await rig.relay.announce(tenant, 2)
    async with rig.hub.attach(tenant, after=0, wanted=EVERYTHING) as feed:
        assert _subscriptions(bus) == subscribed
        assert await _seqs(feed, 2) == [1, 2]


async def test_no_task_is_left_behind(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.http(key) as http:
        await http.get("/api/events")  # the pools have their connections now
    before = asyncio.all_tasks()
    for abrupt in (False, True):
        async with rig.listen(key, "?after=0") as client:
            await client.live()
            await rig.relay.announce(tenant, 3)
            await client.seqs(3)
            if abrupt:
                client.socket.transport.abort()
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(
            f"GET /api/events/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode()
        )
        await reader.readuntil(b"stream.live")
        writer.transport.abort()
    await _until(lambda: not rig.hub.tenants())
    await _until(lambda: not asyncio.all_tasks() - before)


async def test_newcomers_during_the_opening_share_it(rig: Rig, bus: Bus) -> None:
    tenant = await rig.tenant()
    before = _subscriptions(bus)

    async def one(leave: bool) -> list[int]:
        async with rig.hub.attach(tenant, after=0, wanted=EVERYTHING) as feed:
            return [] if leave else await _seqs(feed, 1)

    waiting = [asyncio.create_task(one(n % 3 == 0)) for n in range(9)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await rig.relay.announce(tenant)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[1:] == [[] if n % 3 == 0 else [1] for n in range(1, 9)]
    assert _subscriptions(bus) - before == len(subject_roots())


async def test_a_failed_opening_is_tried_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await rig.tenant()

    def unavailable(*_: object, **__: object) -> None:
        raise DatabaseUnavailable()

    with monkeypatch.context() as patch:
        patch.setattr(Database, "transaction", unavailable)
        with pytest.raises(DatabaseUnavailable):
            async with rig.hub.attach(tenant, after=None, wanted=EVERYTHING):
                pass
        assert not rig.hub.tenants()
    async with rig.hub.attach(tenant, after=None, wanted=EVERYTHING) as feed:
        assert (await feed.take())[0].type == "stream.live"


async def test_history_that_fails_does_not_end_the_live_stream(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await rig.tenant()

    def unavailable(*_: object, **__: object) -> None:
        raise DatabaseUnavailable()

    async with rig.hub.attach(tenant, after=0, wanted=EVERYTHING) as feed:
        await feed.take()
        first, _, third = await rig.relay.record(tenant, 3)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "transaction", unavailable)
            await rig.relay.publish(first, third)
            assert await _seqs(feed, 1) == [1]
            await asyncio.sleep(0.8)
        assert await _seqs(feed, 2) == [2, 3]


async def test_a_tenant_cannot_take_all_places(db: Database, bus: Bus, rig: Rig) -> None:
    hub = EventHub(db, bus, clients_per_tenant=1)
    tenant, other = await rig.tenant(), await rig.tenant()
    async with hub.attach(tenant, after=None, wanted=EVERYTHING):
        with pytest.raises(TooManyStreams):
            async with hub.attach(tenant, after=None, wanted=EVERYTHING):
                pass
        async with hub.attach(other, after=None, wanted=EVERYTHING):
            pass
    await hub.close()
    with pytest.raises(ShuttingDown):
        async with hub.attach(tenant, after=None, wanted=EVERYTHING):
            pass


@pytest.fixture
def nats_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def own_nats(nats_dir: Path) -> AsyncIterator[EmbeddedNats]:
    nats = EmbeddedNats(nats_dir, AUTHORITY, account=engine_account(), on_notice=lambda _: None)
    await nats.start()
    yield nats
    await nats.stop()


async def test_events_arrive_while_the_bus_is_down_and_after(
    own_nats: EmbeddedNats, db: Database, platform_db: Database, superuser: Any
) -> None:
    bus = await Bus.connect(own_nats.url, AUTHORITY.platform_credentials(), name="test")
    hub = EventHub(db, bus, check_seconds=60)
    relay = Relay(platform_db, bus)
    tenant = TenantId(uuid7())
    await superuser.execute(
        "insert into tenants (id, name, slug) values ($1, 'T', $2)", tenant, f"t-{tenant.hex}"
    )
    async with hub.attach(tenant, after=0, wanted=EVERYTHING) as feed:
        await relay.announce(tenant)
        assert await _seqs(feed, 1) == [1]
        await own_nats.stop()
        await _until(lambda: not bus.is_connected)
        await relay.record(tenant, 2)
        assert await _seqs(feed, 2) == [2, 3]
        async with hub.attach(tenant, after=1, wanted=EVERYTHING) as newcomer:
            assert await _seqs(newcomer, 2) == [2, 3]
        await own_nats.start()
        await _until(lambda: bus.is_connected, within=15)
        await relay.record(tenant)
        hub.bus_state_changed("connected")
        assert await _seqs(feed, 1) == [4]
        await relay.announce(tenant)
        assert await _seqs(feed, 1) == [5]
    await hub.close()
    await bus.close()


async def test_a_gap_is_filled_without_waiting_for_the_next_check(
    rig: Rig, db: Database, bus: Bus
) -> None:
    hub = EventHub(db, bus, check_seconds=60)
    tenant = await rig.tenant()
    async with hub.attach(tenant, after=None, wanted=EVERYTHING) as feed:
        await feed.take()
        first, _, third = await rig.relay.record(tenant, 3)
        await rig.relay.publish(first, third)
        async with asyncio.timeout(2):
            assert await _seqs(feed, 3) == [1, 2, 3]
    await hub.close()
