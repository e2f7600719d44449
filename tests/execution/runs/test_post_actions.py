from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.execution.pulse.conftest import script
from tests.execution.runs.conftest import Receiver, Runs

SESSION = {"prompt": script('say He said "yes".\\nTwice.'), "model": "demo"}
FAILING = {"prompt": script("say x"), "model": "demo", "output_schema": {"type": "integer"}}


@pytest.fixture(autouse=True)
def local_hosts(runs: Runs) -> None:
    object.__setattr__(runs.deliverer._routes.policy, "hosts", "any")


async def run_of(runs: Runs, config: dict[str, Any], **action: Any) -> tuple[dict[str, Any], str]:
    """A schedule with a post-action, run once to its end; the run, and the action's id."""
    made = await runs.schedule(every_seconds=3600, session=config)
    body = {"name": "tell", "schedule_id": made["id"], **action}
    action_id = (await runs.call("POST", "/api/post-actions", 201, json=body))["id"]
    run = await runs.call("POST", f"/api/schedules/{made['id']}/run", 201)
    async with runs.lab.engine():
        ended = await runs.ended(run["id"])
    await runs.rounds()
    return ended, action_id


async def deliveries(runs: Runs, run: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await runs.lab.client.get(f"/api/runs/{run['id']}/deliveries")
    found: list[dict[str, Any]] = answer.json()
    return found


async def test_the_run_as_json(runs: Runs, receiver: Receiver) -> None:
    run, action_id = await run_of(runs, SESSION, url=f"{receiver.url}/hook")
    ((method, path, headers, body),) = receiver.calls
    assert (method, path, headers["content-type"]) == ("POST", "/hook", "application/json")
    assert json.loads(body)["run"]["id"] == run["id"]
    assert json.loads(body)["source"] == {"name": "s"}
    (delivery,) = await deliveries(runs, run)
    assert (delivery["state"], delivery["status"], delivery["attempts"]) == ("delivered", 200, 1)
    assert delivery["post_action_id"] == action_id


async def test_a_json_template_stays_json(runs: Runs, receiver: Receiver) -> None:
    template = json.dumps({"text": "{{source.name}}: {{run.result}}", "n": 1})
    run, _ = await run_of(runs, SESSION, url=receiver.url, body=template)
    assert json.loads(receiver.calls[0][3]) == {"text": f"s: {run['result']}", "n": 1}


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"kind": "bearer", "secret": "k"}, "authorization", "Bearer top secret"),
        (
            {"kind": "basic", "secret": "k", "user": "me"},
            "authorization",
            "Basic bWU6dG9wIHNlY3JldA==",
        ),
        ({"kind": "header", "secret": "k", "header": "X-Key"}, "x-key", "top secret"),
    ],
)
async def test_it_says_who_it_is(
    runs: Runs, receiver: Receiver, auth: dict[str, str], header: str, value: str
) -> None:
    await runs.lab.client.put("/api/vault/k", json={"value": "top secret"})
    run, _ = await run_of(runs, SESSION, url=receiver.url, auth=auth)
    assert receiver.calls[0][2][header] == value
    listed = await runs.call("GET", "/api/post-actions")
    assert "top secret" not in json.dumps(listed) + json.dumps(await deliveries(runs, run))


async def test_it_is_tried_again_later(runs: Runs, receiver: Receiver) -> None:
    receiver.answers = [500, 503]
    run, _ = await run_of(runs, SESSION, url=receiver.url)
    (waiting,) = await deliveries(runs, run)
    assert (waiting["state"], waiting["status"], waiting["attempts"]) == ("waiting", 500, 1)
    for _ in range(2):
        runs.lab.clock.advance(timedelta(minutes=1))
        await runs.rounds()
    (delivered,) = await deliveries(runs, run)
    assert (delivered["state"], delivered["attempts"]) == ("delivered", 3)
    assert len(receiver.calls) == 3
    assert len({call[2]["x-agentos-delivery"] for call in receiver.calls}) == 1


async def test_it_is_given_up(runs: Runs, receiver: Receiver) -> None:
    receiver.answers = [500] * 9
    run, _ = await run_of(runs, SESSION, url=receiver.url, max_attempts=2)
    runs.lab.clock.advance(timedelta(minutes=5))
    await runs.rounds()
    (failed,) = await deliveries(runs, run)
    assert (failed["state"], failed["attempts"], failed["next_at"]) == ("failed", 2, None)


async def test_what_is_refused_for_good_is_not_tried_again(runs: Runs, receiver: Receiver) -> None:
    receiver.answers = [404]
    run, _ = await run_of(runs, SESSION, url=receiver.url)
    (failed,) = await deliveries(runs, run)
    assert (failed["state"], failed["status"]) == ("failed", 404)


@pytest.mark.parametrize(("after", "calls"), [("success", 0), ("failure", 1), ("any", 1)])
async def test_only_after_what_it_is_for(
    runs: Runs, receiver: Receiver, after: str, calls: int
) -> None:
    run, _ = await run_of(
        runs,
        {**SESSION, "guards": {"max_turns": 1}, "prompt": _endless()},
        url=receiver.url,
        after=after,
    )
    assert run["state"] == "failed"
    assert len(receiver.calls) == calls


def _endless() -> str:
    return script('call update_plan {"plan": []}', 'call update_plan {"plan": []}', "say x")


async def test_two_deliverers_make_one_call(runs: Runs, receiver: Receiver) -> None:
    import asyncio

    from agentos.execution.post_actions.delivering import Deliverer

    receiver.answers = [500]
    run, _ = await run_of(runs, SESSION, url=receiver.url)
    runs.lab.clock.advance(timedelta(minutes=1))
    other = Deliverer(runs.lab.parts)
    object.__setattr__(other._routes.policy, "hosts", "any")
    await asyncio.gather(*(each.deliver_due() for each in (runs.deliverer, other, other)))
    assert len(receiver.calls) == 2
    assert (await deliveries(runs, run))[0]["state"] == "delivered"


async def test_this_machine_is_not_called_unless_it_is_allowed(
    runs: Runs, receiver: Receiver
) -> None:
    object.__setattr__(runs.deliverer._routes.policy, "hosts", "public")
    run, _ = await run_of(runs, SESSION, url=receiver.url, max_attempts=1)
    (failed,) = await deliveries(runs, run)
    assert failed["state"] == "failed"
    assert receiver.calls == []


async def test_what_is_not_there(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=3600, session=SESSION)
    body = {"name": "x", "schedule_id": made["id"], "url": "https://example.com"}
    missing = await runs.lab.client.post(
        "/api/post-actions", json={**body, "auth": {"kind": "bearer", "secret": "none"}}
    )
    assert missing.json()["code"] == "secret_missing"
    bad = await runs.lab.client.post("/api/post-actions", json={**body, "body": "{{"})
    assert bad.json()["code"] == "bad_template"
    stranger = await runs.lab.gateway.tenant()
    theirs = await stranger.client.post("/api/post-actions", json=body)
    assert (theirs.status_code, theirs.json()["code"]) == (404, "schedule_not_found")
