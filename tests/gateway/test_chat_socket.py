"""Teams' chats on the event socket."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from tests.execution.crews.native_lab import TeamLab, lab, settings  # noqa: F401 - fixtures
from tests.execution.pulse.conftest import script
from websockets.asyncio.client import ClientConnection, connect

from agentos.contracts.crew import Chunk, chat_subject, encode
from agentos.contracts.events import MessageFinished, encode_unnumbered
from agentos.execution.crews.hints import ended_subject
from agentos.tenancy.principals import Scope

# ruff: noqa: F811 - fixtures are arguments, too


class Client:
    def __init__(self, socket: ClientConnection):
        self.socket = socket
        self._waiting: list[dict[str, Any]] = []

    async def next(self, *types: str) -> dict[str, Any]:
        """The next frame of one of these types."""
        async with asyncio.timeout(20):
            while True:
                while not self._waiting:
                    text = await self.socket.recv()
                    assert isinstance(text, str)
                    if text != "pong":
                        self._waiting += [json.loads(line) for line in text.split("\n")]
                frame = self._waiting.pop(0)
                if not types or frame["type"] in types:
                    return frame

    async def tell(self, *texts: str) -> None:
        """Says something, and waits until it was read."""
        for text in texts:
            await self.socket.send(text)
        await self.socket.send("ping")
        async with asyncio.timeout(10):
            while (text := str(await self.socket.recv())) != "pong":
                self._waiting += [json.loads(line) for line in text.split("\n")]

    async def watch(self, team_id: UUID) -> None:
        await self.tell(json.dumps({"watch": str(team_id)}))


@asynccontextmanager
async def listening(lab: TeamLab, credential: str) -> AsyncIterator[Client]:
    async with connect(
        lab.gateway.url.replace("http", "ws") + "/api/events",
        additional_headers={"Authorization": f"Bearer {credential}"},
        compression=None,
        proxy=None,
    ) as socket:
        client = Client(socket)
        await client.next("stream.live")
        yield client


async def say(lab: TeamLab, team_id: UUID, n: int) -> None:
    (data,) = encode(Chunk(message_id=UUID(int=1), n=n, text=f"word {n}"))
    await lab.parts.bus.publish(chat_subject(lab.person.tenant_id, team_id), data)


async def test_the_words_of_a_watched_team_come_beside_events(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.relaying(), lab.engine(), listening(lab, lab.person.token) as client:
        await client.watch(team_id)
        async with asyncio.timeout(10):
            while not lab.parts.audience.watches(team_id):  # noqa: ASYNC110 - set by a message
                await asyncio.sleep(0.01)
        sent = await lab.send(team_id, script("repeat 5 tick", "wait 200", "repeat 5 tock"))
        text, numbers = "", []
        while (frame := await client.next("message.chunk", "message.finished"))["type"] != (
            "message.finished"
        ):
            assert "seq" not in frame
            assert (frame["team_id"], frame["message_id"]) == (str(team_id), sent["id"])
            text += frame["text"]
            numbers.append(frame["n"])
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 2
    assert text == (await lab.message(team_id, sent["id"]))["answer"]


async def test_an_end_comes_at_once_and_again_with_its_number(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    async with lab.relaying(), listening(lab, lab.person.token) as client:
        await client.watch(team_id)
        event = MessageFinished(
            message_id=UUID(int=1),
            team_id=team_id,
            state="answered",
            answer="Done.",
            error=None,
            cost_micros=0,
        )
        tenant_id, now = lab.person.tenant_id, lab.clock.now()
        async with lab.parts.db.transaction(tenant_id=tenant_id) as tx:
            (event_id,) = await lab.parts.outbox.announce(tx, tenant_id, now, event)
        data = encode_unnumbered(tenant_id, event_id, now, event)
        await lab.parts.bus.publish(ended_subject(team_id), data)
        told = [await client.next("message.finished") for _ in range(2)]
    assert sorted("seq" in each for each in told) == [False, True]
    numbered, early = sorted(told, key=lambda each: "seq" in each, reverse=True)
    del numbered["seq"]
    assert numbered == early


async def test_only_while_it_is_watched(lab: TeamLab) -> None:
    one, two = await lab.team(deploy=False), await lab.team(name="Two", deploy=False)
    async with listening(lab, lab.person.token) as client:
        await client.watch(one)
        await client.watch(two)
        await say(lab, one, 0)
        assert (await client.next())["team_id"] == str(one)
        await client.tell(json.dumps({"unwatch": str(one)}))
        await say(lab, one, 1)
        await say(lab, two, 2)
        assert (await client.next())["n"] == 2


@pytest.mark.parametrize(
    "odd",
    [
        "{",
        "[]",
        "null",
        '{"watch": 7}',
        '{"watch": "x"}',
        '{"watch": null}',
        '{"stop": "x"}',
        '{"unwatch": "00000000-0000-0000-0000-000000000007"}',
        '{"watch": "00000000-0000-0000-0000-000000000007"}',
        "x" * 10_000,
        '{"watch": "\\ud800"}',
    ],
)
async def test_what_cannot_be_watched_is_ignored(lab: TeamLab, odd: str) -> None:
    team_id = await lab.team(deploy=False)
    async with listening(lab, lab.person.token) as client:
        await client.tell(odd)
        await client.watch(team_id)
        await say(lab, team_id, 3)
        assert (await client.next())["n"] == 3


async def test_not_those_of_others_and_not_without_the_scope(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    tenant_id = lab.person.tenant_id
    key = await lab.gateway.api_key(tenant_id, frozenset({Scope.EVENTS_READ}))
    stranger = await lab.gateway.tenant()
    async with (
        listening(lab, key) as without,
        listening(lab, stranger.token) as foreign,
        listening(lab, lab.person.token) as client,
    ):
        for each in (without, foreign, client):
            await each.watch(team_id)
        await say(lab, team_id, 0)
        assert (await client.next())["n"] == 0
        for each in (without, foreign):
            await each.tell("nothing")
            assert each._waiting == []


async def test_a_socket_watches_twenty_teams_at_most(lab: TeamLab) -> None:
    await lab.superuser.execute(
        """insert into teams (tenant_id, id, name, provider, status_at, created_by, principal_kind,
               principal_id, created_at, updated_at)
           select $1, gen_random_uuid(), 'Team ' || n, 'native', now(), 'x', 'user', 'x', now(), now()
           from generate_series(1, 21) n""",
        lab.person.tenant_id,
    )
    rows = await lab.superuser.fetch("select id from teams order by id")
    async with listening(lab, lab.person.token) as client:
        await client.tell(*(json.dumps({"watch": str(row["id"])}) for row in rows))
        await say(lab, rows[20]["id"], 20)
        await say(lab, rows[19]["id"], 19)
        assert (await client.next())["n"] == 19


async def test_a_lost_scope_ends_the_words(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    tenant_id = lab.person.tenant_id
    scopes = frozenset({Scope.EVENTS_READ, Scope.MESSAGES_READ})
    key = await lab.gateway.api_key(tenant_id, scopes)
    async with listening(lab, key) as client, listening(lab, lab.person.token) as witness:
        await client.watch(team_id)
        await witness.watch(team_id)
        await lab.superuser.execute("update api_keys set scopes = '{events:read}'")
        async with asyncio.timeout(10):
            for n in itertools.count():
                await say(lab, team_id, n)
                # It is written to the client before the witness, who came later.
                assert (await witness.next())["n"] == n
                await client.tell("nothing")
                if not client._waiting:
                    break
                client._waiting.clear()
        # Events it may still read: only the words are kept from it.
        async with lab.relaying():
            await lab.send(team_id, "an event")
            assert (await client.next("message.queued"))["data"]["text"] == "an event"
