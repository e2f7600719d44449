"""The event socket, through a real server."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import timedelta

import msgspec
import pytest
from tests.gateway.events.conftest import Rig
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentos.gateway.authentication import Authenticator, Identity
from agentos.gateway.events.history import History
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database, DatabaseUnavailable
from agentos.kernel.ids import TenantId
from agentos.tenancy.principals import Scope


async def _closed(rig: Rig, credential: str, query: str = "") -> int:
    """The status a handshake is refused with."""
    with pytest.raises(InvalidStatus) as refused:
        async with rig.listen(credential, query):
            pass
    return refused.value.response.status_code


async def test_events_arrive_as_they_happen(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 3)
    async with rig.listen(await rig.key(tenant)) as client:
        assert await client.live() == {"type": "stream.live", "after": 3}
        sent = await rig.relay.announce(tenant)
        received = await client.next()
    assert received == msgspec.json.decode(msgspec.json.encode(sent[0]))


async def test_history_comes_before_what_happens_now(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.announce(tenant, 1200)
    async with rig.listen(await rig.key(tenant), "?after=100") as client:
        publishing = asyncio.create_task(_publish(rig, tenant, 300))
        assert await client.seqs(1400) == list(range(101, 1501))
        await publishing
    assert [control["type"] for control in client.controls] == ["stream.live"]


async def _publish(rig: Rig, tenant: TenantId, count: int) -> None:
    for _ in range(count):
        await rig.relay.announce(tenant)


async def test_a_second_client_resumes_from_memory(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.listen(key) as first:
        await first.live()
        await rig.relay.announce(tenant, 20)
        await first.seqs(20)
        await rig.forget_before(tenant, 21)
        async with rig.listen(key, "?after=5") as second:
            assert await second.seqs(15) == list(range(6, 21))
            assert second.controls == [{"type": "stream.live", "after": 5}]


async def test_pending_events_share_a_message(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.listen(await rig.key(tenant)) as client:
        await client.live()
        await rig.relay.announce(tenant, 500)
        assert await client.seqs(500) == list(range(1, 501))
        assert client.messages < 100


async def test_lost_repeated_and_reordered_messages(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.listen(await rig.key(tenant)) as client:
        await client.live()
        a, b, c, d, e, f = await rig.relay.record(tenant, 6)
        await rig.relay.publish(a, a, c, b, d, b, d)
        assert await client.seqs(4) == [1, 2, 3, 4]
        await rig.relay.publish(f)  # e is lost: history has it
        assert await client.seqs(2) == [5, 6]
        await rig.relay.publish(e, f)
        await rig.relay.record(tenant, 3)  # all lost, and nothing follows that would show it
        assert await client.seqs(3) == [7, 8, 9]
        await rig.relay.announce(tenant)
        assert await client.seqs(1) == [10]


async def test_what_is_not_an_event_is_ignored(rig: Rig, bus: Bus) -> None:
    tenant = await rig.tenant()
    async with rig.listen(await rig.key(tenant)) as client:
        await client.live()
        await bus.publish(f"tenant.{tenant}.session.started", b"not json")
        await bus.publish(f"tenant.{tenant}.team.chat.x", b'{"seq":1,"type":"team.chat"}')
        await rig.relay.announce(tenant)
        assert (await client.next())["type"] == "session.started"


@pytest.mark.parametrize("seed", range(3))
async def test_each_event_once_and_in_order_whatever_happens(rig: Rig, seed: int) -> None:
    """A bus that loses, repeats and reorders; clients that come and go; several event roots."""
    chance = random.Random(seed)
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    total = 600
    kinds: dict[int, str] = {}

    async def publish() -> None:
        while len(kinds) < total:
            count = min(chance.choice((1, 1, 2, 5, 40)), total - len(kinds))
            kind = chance.choice(("session.started", "session.progress", "member.joined"))
            events = await rig.relay.record(tenant, count, kind)
            kinds.update({event.seq: event.type for event in events})
            delivered = [event for event in events if chance.random() > 0.1]
            delivered += [event for event in events if chance.random() < 0.1]
            if chance.random() < 0.3:
                chance.shuffle(delivered)
            await rig.relay.publish(*delivered)
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.01)))

    async def follow(types: str, stop_at: int) -> list[int]:
        seen: list[int] = []
        after = 0
        while after < stop_at:
            async with rig.listen(key, f"?after={after}{types}") as client:
                for _ in range(chance.randrange(1, 120)):
                    try:
                        event = await client.next(within=3)
                    except TimeoutError:
                        break
                    after = event["seq"]
                    seen.append(after)
                    if after >= stop_at:
                        break
                if chance.random() < 0.5:
                    client.socket.transport.abort()
            if len(kinds) >= total and types:
                wanted = [seq for seq, kind in kinds.items() if kind.startswith("session.")]
                stop_at = max(wanted)
        return seen

    publishing = asyncio.create_task(publish())
    everything = [asyncio.create_task(follow("", total)) for _ in range(4)]
    sessions = asyncio.create_task(follow("&types=session.*", total))
    await publishing
    for following in everything:
        assert await following == list(range(1, total + 1))
    assert await sessions == [s for s in sorted(kinds) if kinds[s].startswith("session.")]


async def test_only_the_wanted_types(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    for kind in ("session.started", "member.joined", "member.invited", "member.joined"):
        await rig.relay.announce(tenant, 1, kind)
    async with rig.listen(key, "?after=0&types=session.*,member.invited") as client:
        assert await client.seqs(2) == [1, 3]
        assert await client.live() == {"type": "stream.live", "after": 4}
        await rig.relay.announce(tenant, 1, "member.joined")
        await rig.relay.announce(tenant, 1, "session.failed")
        assert await client.seqs(1) == [6]


@pytest.mark.parametrize(
    "query",
    [
        "?types=nothing.*",
        "?types=",
        "?types=*",
        "?types=session.",
        "?after=-1",
        "?after=x",
        "?after=",
    ],
)
async def test_a_wrong_query_is_refused(rig: Rig, query: str) -> None:
    tenant = await rig.tenant()
    assert await _closed(rig, await rig.key(tenant), query) == 422


async def test_another_tenants_events_never_arrive(rig: Rig) -> None:
    mine, theirs = await rig.tenant(), await rig.tenant()
    async with (
        rig.listen(await rig.key(mine), "?after=0") as me,
        rig.listen(await rig.key(theirs), "?after=0") as them,
    ):
        await me.live()
        await them.live()
        await rig.relay.announce(theirs, 5)
        await rig.relay.announce(mine, 2)
        await rig.relay.record(theirs, 5)
        assert await them.seqs(10) == list(range(1, 11))
        received = [await me.next() for _ in range(2)]
        assert {event["tenant_id"] for event in received} == {str(mine)}
        with pytest.raises(TimeoutError):
            await me.next(within=0.7)


async def test_history_that_is_gone_is_announced(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    await rig.relay.record(tenant, 10)
    await rig.forget_before(tenant, 8)
    async with rig.listen(key, "?after=2") as client:
        assert await client.seqs(3) == [8, 9, 10]
        assert client.controls[0] == {"type": "history.truncated", "oldest": 8}
    async with rig.listen(key, "?after=7") as client:
        assert await client.seqs(3) == [8, 9, 10]
        assert client.controls == []


async def test_a_place_that_never_was(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 2)
    async with rig.listen(await rig.key(tenant), "?after=999") as client:
        await client.live()
        await rig.relay.announce(tenant)
        assert await client.seqs(1) == [3]
    assert client.controls[0] == {"type": "history.truncated", "oldest": 3}


async def test_ping(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.listen(await rig.key(tenant)) as client:
        await client.live()
        await client.socket.send("what is this?")
        await client.socket.send(b"\x00")
        await client.socket.send("ping")
        assert await client.socket.recv() == "pong"


# Who gets in


async def test_without_a_credential(rig: Rig) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with rig.listen(None):
            pass
    response = refused.value.response
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert msgspec.json.decode(response.body or b"")["code"] == "unauthenticated"


async def test_wrong_credentials(rig: Rig) -> None:
    tenant = await rig.tenant()
    assert await _closed(rig, "nonsense") == 401
    assert await _closed(rig, await rig.key(tenant, Scope.AUDIT_READ)) == 403
    await rig.key(tenant)
    await rig.revoke(tenant)
    assert await _closed(rig, await rig.key(tenant) + "0") == 401


async def test_a_ticket_works_once(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant)) as http:
        answer = await http.post("/api/events/ticket")
    assert answer.status_code == 201
    ticket = answer.json()["ticket"]
    async with rig.listen(None, f"?ticket={ticket}") as client:
        await client.live()
        await rig.relay.announce(tenant)
        assert await client.seqs(1) == [1]
    with pytest.raises(InvalidStatus, match="401"):
        async with rig.listen(None, f"?ticket={ticket}"):
            pass


async def test_one_ticket_used_twice_at_once_admits_one(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant)) as http:
        ticket = (await http.post("/api/events/ticket")).json()["ticket"]

    async def use() -> bool:
        try:
            async with rig.listen(None, f"?ticket={ticket}"):
                return True
        except InvalidStatus:
            return False

    assert sorted(await asyncio.gather(*(use() for _ in range(8)))) == [False] * 7 + [True]


async def test_a_ticket_expires(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant)) as http:
        ticket = (await http.post("/api/events/ticket")).json()["ticket"]
    rig.clock.advance(timedelta(seconds=31))
    with pytest.raises(InvalidStatus, match="401"):
        async with rig.listen(None, f"?ticket={ticket}"):
            pass


async def test_a_ticket_is_worth_no_more_than_its_credential(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.http(key) as http:
        late = (await http.post("/api/events/ticket")).json()["ticket"]
        ticket = (await http.post("/api/events/ticket")).json()["ticket"]
    async with rig.listen(None, f"?ticket={ticket}") as client:
        await client.live()
        await rig.revoke(tenant)
        with pytest.raises(ConnectionClosed):
            await client.next(within=4)
        assert client.socket.close_code == 4401
    with pytest.raises(InvalidStatus, match="401"):
        async with rig.listen(None, f"?ticket={late}"):
            pass


async def test_a_stored_ticket_does_not_hold_its_credential(
    rig: Rig, platform_db: Database
) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.http(key) as http:
        ticket = (await http.post("/api/events/ticket")).json()["ticket"]
    async with platform_db.transaction() as tx:
        row = await tx.value("select row_to_json(t)::text from socket_tickets t")
    assert key not in row
    assert key.encode().hex() not in row
    assert ticket not in row


async def test_tickets_need_the_scope(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant, Scope.AUDIT_READ)) as http:
        assert (await http.post("/api/events/ticket")).status_code == 403


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        ("https://evil.example", False),
        ("null", False),
        (None, False),
        ("https://app.example", True),
        ("own", True),
    ],
)
async def test_a_cookie_works_only_on_our_own_pages(
    rig: Rig, origin: str | None, admitted: bool
) -> None:
    tenant = await rig.tenant()
    cookie = f"other=1; agentos_access={await rig.key(tenant)}"
    if origin == "own":
        origin = rig.url
    opening = rig.listen(None, headers={"Cookie": cookie}, origin=origin)
    if admitted:
        async with opening as client:
            await client.live()
    else:
        with pytest.raises(InvalidStatus, match="401"):
            async with opening:
                pass


async def test_a_revoked_key_closes_its_sockets_and_no_others(rig: Rig) -> None:
    revoked, other = await rig.tenant(), await rig.tenant()
    async with (
        rig.listen(await rig.key(revoked)) as client,
        rig.listen(await rig.key(other)) as bystander,
    ):
        await client.live()
        await bystander.live()
        await rig.revoke(revoked)
        started = asyncio.get_running_loop().time()
        with pytest.raises(ConnectionClosed):
            await client.next()
        assert client.socket.close_code == 4401
        assert asyncio.get_running_loop().time() - started < 2.5
        await rig.relay.announce(other)
        assert await bystander.seqs(1) == [1]


async def test_an_expired_token_closes_the_socket(rig: Rig) -> None:
    tenant = await rig.tenant()
    token = rig.tokens.service(
        tenant, "worker", frozenset({Scope.EVENTS_READ}), timedelta(seconds=60)
    )
    async with rig.listen(token) as client:
        await client.live()
        rig.clock.advance(timedelta(seconds=61))
        with pytest.raises(ConnectionClosed):
            await client.next()
        assert client.socket.close_code == 4401


async def test_a_restart_is_announced(rig: Rig) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    async with rig.listen(key) as client:
        await client.live()
        await rig.streams.close()
        with pytest.raises(ConnectionClosed):
            await client.next()
        assert client.socket.close_code == 1012
    assert await _closed(rig, key) == 503


async def test_history_that_cannot_be_read_ends_the_stream(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 3)

    async def unavailable(*_: object) -> None:
        raise DatabaseUnavailable()

    monkeypatch.setattr(History, "page", unavailable)
    async with rig.listen(await rig.key(tenant), "?after=1") as client:
        with pytest.raises(ConnectionClosed):
            await client.next()
        assert client.socket.close_code == 1013
        assert client.socket.close_reason == (
            "history is not available right now: reconnect with ?after=1"
        )


async def test_a_look_serves_all_sockets_of_a_credential(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    looks: list[str] = []
    identify = Authenticator.identify

    async def counted(self: Authenticator, credential: str) -> Identity:
        looks.append(credential)
        return await identify(self, credential)

    async with AsyncExitStack() as stack:
        for _ in range(10):
            await (await stack.enter_async_context(rig.listen(key))).live()
        monkeypatch.setattr(Authenticator, "identify", counted)
        await asyncio.sleep(2.2)
    assert 1 <= len(looks) <= 7
