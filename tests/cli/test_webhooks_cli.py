"""`agentos webhooks` and `agentos post-actions` against a real gateway."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx
import pytest
from tests.gateways import Gateway

from .conftest import Cli


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    person = await gateway.tenant()
    body = {"name": "Crew", "model": "demo", "leader": {"name": "lead"}, "deploy": True}
    assert (await person.client.post("/api/teams", json=body)).status_code == 201
    key = await gateway.api_key(person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


CREATE = ("webhooks", "create", "Issues", "--team", "Crew", "--prompt", "Look: {{issue.title}}")


async def send(url: str, **body: object) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.post(url, json=body)


async def test_life_of_a_webhook(owner: Cli) -> None:
    assert "agentos webhooks create" in (await owner("webhooks", "list")).out
    made = (await owner(*CREATE)).out
    token = re.search(r"^  (whk_\S+)$", made, re.MULTILINE)
    line = re.search(r"^  (curl .*)$", made, re.MULTILINE)
    assert token is not None
    assert line is not None
    url = shlex.split(line[1])[3]
    assert url == f"{owner.env['AGENTOS_URL']}/api/hooks/{token[1]}"
    assert (await send(url, issue={"title": "It broke"})).status_code == 202
    (run,) = (await owner("webhooks", "runs", "Issues", "--json")).json
    assert run["prompt"] == "Look: It broke"
    shown = (await owner("webhooks", "show", "issues")).out
    assert "Starts    team Crew, 20 at once at most" in shown
    assert "\nLook: {{issue.title}}\n" in shown
    assert token[1] not in shown, "it is shown once"
    listed = (await owner("webhooks", "list")).out
    assert re.search(r"Issues +yes +\S+ +team Crew +running \d{4}-\S+ \S+ ", listed)
    assert re.search(r"\nLast run  running \d{4}-", shown)
    rotated = (await owner("webhooks", "rotate", "Issues", "--json")).json
    assert rotated["url"].endswith(rotated["token"])
    assert rotated["token"] != token[1]
    assert (await owner("webhooks", "disable", "Issues")).out.endswith("is disabled.\n")
    assert (await send(rotated["url"], issue={"title": "x"})).status_code == 401
    await owner("webhooks", "enable", "Issues")
    assert "--yes" in (await owner("webhooks", "delete", "Issues", code=2)).err
    await owner("webhooks", "delete", "Issues", "--yes")
    assert (await owner("webhooks", "show", "Issues", code=5)).err


async def test_change_a_webhook(owner: Cli, tmp_path: Path) -> None:
    made = (await owner(*CREATE, "--json")).json
    update = ("webhooks", "update", "issues")
    assert (await owner(*update, "--max-unfinished", "3")).out == "Changed the webhook Issues.\n"
    now = (await owner("webhooks", "show", "Issues", "--json")).json
    same = ("name", "prompt", "team_id", "enabled", "token_hint")
    assert [now[name] for name in same] == [made[name] for name in same]
    assert now["max_unfinished"] == 3
    off = await owner(*update, "--name", "Bugs", "--prompt", "See {{body}}", "--disable")
    assert off.out == "Changed the webhook Bugs; it is disabled.\n"
    on = (await owner("webhooks", "update", "Bugs", "--enable", "--json")).json
    assert (on["prompt"], on["enabled"]) == ("See {{body}}", True)
    assert (await send(made["url"], a=1)).status_code == 202, "its address stays"
    place = tmp_path / "session.json"
    place.write_text('{"prompt": "Hello {{name}}", "model": "demo"}')
    create = ("webhooks", "create", "Hello", "--session-file", str(place), "--json")
    hello = (await owner(*create)).json
    other = await owner("webhooks", "update", "Hello", "--prompt", "Bye {{name}}", "--json")
    assert other.json["session"] == {**hello["session"], "prompt": "Bye {{name}}"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "agentos webhooks update --help"),
        (("--prompt", "{{"), "{{"),
        (("--max-unfinished", "100000"), "10000"),
        (("--name", ""), "name"),
    ],
)
async def test_no_change_of_a_webhook(owner: Cli, options: tuple[str, ...], said: str) -> None:
    await owner(*CREATE)
    before = (await owner("webhooks", "show", "Issues", "--json")).json
    assert said in (await owner("webhooks", "update", "Issues", *options, code=2)).err
    assert (await owner("webhooks", "show", "Issues", "--json")).json == before


async def test_change_a_post_action(owner: Cli, tmp_path: Path) -> None:
    await owner(*CREATE)
    await owner("vault", "set", "TOKEN", stdin="secret\n")
    create = ("post-actions", "create", "Tell", "--to", "https://chat.example.com/a", "--json")
    made = (await owner(*create, "--webhook", "Issues", "--header", "X-A: b")).json
    update = ("post-actions", "update", "tell")
    done = await owner(*update, "--after", "failure")
    assert done.out == "Changed the post-action Tell.\n"
    (now,) = (await owner("post-actions", "list", "--json")).json
    assert now == {**made, "after": "failure", "updated_at": now["updated_at"]}
    body = tmp_path / "body.txt"
    body.write_text("{{run.state}}")
    more = ("--to", "https://chat.example.com/b", "--method", "put", "--header", "X-B: c")
    other = ("--body-file", str(body), "--auth", "bearer:TOKEN", "--max-attempts", "2")
    now = (await owner(*update, *more, *other, "--disable", "--json")).json
    changed = {
        "url": "https://chat.example.com/b",
        "method": "PUT",
        "headers": {"X-B": "c"},
        "body": "{{run.state}}",
        "max_attempts": 2,
        "enabled": False,
    }
    assert {name: now[name] for name in changed} == changed
    assert now["auth"]["secret"] == "TOKEN"
    bare = await owner(*update, "--no-headers", "--no-body", "--auth", "none", "--json")
    assert (bare.json["headers"], bare.json["body"]) == ({}, None)
    assert bare.json["auth"]["kind"] == "none"
    shown = await owner(*update, "--name", "Say")
    assert shown.out == "Changed the post-action Say; it is disabled.\n"


async def test_no_change_of_a_post_action(owner: Cli) -> None:
    await owner(*CREATE)
    create = ("post-actions", "create", "Tell", "--to", "https://chat.example.com/a", "--json")
    made = (await owner(*create, "--webhook", "Issues")).json
    for options, said in (
        ((), "agentos post-actions update --help"),
        (("--after", "odd"), "success, failure, any"),
        (("--method", "BREW"), "POST, PUT"),
        (("--header", "x"), "Name: value"),
        (("--header", "A: b", "--no-headers"), "--no-headers"),
        (("--to", "ftp://x.example"), "http"),
        (("--auth", "bearer:NOBODY"), "NOBODY"),
    ):
        assert said in (await owner("post-actions", "update", "Tell", *options, code=2)).err
    assert (await owner("post-actions", "update", "nobody", "--name", "x", code=5)).err
    assert (await owner("post-actions", "list", "--json")).json == [made]


async def test_what_is_wrong(owner: Cli) -> None:
    create = ("webhooks", "create", "x")
    assert "--session-file" in (await owner(*create, code=2)).err
    lost = await owner(*create, "--team", "nobody", "--prompt", "y", code=5)
    assert "no team 'nobody'" in lost.err
    bad = await owner(*create, "--team", "Crew", "--prompt", "{{", code=2)
    assert "{{" in bad.err
    assert (
        "Nothing was sent"
        in (await owner("webhooks", "runs", (await owner(*CREATE, "--json")).json["id"])).out
    )


async def test_post_actions(owner: Cli, tmp_path: Path) -> None:
    assert "agentos post-actions create" in (await owner("post-actions", "list")).out
    await owner(*CREATE)
    await owner("vault", "set", "TOKEN", stdin="secret\n")
    body = tmp_path / "body.json"
    body.write_text('{"text": "{{run.result}}"}')
    create = ("post-actions", "create", "Tell", "--to", "https://chat.example.com/{{run.state}}")
    made = await owner(
        *(*create, "--webhook", "Issues", "--after", "failure", "--method", "put", "--json"),
        *("--header", "X-A: b: c", "--auth", "bearer:TOKEN", "--body-file", str(body)),
    )
    assert made.json["headers"] == {"X-A": "b: c"}
    assert made.json["auth"]["secret"] == "TOKEN"
    assert (made.json["method"], made.json["after"]) == ("PUT", "failure")
    listed = (await owner("post-actions", "list", "--webhook", "Issues")).out
    assert re.search(r"Tell +failure +PUT https://chat\S+ +bearer TOKEN +yes ", listed)
    url = (await owner("webhooks", "rotate", "Issues", "--json")).json["url"]
    fired = (await send(url, issue={"title": "x"})).json()
    assert "No post-action" in (await owner("post-actions", "deliveries", fired["run_id"])).out
    await owner("post-actions", "delete", "tell", "--yes")
    assert (await owner("post-actions", "delete", "tell", "--yes", code=5)).err
    assert (await owner(*create, code=2)).err
    for wrong in (
        ("--after", "odd"),
        ("--method", "BREW"),
        ("--header", "x"),
        ("--auth", "bearer"),
        ("--auth", "basic:user"),
    ):
        assert (await owner(*create, "--webhook", "Issues", *wrong, code=2)).err
