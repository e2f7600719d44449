"""Sessions' words on the event socket."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from uuid import UUID

import msgspec
import pytest
from tests.execution.crews.native_lab import TeamLab, lab, settings  # noqa: F401 - fixtures
from tests.execution.pulse.conftest import script
from tests.execution.pulse.holding import held_waits
from tests.gateway.test_chat_socket import Client, listening
from tests.gateway.test_chat_socket import say as say_in_chat

from agentos.execution.pulse.live import LiveText, live_subject
from agentos.tenancy.principals import Scope

# ruff: noqa: F811 - fixtures are arguments, too


async def watch(client: Client, session_id: UUID) -> None:
    await client.tell(json.dumps({"watch_session": str(session_id)}))


async def say(lab: TeamLab, session_id: UUID, step: int, *, done: bool = False) -> None:
    data = msgspec.json.encode(LiveText(step, f"word {step}", done))
    await lab.parts.bus.publish(live_subject(session_id), data)


async def test_the_words_of_a_watched_session_come_beside_events(lab: TeamLab) -> None:
    session_id = await lab.create(
        script("wait 300", "repeat 5 tick", "wait 200", "repeat 5 tock"), run=False
    )
    async with lab.relaying(), lab.engine(), listening(lab, lab.person.token) as client:
        await watch(client, session_id)
        async with asyncio.timeout(10):
            while not lab.parts.audience.watches(session_id):  # noqa: ASYNC110 - set by a message
                await asyncio.sleep(0.01)
        await lab.post(f"/api/sessions/{session_id}/run")
        words = []
        while (frame := await client.next("session.words", "session.completed"))["type"] == (
            "session.words"
        ):
            assert list(frame) == ["type", "session_id", "step", "text", "done", "reset"]
            assert frame["session_id"] == str(session_id)
            words.append(frame)
        read = await lab.ended(session_id)
    assert "".join(frame["text"] for frame in words) == read["result"]["text"]
    assert len([frame for frame in words if frame["text"]]) >= 2, "not all at once"
    assert [frame["done"] for frame in words].count(True) == 1
    model = next(row for row in await lab.journal(session_id) if row["kind"] == "model")
    assert {frame["step"] for frame in words} == {model["seq"]}


async def test_who_comes_amid_an_answer_hears_it_from_its_beginning(lab: TeamLab) -> None:
    session_id = await lab.create(script("repeat 5 tick", "wait 1", "repeat 5 tock"), run=False)
    with held_waits() as go:
        async with (
            lab.engine(),
            listening(lab, lab.person.token) as one,
            listening(lab, lab.person.token) as two,
        ):
            await watch(one, session_id)
            async with asyncio.timeout(10):
                while not lab.parts.audience.watches(session_id):  # noqa: ASYNC110 - set by a message
                    await asyncio.sleep(0.01)
            await lab.post(f"/api/sessions/{session_id}/run")
            assert (await one.next("session.words"))["reset"], "an answer begins"
            await watch(two, session_id)
            first = await two.next("session.words")
            while not first["reset"]:
                first = await two.next("session.words")
            text = first["text"]
            go.set()
            while not (frame := await two.next("session.words"))["done"]:
                text = frame["text"] if frame["reset"] else text + frame["text"]
            text += frame["text"]
            read = await lab.ended(session_id)
    assert text == read["result"]["text"]
    assert "tick" in text


async def test_only_while_it_is_watched(lab: TeamLab) -> None:
    one, two = await lab.create(run=False), await lab.create(run=False)
    async with listening(lab, lab.person.token) as client:
        await watch(client, one)
        await watch(client, one)
        await watch(client, two)
        await say(lab, one, 1)
        assert (await client.next())["session_id"] == str(one)
        await client.tell(json.dumps({"unwatch_session": str(one)}))
        await say(lab, one, 2)
        await say(lab, two, 3, done=True)
        frame = await client.next()
        assert (frame["step"], frame["done"]) == (3, True), "once, though it was watched twice"
        await watch(client, one)
        await say(lab, one, 4)
        assert (await client.next())["step"] == 4


async def test_two_sockets_and_a_stream_hear_the_same_session(lab: TeamLab) -> None:
    session_id = await lab.create(run=False)
    async with (
        listening(lab, lab.person.token) as one,
        listening(lab, lab.person.token) as two,
        lab.client.stream("GET", f"/api/sessions/{session_id}/live") as stream,
    ):
        await watch(one, session_id)
        await watch(two, session_id)
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        async with asyncio.timeout(10):
            # The stream listens a moment after it has begun to answer.
            for n in itertools.count(1):
                await say(lab, session_id, n)
                assert [(await each.next())["step"] for each in (one, two)] == [n, n]
                line = asyncio.ensure_future(_data(lines))
                done, _ = await asyncio.wait({line}, timeout=0.2)
                if done:
                    break
                line.cancel()
        told = {"seq": n, "text": f"word {n}", "done": False, "reset": False}
        assert json.loads(line.result()) == told
        await one.tell(json.dumps({"unwatch_session": str(session_id)}))
        await say(lab, session_id, 99)
        assert (await two.next())["step"] == 99, "others still listen"


async def _data(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data: "):
            return line[6:]
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize(
    "odd",
    [
        '{"watch_session": 7}',
        '{"watch_session": "x"}',
        '{"watch_session": null}',
        '{"unwatch_session": "00000000-0000-0000-0000-000000000007"}',
        '{"watch_session": "00000000-0000-0000-0000-000000000007"}',
        '{"watch_sessions": "00000000-0000-0000-0000-000000000007"}',
    ],
)
async def test_what_cannot_be_watched_is_ignored(lab: TeamLab, odd: str) -> None:
    session_id = await lab.create(run=False)
    async with listening(lab, lab.person.token) as client:
        await client.tell(odd)
        await watch(client, session_id)
        await say(lab, session_id, 3)
        assert (await client.next())["step"] == 3


async def test_what_is_no_words_is_dropped(lab: TeamLab) -> None:
    session_id = await lab.create(run=False)
    async with listening(lab, lab.person.token) as client:
        await watch(client, session_id)
        for odd in (b"", b"{", b"[]", b'{"seq": "x", "text": "y"}'):
            await lab.parts.bus.publish(live_subject(session_id), odd)
        await say(lab, session_id, 5)
        assert (await client.next())["step"] == 5


async def test_not_those_of_others_and_not_without_the_scope(lab: TeamLab) -> None:
    session_id = await lab.create(run=False)
    scopes = frozenset({Scope.EVENTS_READ, Scope.MESSAGES_READ})
    key = await lab.gateway.api_key(lab.person.tenant_id, scopes)
    stranger = await lab.gateway.tenant()
    async with (
        listening(lab, key) as without,
        listening(lab, stranger.token) as foreign,
        listening(lab, lab.person.token) as client,
    ):
        for each in (without, foreign, client):
            await watch(each, session_id)
        await say(lab, session_id, 1)
        assert (await client.next())["step"] == 1
        for each in (without, foreign):
            await each.tell("nothing")
            assert each._waiting == []


async def test_a_socket_watches_twenty_sessions_at_most_and_teams_besides(lab: TeamLab) -> None:
    sessions = [await lab.create(run=False) for _ in range(21)]
    team_id = await lab.team(deploy=False)
    async with listening(lab, lab.person.token) as client:
        orders = [json.dumps({"watch_session": str(session_id)}) for session_id in sessions]
        await client.tell(*orders, json.dumps({"watch": str(team_id)}))
        await say(lab, sessions[20], 20)
        await say(lab, sessions[19], 19)
        assert (await client.next())["step"] == 19
        await say_in_chat(lab, team_id, 7)
        assert (await client.next())["n"] == 7
        # One that is let go of makes room.
        await client.tell(json.dumps({"unwatch_session": str(sessions[0])}), orders[20])
        await say(lab, sessions[20], 20)
        assert (await client.next())["step"] == 20


async def test_a_lost_scope_ends_the_words(lab: TeamLab) -> None:
    session_id = await lab.create(run=False)
    scopes = frozenset({Scope.EVENTS_READ, Scope.SESSIONS_READ})
    key = await lab.gateway.api_key(lab.person.tenant_id, scopes)
    async with listening(lab, key) as client, listening(lab, lab.person.token) as witness:
        await watch(client, session_id)
        await watch(witness, session_id)
        await lab.superuser.execute("update api_keys set scopes = '{events:read}'")
        async with asyncio.timeout(10):
            for n in itertools.count():
                await say(lab, session_id, n)
                # It is written to the client before the witness, who came later.
                assert (await witness.next())["step"] == n
                await client.tell("nothing")
                if not client._waiting:
                    break
                client._waiting.clear()
