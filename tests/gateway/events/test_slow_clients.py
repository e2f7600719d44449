"""Slow clients are let go with a word, and nobody else notices."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.gateway.events.conftest import Rig
from websockets.exceptions import ConnectionClosed

from agentos.gateway.events.errors import RESTARTING, TOO_SLOW
from agentos.gateway.events.filters import EVERYTHING, parse_types
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.mailbox import Ended, Limits, Mailbox

_LARGE = 60_000
# More than a slow client and what lies between can hold, and told before its time to close is over.
_MANY = 200


@pytest.fixture
def limits() -> Limits:
    return Limits(events=40, bytes=2_000_000)


async def test_a_slow_socket_is_dropped_while_others_go_on(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with (
        rig.listen(key) as fast,
        rig.listen(key, max_queue=1, ping_interval=None, close_timeout=1) as slow,
    ):
        await fast.live()
        await slow.live()
        for seq in range(1, _MANY + 1):
            await rig.relay.announce(tenant, 1, size=_LARGE)
            assert await fast.seqs(1) == [seq]
        received: list[int] = []
        with suppress(ConnectionClosed):
            while True:
                received.append((await slow.next())["seq"])
        assert slow.socket.close_code == 4008
        reason = slow.socket.close_reason or ""
        assert reason == f"too slow: reconnect with ?after={received[-1]}"
        assert received == list(range(1, received[-1] + 1))
        assert received[-1] < _MANY
        async with rig.listen(key, f"?after={received[-1]}", close_timeout=1) as again:
            assert await again.seqs(3) == [received[-1] + n for n in (1, 2, 3)]


async def test_a_slow_stream_is_dropped_with_a_last_word(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port, limit=2**12)
    writer.write(
        f"GET /api/events/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"stream.live")
    assert b"200 OK" in head
    async with rig.listen(key) as fast:
        await fast.live()
        for seq in range(1, _MANY + 1):
            await rig.relay.announce(tenant, 1, size=_LARGE)
            assert await fast.seqs(1) == [seq]
    body = b""
    while not body.endswith(b"0\r\n\r\n"):
        chunk = await asyncio.wait_for(reader.read(2**16), 10)
        assert chunk, "the answer ends properly"
        body = body[-1000:] + chunk
    assert b"event: dropped\n" in body
    assert b'"reason":"too_slow"' in body
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_never_reads_again_is_forgotten(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port, limit=2**12)
    writer.write(
        f"GET /api/events/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"stream.live")
    await rig.relay.announce(tenant, 300, size=_LARGE)
    async with asyncio.timeout(10):
        while rig.hub.tenants():  # noqa: ASYNC110 - the hub has no event for this
            await asyncio.sleep(0.05)
    writer.transport.abort()


async def test_a_slow_client_in_history_is_not_hurried(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    await rig.relay.record(tenant, 200, size=_LARGE)
    async with rig.listen(key, "?after=0", max_queue=1, close_timeout=1) as client:
        await asyncio.sleep(0.5)
        assert await client.seqs(200) == list(range(1, 201))


# The mailbox alone


def _event(seq: int, event_type: str = "session.started", size: int = 10) -> Frame:
    return Frame(seq, event_type, b"x" * size)


async def test_everything_that_waits_is_taken_at_once() -> None:
    mailbox = Mailbox(EVERYTHING, Limits())
    for seq in (1, 2, 2, 1, 3):
        mailbox.offer(_event(seq))
    assert [frame.seq for frame in await mailbox.take(1)] == [1, 2, 3]
    assert await mailbox.take(0.01) == []


async def test_one_write_is_bounded_but_any_event_fits() -> None:
    mailbox = Mailbox(EVERYTHING, Limits(write_bytes=25))
    for seq, size in enumerate((10, 10, 10, 100, 10), start=1):
        mailbox.offer(_event(seq, size=size))
    writes = [[frame.seq for frame in await mailbox.take(1)] for _ in range(4)]
    assert writes == [[1, 2], [3], [4], [5]]


@pytest.mark.parametrize("limits", [Limits(events=2), Limits(bytes=25)])
async def test_what_does_not_fit_ends_it(limits: Limits) -> None:
    mailbox = Mailbox(EVERYTHING, limits)
    interrupted: list[bool] = []
    mailbox.when_ended(lambda: interrupted.append(True))
    for seq in (1, 2, 3):
        mailbox.offer(_event(seq))
    assert interrupted == [True]
    assert len(mailbox) == 0
    mailbox.end(RESTARTING)
    with pytest.raises(Ended) as ended:
        await mailbox.take(1)
    assert ended.value.ending is TOO_SLOW


async def test_unwanted_events_take_no_place() -> None:
    mailbox = Mailbox(parse_types("member.*"), Limits(events=1))
    mailbox.offer(_event(1))
    mailbox.offer(_event(2, "member.joined"))
    mailbox.offer(_event(3))
    assert [frame.seq for frame in await mailbox.take(1)] == [2]
    assert mailbox.after == 3
