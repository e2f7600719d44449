"""The relay against real Postgres and NATS: nothing lost, nothing twice, everything in order."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.conftest import Engines

from agentos.contracts.events import (
    EVENT_TYPES,
    Envelope,
    Event,
    SessionCompleted,
    SessionStarted,
    TenantUpdated,
    subject,
    subject_roots,
)
from agentos.execution import relay
from agentos.execution.relay import RELAY_LOCK, Relay, relay_waker
from agentos.kernel.bus import EVENTS_STREAM, Bus, Durable, Message
from agentos.kernel.bus_credentials import MAX_PAYLOAD
from agentos.kernel.database import Database
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.errors import Unavailable
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.kernel.schema import PLATFORM_ROLE

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BATCH = 500

# Section 3.2 of the specification, word for word.
SPECIFIED = [
    "session.created",
    "session.started",
    "session.progress",
    "session.checkpoint",
    "session.gate.passed",
    "session.gate.failed",
    "session.completed",
    "session.failed",
    "heartbeat.check.ok",
    "heartbeat.check.warn",
    "heartbeat.alert",
    "dream.planted",
    "dream.evolved",
    "dream.bloomed",
    "dream.compiled",
    "skill.installed",
    "skill.published",
]

EXAMPLES: dict[object, Any] = {
    UUID: UUID("01890000-0000-7000-8000-000000000001"),
    str: "Grüße, 'quoted' \u0001 ✓",
    int: 2**53,
    float: 0.25,
    str | None: None,
    int | None: None,
    UUID | None: None,
    datetime | None: None,
    datetime: datetime(2030, 1, 1, 12, tzinfo=UTC),
    list[str]: ["name", "slug"],
    dict[str, Any]: {"nested": {"list": [1, None, True, "ä"]}, "empty": {}},
}


class RolledBack(Exception):
    pass


class StuckBus(Bus):
    """Takes messages and never acknowledges one."""

    def __init__(self, inner: Bus):
        super().__init__(inner._client)

    async def publish_durable(self, *args: Any, **options: Any) -> bool:
        await asyncio.Event().wait()
        return False

    async def publish_together(self, *args: Any, **options: Any) -> bool:
        return await self.publish_durable()


class FalteringBus(Bus):
    """Loses one message in ten: sometimes on the way there, sometimes the answer. No batches."""

    def __init__(self, inner: Bus, seed: int):
        super().__init__(inner._client)
        self._random = random.Random(seed)

    async def publish_durable(self, *args: Any, **options: Any) -> bool:
        lost = self._random.random()
        if lost < 0.05:
            raise Unavailable("lost on the way")
        stored = await super().publish_durable(*args, **options)
        if lost < 0.1:
            raise Unavailable("lost on the way back")
        return stored

    async def publish_together(self, *args: Any, **options: Any) -> bool:
        return False


class OldBus(Bus):
    """A server that has never heard of batches: it acknowledges the last message, and only that."""

    def __init__(self, inner: Bus):
        super().__init__(inner._client)

    async def publish_together(self, messages: Sequence[Durable], **_: Any) -> bool:
        for each in messages:
            await self.publish_durable(each.subject, each.data, dedupe_id=each.dedupe_id)
        return False


class CountingBus(Bus):
    def __init__(self, inner: Bus):
        super().__init__(inner._client)
        self.in_flight = 0
        self.most = 0
        self.published = 0

    async def publish_durable(self, *args: Any, **options: Any) -> bool:
        return await self._counted(1, super().publish_durable(*args, **options))

    async def publish_together(self, messages: Sequence[Durable], **options: Any) -> bool:
        stored = super().publish_together(messages, **options)
        return await self._counted(len(messages), stored)

    async def _counted(self, messages: int, storing: Awaitable[bool]) -> bool:
        self.in_flight += messages
        self.most = max(self.most, self.in_flight)
        try:
            return await storing
        finally:
            self.in_flight -= messages
            self.published += messages


@dataclass
class Listener:
    """Everything the bus said about one tenant, in the order in which it arrived."""

    tenant_id: UUID
    heard: list[tuple[str, Envelope]] = field(default_factory=list)

    async def receive(self, message: Message) -> None:
        self.heard.append((message.subject, msgspec.json.decode(message.data, type=Envelope)))

    @property
    def seqs(self) -> list[int]:
        return [event.seq for _, event in self.heard]

    async def until(self, count: int) -> None:
        await until(lambda: len(set(self.seqs)) >= count)


@dataclass
class Rig:
    db: Database
    platform_db: Database
    bus: Bus
    superuser: asyncpg.Connection[Any]

    async def tenant(self) -> UUID:
        tenant_id = uuid7()
        await self.superuser.execute(
            "insert into tenants (id, name, slug) values ($1, 'T', $2)",
            tenant_id,
            f"t-{tenant_id.hex}",
        )
        return tenant_id

    async def listen(self, tenant_id: UUID, bus: Bus | None = None) -> Listener:
        listener = Listener(tenant_id)
        bus = bus or self.bus
        await bus.subscribe(f"tenant.{tenant_id}.>", listener.receive)
        await bus.flush()
        return listener

    async def announce(self, tenant_id: UUID, *events: Event) -> None:
        async with self.db.transaction(tenant_id=tenant_id) as tx:
            await Outbox(relay_waker(self.bus)).announce(tx, tenant_id, NOW, *events)

    async def history(self, tenant_id: UUID) -> list[asyncpg.Record]:
        return await self.superuser.fetch(
            "select seq, id, type, data::text as data from events where tenant_id = $1 order by seq",
            tenant_id,
        )

    async def unpublished(self) -> int:
        waiting: int = await self.superuser.fetchval(
            """select (select count(*) from outbox)
                    + (select count(*) from events, relay_cursor where position > published)"""
        )
        return waiting

    async def all_published(self) -> None:
        await until_true(self._all_published)

    async def _all_published(self) -> bool:
        return await self.unpublished() == 0

    async def moved(self, tenant_id: UUID, count: int) -> None:
        async def is_moved() -> bool:
            return len(await self.history(tenant_id)) >= count

        await until_true(is_moved)

    async def leader(self) -> int | None:
        pid: int | None = await self.superuser.fetchval(
            """select l.pid from pg_locks l join pg_database d on d.oid = l.database
               where locktype = 'advisory' and granted and datname = current_database()
                 and classid = ($1::bigint >> 32)::oid and objid = ($1 & 4294967295)::oid""",
            RELAY_LOCK,
        )
        return pid

    async def led(self) -> int:
        async def has_leader() -> bool:
            return await self.leader() is not None

        await until_true(has_leader)
        pid = await self.leader()
        assert pid is not None
        return pid

    @asynccontextmanager
    async def relaying(self, *buses: Bus) -> AsyncIterator[list[asyncio.Task[None]]]:
        """One relay for each bus, or one."""
        tasks = [
            asyncio.create_task(Relay(self.platform_db, bus).run()) for bus in buses or (self.bus,)
        ]
        try:
            yield tasks
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def rig(
    db: Database, platform_db: Database, bus: Bus, superuser: asyncpg.Connection[Any]
) -> Rig:
    await bus.ensure_events_stream(subject_roots())
    return Rig(db, platform_db, bus, superuser)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


async def until(condition: Callable[[], bool], within: float = 30) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 -- what is watched comes from elsewhere
            await asyncio.sleep(0.01)


async def until_true(condition: Callable[[], Awaitable[bool]], within: float = 30) -> None:
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 -- the database does not tell
            await asyncio.sleep(0.02)


def started() -> SessionStarted:
    return SessionStarted(session_id=uuid7())


def gapless(count: int) -> list[int]:
    return list(range(1, count + 1))


async def stored(bus: Bus, tenant_id: UUID) -> list[Envelope]:
    """What JetStream holds of a tenant, in its order."""
    subjects = f"tenant.{tenant_id}.>"
    subscription = await bus._jetstream.subscribe(
        subjects, stream=EVENTS_STREAM, ordered_consumer=True
    )
    counts = (
        await bus._jetstream.stream_info(EVENTS_STREAM, subjects_filter=subjects)
    ).state.subjects
    messages = [
        await subscription.next_msg(timeout=10) for _ in range(sum((counts or {}).values()))
    ]
    await subscription.unsubscribe()
    return [msgspec.json.decode(message.data, type=Envelope) for message in messages]


async def test_events_arrive_on_their_subject_in_order(rig: Rig) -> None:
    one, other = await rig.tenant(), await rig.tenant()
    listeners = [await rig.listen(one), await rig.listen(other)]
    async with rig.relaying():
        for _ in range(10):
            await rig.announce(one, started(), TenantUpdated(changed=["name"]))
            await rig.announce(other, started())
        for listener, count in zip(listeners, (20, 10), strict=True):
            await listener.until(count)
        await rig.all_published()
    for listener, count in zip(listeners, (20, 10), strict=True):
        assert listener.seqs == gapless(count)
        for name, event in listener.heard:
            assert name == f"tenant.{listener.tenant_id}.{event.type}"
            assert name == subject(listener.tenant_id, event.type)
            assert event.tenant_id == listener.tenant_id
            assert event.at == NOW
        rows = await rig.history(listener.tenant_id)
        assert [event.id for _, event in listener.heard] == [row["id"] for row in rows]
        assert [event.seq for event in await stored(rig.bus, listener.tenant_id)] == listener.seqs


async def test_a_rolled_back_transaction_announces_nothing(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    listener = await rig.listen(tenant_id)
    async with rig.relaying():
        with suppress(RolledBack):
            async with rig.db.transaction(tenant_id=tenant_id) as tx:
                await Outbox(lambda: None).announce(tx, tenant_id, NOW, started(), started())
                raise RolledBack
        await rig.announce(tenant_id, TenantUpdated(changed=["name"]))
        await listener.until(1)
    assert [(event.seq, event.type) for _, event in listener.heard] == [(1, "tenant.updated")]
    assert len(await rig.history(tenant_id)) == 1


async def test_publishing_twice_stores_one_copy(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    listener = await rig.listen(tenant_id)
    async with rig.relaying():
        await rig.announce(tenant_id, *[started() for _ in range(20)])
        await rig.all_published()
    # As if the relay had died before it could write down how far it was.
    await rig.superuser.execute("update relay_cursor set published = 0")
    async with rig.relaying():
        await rig.all_published()
        await until(lambda: len(listener.heard) >= 60)
    # The second time as a batch, which is refused because of what it repeats, and one by one.
    assert listener.seqs == gapless(20) * 3
    assert [event.seq for event in await stored(rig.bus, tenant_id)] == gapless(20)
    event = listener.heard[0][1]
    assert not await rig.bus.publish_durable(
        subject(tenant_id, event.type), b"a copy", dedupe_id=f"{tenant_id}:{event.seq}"
    )


async def test_what_was_moved_but_not_published_goes_out_later(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    listener = await rig.listen(tenant_id)
    async with rig.relaying(StuckBus(rig.bus)):
        await rig.announce(tenant_id, *[started() for _ in range(30)])
        await rig.moved(tenant_id, 30)
    assert listener.heard == []
    assert await rig.unpublished() == 30
    async with rig.relaying():
        await rig.announce(tenant_id, started())
        await listener.until(31)
    assert listener.seqs == gapless(31)


async def test_a_faltering_bus_delays_but_loses_nothing(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    async with rig.relaying(FalteringBus(rig.bus, seed=7)):
        await rig.announce(tenant_id, *[started() for _ in range(30)])
        await rig.all_published()
    assert sorted(event.seq for event in await stored(rig.bus, tenant_id)) == gapless(30)
    assert [row["seq"] for row in await rig.history(tenant_id)] == gapless(30)


async def test_a_server_that_knows_no_batches_stores_each_event_once(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    async with rig.relaying(OldBus(rig.bus)):
        await rig.announce(tenant_id, *[started() for _ in range(30)])
        await rig.all_published()
    assert [event.seq for event in await stored(rig.bus, tenant_id)] == gapless(30)


async def test_two_relays_share_the_work_without_repeating_it(rig: Rig) -> None:
    tenants = [await rig.tenant() for _ in range(3)]
    listeners = [await rig.listen(tenant_id) for tenant_id in tenants]
    async with rig.relaying(rig.bus, rig.bus):
        for number in range(60):
            await rig.announce(tenants[number % 3], started(), started())
            if number == 30:
                # The one that leads goes; the other takes over while writers write.
                leading = await rig.led()
                await rig.superuser.execute("select pg_terminate_backend($1)", leading)
        for listener in listeners:
            await listener.until(40)
        await rig.all_published()
    for listener in listeners:
        assert [row["seq"] for row in await rig.history(listener.tenant_id)] == gapless(40)
        assert [event.seq for event in await stored(rig.bus, listener.tenant_id)] == gapless(40)
        ids = {event.seq: event.id for _, event in listener.heard}
        assert len(set(ids.values())) == 40


async def test_a_relay_that_loses_its_connection_goes_on(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    async with rig.relaying():
        for number in range(3):
            leading = await rig.led()
            await rig.superuser.execute("select pg_terminate_backend($1)", leading)
            await rig.announce(tenant_id, started())
            await rig.moved(tenant_id, number + 1)
        await rig.all_published()


async def test_a_cancelled_relay_lets_the_next_one_lead_at_once(rig: Rig) -> None:
    for _ in range(5):
        async with rig.relaying():
            await rig.led()
            await asyncio.sleep(random.uniform(0, 0.02))
        assert await rig.leader() is None


async def test_a_leader_that_does_not_move_is_replaced(
    rig: Rig, engines: Engines, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_STUCK_SECONDS", 0.3)
    monkeypatch.setattr(relay, "_STANDBY_SECONDS", 0.1)
    tenant_id = await rig.tenant()
    # Holds the lock and says nothing, like the connection of a process that was stopped.
    stopped = await asyncpg.connect(engines.dsn(PLATFORM_ROLE, database))
    await stopped.execute("select pg_advisory_lock($1)", RELAY_LOCK)
    async with rig.relaying():
        await rig.announce(tenant_id, started())
        await rig.all_published()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await stopped.execute("update relay_cursor set published = 0")


async def test_a_busy_leader_is_not_replaced(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_STUCK_SECONDS", 1.5)
    monkeypatch.setattr(relay, "_STANDBY_SECONDS", 0.05)
    async with rig.relaying():
        leading = await rig.led()
        async with rig.relaying():
            await asyncio.sleep(2.5)
            assert await rig.leader() == leading


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_history_is_exactly_what_was_committed(rig: Rig, seed: int) -> None:
    tenants = [await rig.tenant() for _ in range(4)]
    committed: dict[UUID, list[list[str]]] = defaultdict(list)
    dice = random.Random(seed)
    outbox = Outbox(relay_waker(rig.bus))

    async def write(choices: random.Random) -> None:
        for _ in range(15):
            tenant_id = choices.choice(tenants)
            events = [started() for _ in range(choices.randint(1, 4))]
            with suppress(RolledBack):
                async with rig.db.transaction(tenant_id=tenant_id) as tx:
                    for event in events:
                        await outbox.announce(tx, tenant_id, NOW, event)
                        await asyncio.sleep(choices.choice([0, 0, 0.002, 0.01]))
                    if choices.random() < 0.3:
                        raise RolledBack
                committed[tenant_id].append([str(event.session_id) for event in events])

    async with rig.relaying(rig.bus, rig.bus):
        await asyncio.gather(*(write(random.Random(dice.random())) for _ in range(8)))
        await rig.all_published()
    for tenant_id in tenants:
        rows = await rig.history(tenant_id)
        written = [msgspec.json.decode(row["data"])["session_id"] for row in rows]
        assert [row["seq"] for row in rows] == gapless(len(rows))
        assert sorted(written) == sorted(one for batch in committed[tenant_id] for one in batch)
        for batch in committed[tenant_id]:
            places = [written.index(one) for one in batch]
            assert places == sorted(places)
        assert [event.seq for event in await stored(rig.bus, tenant_id)] == gapless(len(rows))


async def test_events_of_one_thing_keep_the_order_of_its_changes(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    outbox = Outbox(relay_waker(rig.bus))

    async def change() -> None:
        for _ in range(10):
            async with rig.db.transaction(tenant_id=tenant_id) as tx:
                name = await tx.value(
                    """update tenants set name = (coalesce(nullif(name, 'T'), '0')::int + 1)::text
                       where id = $1 returning name""",
                    tenant_id,
                )
                await asyncio.sleep(random.uniform(0, 0.004))
                await outbox.announce(tx, tenant_id, NOW, TenantUpdated(changed=[name]))

    async with rig.relaying(rig.bus, rig.bus):
        await asyncio.gather(*(change() for _ in range(5)))
        await rig.all_published()
    rows = await rig.history(tenant_id)
    changes = [msgspec.json.decode(row["data"])["changed"][0] for row in rows]
    assert changes == [str(number) for number in gapless(50)]


async def test_events_wait_while_the_bus_is_down(
    rig: Rig, engines: Engines, data_dir: Path
) -> None:
    tenant_id = await rig.tenant()
    nats = EmbeddedNats(
        data_dir, engines.authority, account=engine_account(), on_notice=lambda _: None
    )
    await nats.start()
    bus = await Bus.connect(nats.url, engines.authority.platform_credentials(), name="test")
    try:
        await bus.ensure_events_stream(subject_roots())
        listener = await rig.listen(tenant_id, bus)
        async with rig.relaying(bus):
            await rig.announce(tenant_id, *[started() for _ in range(5)])
            await listener.until(5)
            await nats.stop()
            await until(lambda: not bus.is_connected)
            for _ in range(10):
                await rig.announce(tenant_id, started())
            # History goes on; only the bus waits.
            await rig.moved(tenant_id, 15)
            assert await rig.unpublished() == 10
            await nats.start()
            await listener.until(15)
            await rig.all_published()
        assert sorted(set(listener.seqs)) == gapless(15)
        assert [event.seq for event in await stored(bus, tenant_id)] == gapless(15)
    finally:
        await bus.close()
        await nats.stop()


async def test_a_bus_that_lost_its_disk_is_set_up_again(
    rig: Rig, engines: Engines, data_dir: Path
) -> None:
    tenant_id = await rig.tenant()
    nats = EmbeddedNats(
        data_dir, engines.authority, account=engine_account(), on_notice=lambda _: None
    )
    await nats.start()
    bus = await Bus.connect(nats.url, engines.authority.platform_credentials(), name="test")
    try:
        await bus.ensure_events_stream(subject_roots())
        async with rig.relaying(bus):
            await rig.announce(tenant_id, started())
            await rig.all_published()
            await nats.stop()
            shutil.rmtree(data_dir / "nats" / "jetstream")
            await nats.start()
            await rig.announce(tenant_id, started())
            await rig.all_published()
        assert [event.seq for event in await stored(bus, tenant_id)] == [2]
    finally:
        await bus.close()
        await nats.stop()


async def test_an_event_too_large_for_the_bus_holds_nobody_up(rig: Rig) -> None:
    large, other = await rig.tenant(), await rig.tenant()
    listener = await rig.listen(large)
    async with rig.relaying():
        await rig.announce(large, started())
        await rig.announce(
            large, SessionCompleted(session_id=uuid7(), result={"text": "x" * MAX_PAYLOAD})
        )
        await rig.announce(large, started())
        await rig.announce(other, started())
        await rig.all_published()
        await listener.until(2)
    assert listener.seqs == [1, 3]
    assert [row["seq"] for row in await rig.history(large)] == gapless(3)
    assert [row["seq"] for row in await rig.history(other)] == gapless(1)


async def test_a_large_backlog_goes_out_in_batches(rig: Rig) -> None:
    one, other = await rig.tenant(), await rig.tenant()
    await rig.superuser.execute(
        """insert into outbox (tenant_id, id, type, data, at)
           select case when n % 5 = 0 then $1::uuid else $2::uuid end, gen_random_uuid(),
                  'session.started', jsonb_build_object('session_id', gen_random_uuid(), 'n', n), now()
           from generate_series(1, 5000) n""",
        other,
        one,
    )
    counting = CountingBus(rig.bus)
    async with rig.relaying(counting):
        await rig.all_published()
    assert counting.most == BATCH
    for tenant_id, count in ((one, 4000), (other, 1000)):
        rows = await rig.history(tenant_id)
        assert [row["seq"] for row in rows] == gapless(count)
        numbers = [msgspec.json.decode(row["data"])["n"] for row in rows]
        assert numbers == sorted(numbers)
        assert [event.seq for event in await stored(rig.bus, tenant_id)] == gapless(count)


def test_every_specified_type_has_a_contract() -> None:
    assert [name for name in SPECIFIED if name not in EVENT_TYPES] == []


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
def test_every_type_has_a_subject_the_bus_keeps(name: str) -> None:
    tenant_id = uuid7()
    root, _, rest = name.partition(".")
    # What teams say to their agents is below `team`, and must not be kept.
    root = "teams" if root == "team" else root
    assert subject(tenant_id, name) == f"tenant.{tenant_id}.{root}.{rest}"
    assert root in subject_roots()
    # `tenant.*.{root}.>` needs a word after the root.
    assert name.count(".") >= 1


async def test_every_type_comes_back_as_it_was_announced(rig: Rig) -> None:
    tenant_id = await rig.tenant()
    listener = await rig.listen(tenant_id)
    events = [_example(EVENT_TYPES[name]) for name in sorted(EVENT_TYPES)]
    async with rig.relaying():
        await rig.announce(tenant_id, *events)
        await listener.until(len(events))
        await rig.all_published()
    received = [
        msgspec.json.decode(envelope.data, type=EVENT_TYPES[envelope.type], strict=True)
        for _, envelope in listener.heard
    ]
    assert received == events
    assert [name for name, _ in listener.heard] == [
        subject(tenant_id, name) for name in sorted(EVENT_TYPES)
    ]
    assert {envelope.type for envelope in await stored(rig.bus, tenant_id)} == set(EVENT_TYPES)


def _example(kind: type[Event]) -> Event:
    return kind(**{item.name: EXAMPLES[item.type] for item in msgspec.structs.fields(kind)})
