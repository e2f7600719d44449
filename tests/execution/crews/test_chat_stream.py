"""The chat of a team as it is spoken: server-sent events, and waiting for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from tests.execution.crews.native_lab import (  # noqa: F401 - fixtures
    TeamLab,
    lab,
    settings,
    sse,
)
from tests.execution.pulse.conftest import script

from agentos.contracts.crew import Activity, Chunk, Deed, chat_subject, encode
from agentos.contracts.events import MessageFinished, encode_unnumbered
from agentos.execution.crews.hints import ended_subject
from agentos.kernel.ids import uuid7

# ruff: noqa: F811 - fixtures are arguments, too

Heard = tuple[str, dict[str, Any]]


@asynccontextmanager
async def chat(lab: TeamLab, team_id: UUID) -> AsyncIterator[AsyncIterator[Heard]]:
    """The events of a team's chat; the first, the snapshot, has come."""
    async with (
        asyncio.timeout(30),
        lab.client.stream("GET", f"/api/teams/{team_id}/chat") as response,
    ):
        assert response.status_code == 200
        yield sse(response)


async def until_finished(heard: AsyncIterator[Heard]) -> list[Heard]:
    found: list[Heard] = []
    async for kind, data in heard:
        found.append((kind, data))
        if kind == "message.finished":
            return found
    raise AssertionError("the stream ended")


async def watched(lab: TeamLab, team_id: UUID) -> None:
    """Once the workers know that somebody watches."""
    async with asyncio.timeout(10):
        while not lab.parts.audience.watches(team_id):  # noqa: ASYNC110 - set by a message
            await asyncio.sleep(0.01)


def spoken(heard: list[Heard]) -> str:
    """The words of the answer, as a client puts them together."""
    text = ""
    for kind, data in heard:
        if kind == "chunk":
            text = data["text"] if data.get("reset") else text + data["text"]
    return text


async def test_words_and_deeds_come_in_order(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.relaying(), lab.engine(), chat(lab, team_id) as heard:
        assert await anext(heard) == ("snapshot", {"running": None, "queued": []})
        await watched(lab, team_id)
        sent = await lab.send(
            team_id,
            script(
                "say Let me see.",
                'call shell {"command": "echo hi"}',
                "repeat 5 tick",
                "wait 200",
                "repeat 5 tock",
            ),
        )
        told = await until_finished(heard)
    answer = await lab.message(team_id, sent["id"])
    assert spoken(told) == answer["answer"]
    pieces = [data for kind, data in told if kind in ("chunk", "activity")]
    assert {piece["message_id"] for piece in pieces} == {sent["id"]}
    assert [piece["n"] for piece in pieces] == list(range(len(pieces)))
    deeds = [data["deed"] for kind, data in told if kind == "activity"]
    assert [(deed["tool"], deed.get("state", "done")) for deed in deeds] == [
        ("shell", "running"),
        ("shell", "done"),
    ]
    assert deeds[0]["id"] == deeds[1]["id"] == answer["activity"][0]["id"]
    states = [kind for kind, _ in told if kind.startswith("message.")]
    assert states == ["message.queued", "message.started", "message.finished"]
    assert len([1 for kind, _ in told if kind == "chunk"]) >= 3, "not all at once"


async def test_a_snapshot_says_what_is_being_answered(lab: TeamLab) -> None:
    team_id = await lab.team()
    running = await lab.send(team_id, script("wait 5000"))
    waiting = await lab.send(team_id, script("say x"))
    async with chat(lab, team_id) as heard:
        assert await anext(heard) == (
            "snapshot",
            {"running": running["id"], "queued": [waiting["id"]]},
        )


async def test_what_a_sandbox_says_is_read_before_it_is_passed_on(lab: TeamLab) -> None:
    team_id = await lab.team(provider="claude-code", deploy=False)
    other = await lab.team(name="Other", provider="claude-code", deploy=False)
    message_id, tenant_id, bus = uuid7(), lab.person.tenant_id, lab.parts.bus

    async def say(data: bytes, team: UUID = team_id, tenant: UUID = tenant_id) -> None:
        await bus.publish(chat_subject(tenant, team), data)

    (chunk,) = encode(Chunk(message_id=message_id, n=0, text="line\none"))
    (deed,) = encode(Activity(message_id=message_id, n=1, deed=Deed(id="1", tool="Bash")))
    async with chat(lab, team_id) as heard, chat(lab, team_id) as beside:
        for each in (heard, beside):
            assert (await anext(each))[0] == "snapshot"
        await say(b"\xff not json")
        await say(b'{"type":"chunk","message_id":"x","n":0,"text":"x"}')
        await say(b'{"type":"message.finished"}')
        await say(b'{"type":"chunk","n":0,"text":"' + b"x" * 100_000 + b'"}')
        await say(chunk, other)
        await say(chunk, team_id, uuid7())
        await say(b" \n" + chunk)
        await say(deed)
        for each in (heard, beside):
            assert await anext(each) == (
                "chunk",
                {
                    "type": "message.chunk",
                    "team_id": str(team_id),
                    "message_id": str(message_id),
                    "n": 0,
                    "text": "line\none",
                },
            )
            kind, data = await anext(each)
            assert (kind, data["deed"]) == ("activity", {"id": "1", "tool": "Bash"})


async def test_an_end_is_told_once_whoever_is_first(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    tenant_id, bus = lab.person.tenant_id, lab.parts.bus

    async def told(event_id: UUID, answer: str) -> None:
        """As its keeper tells it."""
        event = MessageFinished(
            message_id=UUID(int=1),
            team_id=team_id,
            state="answered",
            answer=answer,
            error=None,
            cost_micros=0,
        )
        data = encode_unnumbered(tenant_id, event_id, lab.clock.now(), event)
        await bus.publish(ended_subject(team_id), data)

    async def finished(heard: AsyncIterator[Heard]) -> dict[str, Any]:
        kind, data = await anext(heard)
        assert kind == "message.finished"
        return data

    async with lab.relaying(), chat(lab, team_id) as heard:
        await anext(heard)
        # The keeper first: cancelling announces what the relay brings.
        await bus.publish(ended_subject(team_id), b"not an event")
        sent = await lab.send(team_id, "x")
        assert (await anext(heard))[0] == "message.queued"
        await lab.post(f"/api/teams/{team_id}/messages/{sent['id']}/cancel")
        relayed = await finished(heard)
        await told(UUID(relayed["id"]), "the same")
        early = uuid7()
        await told(early, "another")
        event = await finished(heard)
        assert (event["id"], event["data"]["answer"]) == (str(early), "another")
        assert "seq" not in event
        async with lab.parts.db.transaction(tenant_id=tenant_id) as tx:
            await tx.execute(
                "insert into outbox (tenant_id, id, type, data, at) values ($1, $2, $3, $4, $5)",
                tenant_id,
                early,
                "message.finished",
                event["data"],
                lab.clock.now(),
            )
        last = await lab.send(team_id, "y")
        kind, event = await anext(heard)
        assert (kind, event["data"]["message_id"]) == ("message.queued", last["id"])


async def test_messages_of_other_teams_are_not_told(lab: TeamLab) -> None:
    team_id, other = await lab.team(deploy=False), await lab.team(name="Other", deploy=False)
    async with lab.relaying(), chat(lab, team_id) as heard:
        await anext(heard)
        await lab.send(other, "not for you")
        mine = await lab.send(team_id, "for you")
        kind, event = await anext(heard)
    assert kind == "message.queued"
    assert event["data"]["message_id"] == mine["id"]


async def test_nobody_watches_what_is_not_theirs(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    lab.person = await lab.gateway.tenant()
    for wanted in (team_id, UUID(int=7)):
        answer = await lab.client.get(f"/api/teams/{wanted}/chat")
        assert (answer.status_code, answer.json()["code"]) == (404, "team_not_found")


async def test_waiting_for_an_answer(lab: TeamLab) -> None:
    team_id = await lab.team()
    sent = await lab.send(team_id, script("say here it is"))
    path = f"/api/teams/{team_id}/messages/{sent['id']}/wait"
    early = await lab.client.get(path, params={"seconds": 0.05})
    assert early.json()["state"] == "running"
    waiting = asyncio.create_task(lab.client.get(path, params={"seconds": 30}))
    async with lab.relaying(), lab.engine():
        waited = await waiting
    assert waited.json()["answer"] == "here it is"
    assert waited.json() == await lab.message(team_id, sent["id"])
    for wrong in ("61", "-1", "nan", "x"):
        assert (await lab.client.get(path, params={"seconds": wrong})).status_code == 422, wrong


async def test_one_subscription_for_all_who_watch(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    asked = lab.parts.bus._client._subs
    subject = chat_subject(lab.person.tenant_id, team_id)

    def subscriptions() -> int:
        return sum(each.subject == subject for each in asked.values())

    async with chat(lab, team_id) as one, chat(lab, team_id) as two:
        await anext(one)
        await anext(two)
        assert subscriptions() == 1
    async with asyncio.timeout(10):
        while subscriptions():  # noqa: ASYNC110 - the server notices that they left
            await asyncio.sleep(0.01)
