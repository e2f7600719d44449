"""The bus wrapper against a real nats-server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentos.kernel.bus import (
    EVENTS_STREAM,
    Bus,
    Durable,
    Message,
    MessageTooLarge,
    assert_sync_always,
    push_revocations,
)
from agentos.kernel.bus_credentials import MAX_PAYLOAD, BusAuthority, BusCredentials
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.errors import Invalid, SetupError, Unavailable

AUTHORITY = BusAuthority(b"b" * 32)
PLATFORM = AUTHORITY.platform_credentials()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def server(data_dir: Path) -> AsyncIterator[EmbeddedNats]:
    embedded = EmbeddedNats(data_dir, AUTHORITY, account=engine_account(), on_notice=lambda _: None)
    await embedded.start()
    yield embedded
    await embedded.stop()


class States:
    """What `on_state` heard, and a way to wait for the next one of a kind."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, state: str) -> None:
        self.heard.append(state)
        self._queue.put_nowait(state)

    async def wait(self, state: str, timeout: float = 10) -> None:
        async with asyncio.timeout(timeout):
            while await self._queue.get() != state:
                pass


@pytest.fixture
def states() -> States:
    return States()


@pytest.fixture
async def bus(server: EmbeddedNats, states: States) -> AsyncIterator[Bus]:
    connected = await Bus.connect(server.url, PLATFORM, name="test", on_state=states)
    yield connected
    await connected.close()


async def stored(bus: Bus) -> int:
    info = await bus._jetstream.stream_info(EVENTS_STREAM)
    return info.state.messages


async def test_what_is_handed_needs_no_server_if_its_listener_is_here(
    server: EmbeddedNats,
) -> None:
    here = await Bus.connect(server.url, PLATFORM, name="here")
    elsewhere = await Bus.connect(server.url, PLATFORM, name="elsewhere")
    heard: list[bytes] = []
    arrived = asyncio.Event()

    async def hear(message: Message) -> None:
        heard.append(message.data)
        arrived.set()

    subscription = await here.subscribe("platform.crews.handed.one", hear)
    await here.flush()
    await here.hand("platform.crews.handed.one", b"directly")
    assert heard == [b"directly"], "it was there when the call returned"
    arrived.clear()
    await elsewhere.hand("platform.crews.handed.one", b"over the server")
    async with asyncio.timeout(30):
        await arrived.wait()
    assert heard == [b"directly", b"over the server"]
    await subscription.unsubscribe()
    await here.hand("platform.crews.handed.one", b"nobody listens")
    await here.flush()
    assert len(heard) == 2
    await here.close()
    await elsewhere.close()


async def test_messages_arrive_with_headers_and_in_order(bus: Bus) -> None:
    got: asyncio.Queue[Message] = asyncio.Queue()
    subscription = await bus.subscribe("tenant.t1.team.red.>", got.put)
    for n in range(10):
        await bus.publish("tenant.t1.team.red.chat", b"%d" % n, {"Trace": "abc"})
    messages = [await asyncio.wait_for(got.get(), 2) for _ in range(10)]
    assert [int(m.data) for m in messages] == list(range(10))
    assert messages[0].headers == {"Trace": "abc"}
    await subscription.unsubscribe()
    await bus.publish("tenant.t1.team.red.chat", b"late")
    await bus.flush()
    assert got.empty()


async def test_a_failing_handler_does_not_end_the_subscription(bus: Bus) -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: Message) -> None:
        if message.data == b"bad":
            raise RuntimeError("handler")
        await got.put(message.data)

    await bus.subscribe("a.b", handle)
    await bus.publish("a.b", b"bad")
    await bus.publish("a.b", b"good")
    assert await asyncio.wait_for(got.get(), 2) == b"good"


async def test_a_queue_shares_the_work(server: EmbeddedNats, bus: Bus) -> None:
    other = await Bus.connect(server.url, PLATFORM, name="other")
    seen: list[bytes] = []

    async def handle(message: Message) -> None:
        seen.append(message.data)

    for member in (bus, other):
        await member.subscribe("work.>", handle, queue="workers")
        await member.flush()
    for n in range(20):
        await bus.publish("work.item", b"%d" % n)
    await bus.flush()
    await other.flush()
    await asyncio.sleep(0.05)
    assert sorted(map(int, seen)) == list(range(20))
    await other.close()


async def test_durable_publishes_run_concurrently_and_dedupe(bus: Bus) -> None:
    await bus.ensure_events_stream(["session", "member"])
    jobs = [
        bus.publish_durable("tenant.t1.session.created", b"x", dedupe_id=f"id-{n % 500}")
        for n in range(1000)
    ]
    new = await asyncio.gather(*jobs)
    assert new.count(True) == 500
    assert await stored(bus) == 500


def batch(name: str, size: int = 200) -> list[Durable]:
    return [Durable("tenant.t1.session.created", b"x", f"{name}-{n}") for n in range(size)]


async def test_a_batch_is_stored_whole_or_not_at_all(bus: Bus) -> None:
    await bus.ensure_events_stream(["session"])
    assert await bus.publish_together(batch("one"), batch_id="1")
    assert await stored(bus) == 200
    # One of these is there already.
    repeated = [*batch("two", 100), *batch("one", 1), *batch("three", 100)]
    assert not await bus.publish_together(repeated, batch_id="2")
    assert await stored(bus) == 200


async def test_a_batch_can_be_cancelled_at_any_moment(bus: Bus) -> None:
    await bus.ensure_events_stream(["session"])
    for number in range(20):
        sending = asyncio.create_task(
            bus.publish_together(batch(f"{number}"), batch_id=f"{number}")
        )
        await asyncio.sleep(number / 5000)
        if sending.cancel():
            await asyncio.wait({sending}, timeout=10)
            assert sending.cancelled()


async def test_team_chat_is_not_stored(bus: Bus) -> None:
    await bus.ensure_events_stream(["session", "member"])
    await bus.publish("tenant.t1.team.red.chat", b"x")
    await bus.publish("tenant.t1.team.session.created", b"x")
    with pytest.raises(Unavailable):
        await bus.publish_durable("tenant.t1.team.red.chat", b"x", dedupe_id="1", timeout=1)
    await bus.publish_durable("tenant.t1.member.invited", b"x", dedupe_id="2")
    assert await stored(bus) == 1


@pytest.mark.parametrize("prefix", ["team", "*", ">", "", "a.b", "Team", "a b"])
async def test_a_prefix_cannot_capture_team_chat(bus: Bus, prefix: str) -> None:
    with pytest.raises(Invalid):
        await bus.ensure_events_stream(["session", prefix])


async def test_the_events_stream_is_brought_up_to_date(bus: Bus) -> None:
    for prefixes in (["session"], ["session"], ["member", "session"]):
        await bus.ensure_events_stream(prefixes)
        await bus.publish_durable("tenant.t1.session.created", b"x", dedupe_id=str(prefixes))
    info = await bus._jetstream.stream_info(EVENTS_STREAM)
    assert info.config.subjects == ["tenant.*.member.>", "tenant.*.session.>"]
    assert (info.config.max_age, info.config.max_bytes) == (86_400, 1024**3)
    assert info.config.duplicate_window == 120
    assert info.state.messages == 2  # two spellings of the prefixes, the repeated one once


async def test_an_oversized_message_is_refused_here(bus: Bus) -> None:
    with pytest.raises(MessageTooLarge):
        await bus.publish("a.b", b"x" * (MAX_PAYLOAD + 1))
    await bus.flush()


async def test_an_invalid_subject_is_refused_here(bus: Bus) -> None:
    for subject in ("", "a b", "a\r\nPUB b 0"):
        with pytest.raises(Invalid):
            await bus.publish(subject, b"x")


async def test_answers_stay_in_the_team_that_asked(bus: Bus) -> None:
    got: asyncio.Queue[Message] = asyncio.Queue()
    await bus.subscribe("_INBOX_t1_red.>", got.put)
    asked = "tenant.t1.team.red.ask"
    await bus.respond(Message(asked, b"?", "_INBOX_t1_red.x"), b"yes")
    assert (await asyncio.wait_for(got.get(), 2)).data == b"yes"
    for reply in (
        "",
        "_INBOX_t1_blue.x",
        "_INBOX_t1_redder.x",
        "tenant.t1.team.blue.chat",
        "tenant.t2.team.red.chat",
        "$JS.API.STREAM.DELETE.EVENTS",
        "tenant.t1.session.created",
    ):
        with pytest.raises(Invalid):
            await bus.respond(Message(asked, b"?", reply), b"no")


async def test_reconnects_after_kill_9_and_loses_nothing_acknowledged(
    server: EmbeddedNats, bus: Bus, states: States
) -> None:
    await bus.ensure_events_stream(["session"])
    got: asyncio.Queue[Message] = asyncio.Queue()
    await bus.subscribe("after.>", got.put)
    acknowledged: list[str] = []
    # Not cancelled: nats-py may swallow that while it flushes.
    enough = asyncio.Event()

    async def load(worker: int) -> None:
        n = 0
        while not enough.is_set():
            key = f"{worker}-{n}"
            try:
                await bus.publish_durable(
                    "tenant.t1.session.created", key.encode(), dedupe_id=key, timeout=2
                )
            except Unavailable:
                continue  # repeat the same id, as the outbox does
            acknowledged.append(key)
            n += 1

    workers = [asyncio.create_task(load(w)) for w in range(20)]
    for _ in range(2):
        await asyncio.sleep(0.3)
        pid = server.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await states.wait("disconnected")
        await states.wait("connected")
    before = len(acknowledged)
    async with asyncio.timeout(10):
        while len(acknowledged) <= before:  # noqa: ASYNC110 - the workers have no event to wait on
            await asyncio.sleep(0.05)
    enough.set()
    await asyncio.wait(workers)
    messages = set()
    last = (await bus._jetstream.stream_info(EVENTS_STREAM)).state.last_seq
    for seq in range(1, last + 1):
        raw = await bus._jetstream.get_msg(EVENTS_STREAM, seq)
        assert raw.data is not None
        key = raw.data.decode()
        assert key not in messages, "stored twice"
        messages.add(key)
    assert acknowledged
    assert set(acknowledged) <= messages
    await bus.publish("after.restart", b"x")
    assert (await asyncio.wait_for(got.get(), 5)).subject == "after.restart"


async def test_connect_retries_until_the_server_is_there(data_dir: Path) -> None:
    embedded = EmbeddedNats(data_dir, AUTHORITY, account=engine_account(), on_notice=lambda _: None)
    await embedded.start()
    await embedded.stop()
    connecting = asyncio.create_task(Bus.connect(embedded.url, PLATFORM, name="early"))
    await asyncio.sleep(0.5)
    await embedded.start()
    bus = await connecting
    assert bus.is_connected
    await bus.drain()
    assert bus.is_closed
    await embedded.stop()


async def test_connect_gives_up_at_the_deadline() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port in (silent.getsockname()[1], 1):
            began = time.monotonic()
            with pytest.raises(Unavailable) as caught:
                await Bus.connect(
                    f"nats://u:hunter2@127.0.0.1:{port}", PLATFORM, name="x", timeout=0.5
                )
            assert time.monotonic() - began < 2
            assert "hunter2" not in caught.value.message


async def test_a_cancelled_connect_leaves_nothing_behind() -> None:
    connecting = asyncio.create_task(Bus.connect("nats://127.0.0.1:1", PLATFORM, name="x"))
    await asyncio.sleep(0.1)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_stranger_is_refused(server: EmbeddedNats) -> None:
    stranger = BusAuthority(b"s" * 32).platform_credentials()
    with pytest.raises(Unavailable, match="Authorization Violation"):
        await Bus.connect(server.url, stranger, name="stranger", timeout=0.5)


async def test_a_connection_outlives_its_jwt_when_it_can_renew_it(
    server: EmbeddedNats, states: States
) -> None:
    def mint() -> BusCredentials:
        return AUTHORITY.team_credentials("t1", "red", timedelta(seconds=2))

    renewing = await Bus.connect(server.url, mint, name="renews", on_state=states)
    fixed_states = States()
    fixed = await Bus.connect(server.url, mint(), name="fixed", on_state=fixed_states)
    await fixed_states.wait("closed", 5)
    await states.wait("disconnected", 5)
    await states.wait("connected", 5)
    assert "closed" not in states.heard
    await renewing.flush()
    assert fixed.is_closed
    with pytest.raises(Unavailable):
        await fixed.publish("tenant.t1.team.red.chat", b"x")
    await renewing.close()


async def test_revocation_closes_for_good(server: EmbeddedNats, states: States) -> None:
    credentials = AUTHORITY.team_credentials("t1", "red", timedelta(hours=1))
    bus = await Bus.connect(server.url, credentials, name="t1", on_state=states)
    revocations = {AUTHORITY.team_public_key("t1", "red"): int(time.time())}
    system = await Bus.connect(server.url, AUTHORITY.system_credentials(), name="system")
    await push_revocations(system, AUTHORITY, revocations)
    await states.wait("closed", 1)
    assert bus.is_closed
    await system.close()


async def test_drain_and_close_are_harmless_twice(server: EmbeddedNats) -> None:
    bus = await Bus.connect(server.url, PLATFORM, name="x")
    await bus.drain()
    await bus.drain()
    await bus.close()
    assert not bus.is_connected


async def test_sync_always_is_asserted(server: EmbeddedNats, data_dir: Path) -> None:
    await assert_sync_always(server.monitor_url)
    binary = server.process.argv[0]
    jetstream = f'jetstream {{ store_dir: "{data_dir}/lazy" }}'
    for block, line in ((jetstream, "sync_interval: always"), ("", "jetstream {")):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = data_dir / "lazy.conf"
        config.write_text(f'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:{port}"\n{block}\n')
        lazy = subprocess.Popen([binary, "-c", str(config)], stderr=subprocess.DEVNULL)  # noqa: ASYNC220
        try:
            with pytest.raises(SetupError) as caught:
                await _once_up(f"http://127.0.0.1:{port}")
            assert caught.value.advice is not None
            assert line in caught.value.advice
        finally:
            lazy.terminate()
            lazy.wait()
    with pytest.raises(Unavailable):
        await assert_sync_always("http://127.0.0.1:1")


async def _once_up(url: str) -> None:
    for _ in range(100):
        try:
            return await assert_sync_always(url)
        except Unavailable:
            await asyncio.sleep(0.05)
    raise AssertionError("the server never answered")
