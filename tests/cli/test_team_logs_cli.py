"""`agentos teams logs`."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from tests.gateways import Gateway

from agentos.cli import team_logs
from agentos.cli.client import Client
from agentos.cli.failures import GatewayError
from agentos.cli.profile import SignIn

from .conftest import Cli, FakeGateway, Request


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    key = await gateway.api_key((await gateway.tenant()).tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


async def test_what_a_team_lived_through(owner: Cli) -> None:
    await owner(
        *("teams", "create", "--template", "software-crew", "--name", "Builders"),
        *("--model", "demo", "--deploy"),
    )
    shown = (await owner("teams", "logs", "builders")).out.splitlines()
    assert len(shown) == 3
    assert re.fullmatch(r"\S+ \S+  info     team   Created by test\.", shown[0])
    assert shown[2].endswith("Status: running.")
    rows = (await owner("teams", "logs", "Builders", "--limit", "2", "--json")).json
    assert [row["text"] for row in rows] == ["Deployed by test.", "Status: running."]
    none = await owner("teams", "logs", "Builders", "--level", "error")
    assert none.out == "Nothing is known of it.\n"
    assert (
        "info, warning, error"
        in (await owner("teams", "logs", "Builders", "--level", "loud", code=2)).err
    )
    assert (await owner("teams", "logs", "Nobody", code=5)).err


def _line(n: int) -> dict[str, Any]:
    return {"id": f"{n:04}", "at": "2030-01-01T00:00:00Z", "text": str(n)}


def test_what_comes_is_followed(fake: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_logs, "_LOOK_SECONDS", 0.0)
    busy = (503, {"code": "unavailable", "detail": "Not now."})
    answers = iter(
        [
            (200, {"items": [_line(4), _line(3)], "next_cursor": "more"}),
            (200, {"items": [_line(2), _line(1)], "next_cursor": None}),
            # A request that fails is made again, and then looked at again a moment later.
            busy,
            busy,
            (200, {"items": [_line(4)], "next_cursor": "more"}),
            (200, {"items": [_line(5), _line(4)], "next_cursor": None}),
            (403, {"code": "forbidden", "detail": "No."}),
        ]
    )

    def handle(_: Request) -> Any:
        return next(answers)

    fake.handler = handle
    client = Client(fake.url, SignIn(api_key="sk"))
    stream = team_logs.new_lines(client, "/api/teams/x/logs", "info", "0001")
    assert [line["text"] for line in itertools.islice(stream, 4)] == ["2", "3", "4", "5"]
    with pytest.raises(GatewayError, match="No"):
        next(stream)
