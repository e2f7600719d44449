"""Messages to teams through the API: queued, listed, searched, cancelled."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.execution.crews.native_lab import TeamLab, lab, settings  # noqa: F401 - fixtures
from tests.execution.pulse.conftest import script

from agentos.execution.crews.hints import CHANGED_SUBJECT
from agentos.execution.crews.messages.finishing import Outcome, finish
from agentos.kernel.bus import Message
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Scope


async def test_a_stopped_team_keeps_messages(lab: TeamLab) -> None:  # noqa: F811 - the fixture
    team_id = await lab.team(deploy=False)
    sent = [await lab.send(team_id, f"Message {n}") for n in range(3)]
    assert [each["position"] for each in sent] == [1, 2, 3]
    assert {each["state"] for each in sent} == {"queued"}
    assert sent[0]["source"] == "chat"
    queued = await lab.events("message.queued")
    assert sorted(each["position"] for each in queued) == [1, 2, 3]
    actions = await lab.superuser.fetch("select action from audit_log where target_kind='message'")
    assert [row["action"] for row in actions] == ["message.sent"] * 3


async def test_lists_are_newest_first_and_can_be_searched(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    for text in ("Grüße an ALLE", "second", "100% sure_thing"):
        await lab.send(team_id, text)
    path = f"/api/teams/{team_id}/messages"

    async def listed(**query: Any) -> list[str]:
        answer = await lab.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return [item["text"] for item in answer.json()["items"]]

    assert await listed() == ["100% sure_thing", "second", "Grüße an ALLE"]
    assert await listed(q="grüße an alle") == ["Grüße an ALLE"]
    assert await listed(q="%") == ["100% sure_thing"]
    assert await listed(before=3) == ["second", "Grüße an ALLE"]
    assert await listed(state="running") == []
    first = (await lab.client.get(path, params={"limit": 2})).json()
    second = await lab.client.get(path, params={"limit": 2, "cursor": first["next_cursor"]})
    assert [item["position"] for item in first["items"]] == [3, 2]
    assert [item["position"] for item in second.json()["items"]] == [1]
    for query in ({"q": "\0"}, {"cursor": "AAAA"}, {"before": "9" * 30}, {"state": "odd"}):
        assert (await lab.client.get(path, params=query)).status_code == 422, query


async def test_answers_can_be_searched(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team()
    async with lab.engine():
        await lab.ask(team_id, script("say Xylophone"))
        await lab.ask(team_id, script("say Other"))
    found = await lab.client.get(f"/api/teams/{team_id}/messages", params={"q": "xyloPHONE"})
    assert [item["position"] for item in found.json()["items"]] == [1]


@pytest.mark.parametrize(
    "body",
    [
        {"text": ""},
        {"text": "a\0b"},
        {"text": "x" * 50_001},
        {"text": "x", "attachments": [{"object_id": str(uuid7()), "name": "a.txt"}]},
        {"text": "x", "attachments": [{"object_id": str(uuid7()), "name": ".."}]},
        {"text": "x", "attachments": [{"object_id": str(uuid7()), "name": "."}]},
        {"text": "x", "attachments": [{"object_id": str(uuid7()), "name": "ü" * 150}]},
        {"text": "x", "attachments": [{"object_id": str(uuid7()), "name": "a/b"}]},
    ],
)
async def test_what_is_no_message(lab: TeamLab, body: dict[str, Any]) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    answer = await lab.client.post(f"/api/teams/{team_id}/messages", json=body)
    assert answer.status_code == 422, answer.text


async def test_attachments_are_objects_that_are_not_too_large(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    small = await lab.store("small.txt", b"small")
    large = await lab.store("large.bin", b"x" * (10 * 1024 * 1024 + 1))
    path = f"/api/teams/{team_id}/messages"

    async def sent(*attachments: tuple[str, str]) -> tuple[int, str | None]:
        given = [{"object_id": i, "name": name} for i, name in attachments]
        answer = await lab.client.post(path, json={"text": "x", "attachments": given})
        return answer.status_code, answer.json().get("code")

    assert await sent((small, "a.txt")) == (201, None)
    assert await sent((large, "a.bin")) == (413, "attachment_too_large")
    assert await sent((small, "a.txt"), (small, "a.txt")) == (422, "bad_attachment")
    mine = lab.person
    lab.person = await lab.gateway.tenant()
    foreign = await lab.store("small.txt", b"small")
    lab.person = mine
    assert await sent((foreign, "a.txt")) == (422, "attachment_missing")


async def test_what_another_tenant_sees_of_it(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    sent = await lab.send(team_id, "Mine")
    lab.person = await lab.gateway.tenant()
    own = await lab.team(deploy=False)
    for team, message, code in (
        (team_id, sent["id"], "team_not_found"),
        (UUID(int=7), sent["id"], "team_not_found"),
        (own, sent["id"], "message_not_found"),
    ):
        path = f"/api/teams/{team}/messages"
        answers = [await lab.client.post(f"{path}/{message}/cancel")]
        if code == "team_not_found":
            answers += [
                await lab.client.get(path),
                await lab.client.post(path, json={"text": "x"}),
            ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (404, code)
        read = await lab.client.get(f"{path}/{message}")
        assert (read.status_code, read.json()["code"]) == (404, "message_not_found")
        waited = await lab.client.get(f"{path}/{message}/wait", params={"seconds": 0})
        assert (waited.status_code, waited.json()["code"]) == (404, "message_not_found")


async def test_scopes(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    sent = await lab.send(team_id, "x")
    path = f"/api/teams/{team_id}/messages"
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset({Scope.TEAMS_WRITE}))
    client = await lab.gateway.client(key)
    for answer in (
        await client.get(path),
        await client.post(path, json={"text": "x"}),
        await client.get(f"{path}/{sent['id']}"),
        await client.get(f"{path}/{sent['id']}/wait"),
        await client.post(f"{path}/{sent['id']}/cancel"),
        await client.get(f"/api/teams/{team_id}/chat"),
    ):
        assert answer.status_code == 403, answer.text


async def test_a_queued_message_is_cancelled_at_once_and_only_once(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(deploy=False)
    sent = await lab.send(team_id, "x")
    path = f"/api/teams/{team_id}/messages/{sent['id']}/cancel"
    cancelled = await lab.post(path)
    assert (cancelled["state"], cancelled["error_code"]) == ("cancelled", "cancelled")
    again = await lab.client.post(path)
    assert (again.status_code, again.json()["code"]) == (409, "message_ended")
    (told,) = await lab.events("message.finished")
    assert (told["message_id"], told["state"]) == (sent["id"], "cancelled")


async def test_the_keeper_of_a_cli_team_is_told(lab: TeamLab) -> None:  # noqa: F811
    heard: list[bytes] = []

    async def hear(message: Message) -> None:
        heard.append(message.data)

    subscription = await lab.parts.bus.subscribe(CHANGED_SUBJECT, hear)
    team_id = await lab.team(provider="claude-code", deploy=False)
    sent = await lab.send(team_id, "x")
    await lab.superuser.execute("update team_messages set state = 'running'")
    heard.clear()
    cancelled = await lab.post(f"/api/teams/{team_id}/messages/{sent['id']}/cancel")
    assert cancelled["state"] == "running", "its agent is still at it"
    assert await lab.superuser.fetchval("select cancel_requested from team_messages")
    await lab.parts.bus.flush()
    assert heard == [team_id.bytes]
    await subscription.unsubscribe()


async def test_an_answer_is_stored_once(lab: TeamLab) -> None:  # noqa: F811
    team_id = await lab.team(provider="claude-code", deploy=False)
    sent = await lab.send(team_id, "x")
    await lab.superuser.execute("update team_messages set state = 'running'")
    tenant_id, now = lab.person.tenant_id, lab.clock.now()
    async with lab.parts.db.transaction(tenant_id=tenant_id) as tx:
        answers = [
            await finish(tx, tenant_id, team_id, UUID(sent["id"]), Outcome("answered", text), now)
            for text in ("first\0", "second")
        ]
        foreign = await finish(
            tx, tenant_id, UUID(int=7), UUID(sent["id"]), Outcome("answered", "third"), now
        )
    assert [None if each is None else len(each) for each in answers] == [1, None]
    assert foreign is None
    assert (await lab.message(team_id, sent["id"]))["answer"] == "first\ufffd"
