"""What a post-action may be told that no call can be made of, and answers that no call expects:
each ends its own delivery, and never the deliverer's round, which is everybody's."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from tests.execution.pulse.conftest import script
from tests.execution.runs.conftest import Receiver, Runs
from tests.execution.runs.test_post_actions import deliveries, local_hosts, run_of

__all__ = ["local_hosts"]

SESSION = {"prompt": script("say done"), "model": "demo"}


async def delivered(runs: Runs, **action: Any) -> dict[str, Any]:
    run, _ = await run_of(runs, SESSION, **action)
    (delivery,) = await deliveries(runs, run)
    return delivery


@pytest.mark.parametrize(
    "url", ["http:///x", "http://user@/", "http://{{run.error}}", "http://[v]"]
)
async def test_a_url_that_is_none_is_not_tried_again(runs: Runs, url: str) -> None:
    delivery = await delivered(runs, url=url)
    assert (delivery["state"], delivery["attempts"]) == ("failed", 1)
    assert "URL" in delivery["error"]


async def test_a_long_answer_is_an_answer(runs: Runs, unused_tcp_port: int) -> None:
    async def talk(_: web.Request) -> web.Response:
        return web.Response(body=bytes(1_000_000))

    app = web.Application()
    app.router.add_post("/", talk)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    delivery = await delivered(runs, url=f"http://127.0.0.1:{unused_tcp_port}/")
    await runner.cleanup()
    assert (delivery["state"], delivery["status"]) == ("delivered", 200)


async def test_a_secret_of_any_script_is_sent(runs: Runs, receiver: Receiver) -> None:
    await runs.call("PUT", "/api/vault/WORD", json={"value": "wörd-example-1"})
    auth = {"kind": "bearer", "secret": "WORD"}
    assert (await delivered(runs, url=receiver.url, auth=auth))["state"] == "delivered"
    assert receiver.calls[0][2]["authorization"] == "Bearer wörd-example-1"


async def test_a_secret_that_no_header_can_hold_is_not_quoted(
    runs: Runs, receiver: Receiver
) -> None:
    await runs.call("PUT", "/api/vault/LINES", json={"value": "first-line\nsecond-line"})
    auth = {"kind": "header", "header": "X-Key", "secret": "LINES"}
    delivery = await delivered(runs, url=receiver.url, auth=auth)
    assert (delivery["state"], receiver.calls) == ("failed", [])
    assert "line" not in delivery["error"]


async def test_a_template_too_deep_to_be_json_is_text(runs: Runs, receiver: Receiver) -> None:
    deep = "[" * 2000 + "]" * 2000
    assert (await delivered(runs, url=receiver.url, body=deep))["state"] == "delivered"
    assert receiver.calls[0][3] == deep


async def test_an_update_leaves_nothing_out_that_goes_without_saying(
    runs: Runs, receiver: Receiver
) -> None:
    made = await runs.schedule(every_seconds=3600, session=SESSION)
    body = {"name": "tell", "schedule_id": made["id"], "url": receiver.url}
    action = await runs.call("POST", "/api/post-actions", 201, json=body)
    path = f"/api/post-actions/{action['id']}"
    changed = await runs.call("PATCH", path, json={"auth": {}, "name": "say"})
    assert (changed["auth"], changed["name"]) == (action["auth"], "say")
    run = await runs.call("POST", f"/api/schedules/{made['id']}/run", 201)
    async with runs.lab.engine():
        await runs.ended(run["id"])
    await runs.rounds()
    assert len(receiver.calls) == 1


async def test_a_body_can_be_taken_away(runs: Runs, receiver: Receiver) -> None:
    made = await runs.schedule(every_seconds=3600, session=SESSION)
    body = {"name": "tell", "schedule_id": made["id"], "url": receiver.url, "body": "{{run.state}}"}
    action = await runs.call("POST", "/api/post-actions", 201, json=body)
    path = f"/api/post-actions/{action['id']}"
    kept = await runs.call("PATCH", path, json={"after": "any", "name": None})
    assert (kept["body"], kept["name"]) == ("{{run.state}}", "tell")
    assert (await runs.call("PATCH", path, json={"body": None}))["body"] is None
