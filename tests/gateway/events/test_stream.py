"""Server-sent events and the pages of history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from tests.gateway.events.conftest import Rig

from agentos.gateway.events import stream
from agentos.tenancy.principals import Scope

Block = dict[str, str]


@asynccontextmanager
async def _streaming(
    rig: Rig, credential: str, query: str = "", **headers: str
) -> AsyncIterator[AsyncIterator[Block]]:
    async with (
        rig.http(credential) as http,
        http.stream("GET", f"/api/events/stream{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        blocks = _blocks(answer)
        assert await anext(blocks) == {"retry": "1000"}
        yield blocks
        await blocks.aclose()


async def _blocks(answer: httpx.Response) -> Any:
    block: Block = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            block[name] = value.strip()
        else:
            yield block
            block = {}


async def test_events_as_server_sent_events(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 2)
    async with _streaming(rig, await rig.key(tenant)) as blocks:
        assert await anext(blocks) == {
            "id": "2",
            "event": "stream.live",
            "data": '{"type":"stream.live","after":2}',
        }
        (sent,) = await rig.relay.announce(tenant)
        assert await anext(blocks) == {
            "id": "3",
            "event": "session.started",
            "data": msgspec.json.encode(sent).decode(),
        }


async def test_last_event_id_goes_before_after(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 5)
    headers = {"Last-Event-ID": "3"}
    async with _streaming(rig, await rig.key(tenant), "?after=1", **headers) as blocks:
        assert [(await anext(blocks))["id"] for _ in range(2)] == ["4", "5"]
        assert (await anext(blocks))["event"] == "stream.live"
        await rig.relay.announce(tenant)
        assert (await anext(blocks))["id"] == "6"


async def test_after_and_types(rig: Rig) -> None:
    tenant = await rig.tenant()
    for kind in ("session.started", "member.joined", "session.failed"):
        await rig.relay.record(tenant, 1, kind)
    async with _streaming(rig, await rig.key(tenant), "?after=0&types=session.*") as blocks:
        assert [(await anext(blocks))["id"] for _ in range(2)] == ["1", "3"]


async def test_a_quiet_stream_shows_that_it_lives(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_HEARTBEAT_SECONDS", 0.05)
    tenant = await rig.tenant()
    async with _streaming(rig, await rig.key(tenant)) as blocks:
        await anext(blocks)
        assert await anext(blocks) == {"": ""}


async def test_a_revoked_key_ends_the_stream(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with _streaming(rig, await rig.key(tenant)) as blocks:
        await anext(blocks)
        await rig.revoke(tenant)
        last = await asyncio.wait_for(anext(blocks), 4)
        assert last["event"] == "dropped"
        assert msgspec.json.decode(last["data"])["reason"] == "token_invalid"
        with pytest.raises(StopAsyncIteration):
            await anext(blocks)


async def test_a_restart_ends_the_stream(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with _streaming(rig, await rig.key(tenant)) as blocks:
        await anext(blocks)
        await rig.streams.close()
        assert msgspec.json.decode((await anext(blocks))["data"]) == {
            "type": "stream.dropped",
            "reason": "restart",
            "after": 0,
        }


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?after=-1", {}, 422),
        ("?types=nope", {}, 422),
        ("", {"Last-Event-ID": "x"}, 422),
    ],
)
async def test_a_wrong_request_is_refused(
    rig: Rig, query: str, headers: dict[str, str], status: int
) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant)) as http:
        answer = await http.get(f"/api/events/stream{query}", headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_the_scope_is_needed(rig: Rig) -> None:
    tenant = await rig.tenant()
    async with rig.http(await rig.key(tenant, Scope.AUDIT_READ)) as http:
        assert (await http.get("/api/events/stream")).status_code == 403
        assert (await http.get("/api/events")).status_code == 403


# Pages of history


async def test_pages_of_history(rig: Rig) -> None:
    tenant, other = await rig.tenant(), await rig.tenant()
    sent = await rig.relay.record(tenant, 5)
    await rig.relay.record(other, 5)
    async with rig.http(await rig.key(tenant)) as http:
        first = (await http.get("/api/events?limit=3")).json()
        assert first["items"] == [
            msgspec.json.decode(msgspec.json.encode(event)) for event in sent[:3]
        ]
        assert first["next_after"] == 3
        second = (await http.get("/api/events?limit=3&after=3")).json()
        assert [item["seq"] for item in second["items"]] == [4, 5]
        assert second["next_after"] == 5
        assert (await http.get("/api/events?after=5")).json() == {"items": [], "next_after": 5}


async def test_the_newest_of_history(rig: Rig) -> None:
    tenant, other = await rig.tenant(), await rig.tenant()
    await rig.relay.record(tenant, 3, "session.started")
    await rig.relay.record(tenant, 1, "member.joined")
    await rig.relay.record(tenant, 2, "session.started")
    await rig.relay.record(other, 9)
    async with rig.http(await rig.key(tenant)) as http:

        async def seqs(query: str) -> tuple[list[int], int]:
            page = (await http.get(f"/api/events?{query}")).json()
            return [item["seq"] for item in page["items"]], page["next_after"]

        assert await seqs("newest=2") == ([5, 6], 6)
        assert await seqs("newest=6") == ([1, 2, 3, 4, 5, 6], 6)
        assert await seqs("newest=200&limit=1") == ([1, 2, 3, 4, 5, 6], 6)
        # What is not wanted is passed over, and not asked for again.
        assert await seqs("newest=3&types=session.*") == ([3, 5, 6], 6)
        assert await seqs("newest=1&types=member.joined") == ([4], 6)
        assert await seqs("newest=3&after=5") == ([6], 6)
        assert await seqs("newest=3&after=6") == ([], 6)
        for wrong in ("0", "201", "-1", "x"):
            assert (await http.get(f"/api/events?newest={wrong}")).status_code == 422


async def test_history_by_type(rig: Rig) -> None:
    tenant = await rig.tenant()
    await rig.relay.record(tenant, 1, "member.joined")
    await rig.relay.record(tenant, 1, "api_key.created")
    await rig.relay.record(tenant, 2, "session.started")
    async with rig.http(await rig.key(tenant)) as http:
        page = (await http.get("/api/events?types=api_key.*,member.joined")).json()
        assert [item["seq"] for item in page["items"]] == [1, 2]
        assert page["next_after"] == 4
        assert (await http.get("/api/events?limit=201")).status_code == 422
        assert (await http.get("/api/events?types=no.*")).status_code == 422
