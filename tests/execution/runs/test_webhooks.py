from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.execution.pulse.conftest import script
from tests.execution.runs.conftest import Runs

from agentos.tenancy.principals import Scope

ECHO = {"prompt": script("say Hello {{user.name}}."), "model": "demo"}


async def send(runs: Runs, webhook: dict[str, Any], **options: Any) -> httpx.Response:
    client = await runs.lab.gateway.client()
    return await client.post(webhook["path"], **options)


async def test_it_starts_a_session_with_what_was_sent(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    assert made["token"].endswith(made["token_hint"])
    async with runs.lab.engine():
        answer = await send(runs, made, json={"user": {"name": "Ada"}})
        assert answer.status_code == 202, answer.text
        ended = await runs.ended(answer.json()["run_id"])
    assert (ended["state"], ended["result"]) == ("succeeded", "Hello Ada.")
    read = await runs.call("GET", f"/api/webhooks/{made['id']}")
    assert "token" not in read
    assert read["used_at"] is not None


async def test_it_asks_a_team_and_waits_for_the_answer(runs: Runs) -> None:
    team_id = await runs.team()
    prompt = script("say You said {{body}}.")
    made = await runs.webhook(team_id=str(team_id), prompt=prompt)
    async with runs.lab.engine():
        answer = await send(
            runs,
            made,
            content="something",
            params={"wait": 30},
            headers={"content-type": "text/plain"},
        )
    assert answer.status_code == 200, answer.text
    assert (answer.json()["state"], answer.json()["result"]) == (
        "succeeded",
        "You said something.",
    )


async def test_waiting_ends_with_the_time(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    answer = await send(runs, made, json={"user": {"name": "x"}}, params={"wait": 1})
    # No worker is running.
    assert (answer.status_code, answer.json()["state"]) == (200, "running")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"json": {"user": {}}}, "missing_variable"),
        ({"json": [1]}, "missing_variable"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, "bad_payload"),
        (
            {"content": b'"\\ud800"', "headers": {"content-type": "application/json"}},
            "bad_payload",
        ),
        ({"content": b"\xff", "headers": {"content-type": "text/plain"}}, "bad_payload"),
        ({"json": {"user": {"name": "x" * 60_000}}}, "bad_payload"),
    ],
)
async def test_what_cannot_be_filled_in_starts_nothing(
    runs: Runs, options: dict[str, Any], code: str
) -> None:
    made = await runs.webhook(session=ECHO)
    answer = await send(runs, made, **options)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert await runs.runs_of(made) == []
    assert await runs.lab.superuser.fetchval("select count(*) from sessions") == 0


async def test_what_may_be_missing(runs: Runs) -> None:
    made = await runs.webhook(session={**ECHO, "prompt": "Hello {{user.name?}}{{n?}}"})
    odd = b'{"n": 7, "\\u0000": "\\u0000"}'
    answer = await send(runs, made, content=odd, headers={"content-type": "application/json"})
    assert answer.status_code == 202, answer.text
    (run,) = await runs.runs_of(made)
    read = await runs.lab.read(run["session_id"])
    assert read["config"]["prompt"] == "Hello 7"


async def test_overload_is_refused_and_nothing_accepted_is_lost(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO, max_unfinished=5)
    answers = await asyncio.gather(
        *(send(runs, made, json={"user": {"name": str(n)}}) for n in range(20))
    )
    accepted = [a.json()["run_id"] for a in answers if a.status_code == 202]
    refused = [a for a in answers if a.status_code == 429]
    assert (len(accepted), len(refused)) == (5, 15)
    assert all(int(a.headers["retry-after"]) > 0 for a in refused)
    assert {a.json()["code"] for a in refused} == {"webhook_busy"}
    async with runs.lab.engine():
        ended = [await runs.ended(run_id) for run_id in accepted]
    assert [each["state"] for each in ended] == ["succeeded"] * 5
    assert (await send(runs, made, json={"user": {"name": "x"}})).status_code == 202


async def test_a_rotated_token_stops_working(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    rotated = await runs.call("POST", f"/api/webhooks/{made['id']}/rotate")
    assert rotated["token"] != made["token"]
    assert (await send(runs, made, json={})).status_code == 401
    assert (await send(runs, rotated, json={"user": {"name": "x"}})).status_code == 202


async def test_a_disabled_one_and_a_wrong_token_are_refused_alike(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    await runs.call("PATCH", f"/api/webhooks/{made['id']}", json={"enabled": False})
    disabled = await send(runs, made, json={})
    wrong = await send(runs, {"path": made["path"][:-4] + "0000"}, json={})
    assert disabled.status_code == wrong.status_code == 401
    assert disabled.json()["detail"] == wrong.json()["detail"]


async def test_the_token_opens_nothing_else(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    client = await runs.lab.gateway.client(made["token"])
    for path in ("/api/webhooks", "/api/sessions", "/api/teams", "/api/vault"):
        assert (await client.get(path)).status_code == 403


async def test_no_other_credential_fires_it(runs: Runs) -> None:
    key = await runs.lab.gateway.api_key(runs.lab.person.tenant_id, frozenset(Scope))
    answer = await send(runs, {"path": f"/api/hooks/{key}"}, json={})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_a_webhook")


@pytest.mark.parametrize("template", ["{{", "{{ }}", "{{a..b}}", "{{a b}}"])
async def test_templates_are_checked(runs: Runs, template: str) -> None:
    answer = await runs.lab.client.post(
        "/api/webhooks", json={"name": "w", "session": {"prompt": template, "model": "demo"}}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_template"), answer.text


async def test_the_template_of_a_session_is_changed_by_itself(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    path = f"/api/webhooks/{made['id']}"
    bad = await runs.lab.client.patch(path, json={"prompt": "{{"})
    assert (bad.status_code, bad.json()["code"]) == (422, "bad_template")
    changed = await runs.call("PATCH", path, json={"prompt": "Look: {{title}}"})
    assert changed["session"] == {**made["session"], "prompt": "Look: {{title}}"}
    assert (await send(runs, made, json={"title": "It broke"})).status_code == 202
    assert [each["prompt"] for each in await runs.runs_of(made)] == ["Look: It broke"]


async def test_change_and_delete(runs: Runs) -> None:
    made = await runs.webhook(session=ECHO)
    path = f"/api/webhooks/{made['id']}"
    changed = await runs.call("PATCH", path, json={"name": "other", "max_unfinished": 3})
    assert (changed["name"], changed["max_unfinished"]) == ("other", 3)
    await runs.call("DELETE", path, 204)
    assert (await send(runs, made, json={})).status_code == 401
