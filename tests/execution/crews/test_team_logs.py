"""The log of a team through the API, and what its lines may hold."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.execution.crews.native_lab import TeamLab, lab, settings  # noqa: F401 - fixtures

from agentos.execution.crews.logs import repository
from agentos.execution.crews.logs.lines import (
    MOST_CHARACTERS,
    Line,
    printed,
    server_lines,
    status_line,
    told,
)
from agentos.kernel.ids import uuid7
from agentos.kernel.redaction import MASK
from agentos.tenancy.principals import Scope

# ruff: noqa: F811 - fixtures are arguments, too


async def page_of(lab: TeamLab, team_id: UUID, expect: int = 200, **query: Any) -> Any:
    answer = await lab.client.get(f"/api/teams/{team_id}/logs", params=query)
    assert answer.status_code == expect, answer.text
    return answer.json()


async def texts(lab: TeamLab, team_id: UUID, **query: Any) -> list[str]:
    """Of the newest lines, oldest first."""
    return [line["text"] for line in (await page_of(lab, team_id, **query))["items"]][::-1]


async def put(lab: TeamLab, team_id: UUID, *lines: Line) -> None:
    async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
        await repository.write(tx, lab.person.tenant_id, team_id, lab.clock.now(), *lines)


async def test_what_people_do_to_a_native_team_is_told(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    path = f"/api/teams/{team_id}"
    await lab.post(f"{path}/deploy")
    answer = await lab.client.patch(path, json={"description": "New", "model": "auto"})
    assert answer.status_code == 200, answer.text
    await lab.post(f"{path}/restart")
    await lab.post(f"{path}/stop")
    # What changes nothing is not told.
    await lab.post(f"{path}/stop")
    await lab.client.patch(path, json={"description": "New"})
    name = (await lab.client.get(path)).json()["created_by"]
    assert await texts(lab, team_id) == [
        f"Created by {name}.",
        f"Deployed by {name}.",
        "Status: running.",
        f"Version 2 by {name}: description, model.",
        f"Restarted by {name}.",
        f"Stopped by {name}.",
        "Status: stopped.",
    ]
    newest = (await page_of(lab, team_id))["items"][0]
    assert list(newest) == ["id", "at", "level", "source", "text"]
    assert (newest["level"], newest["source"]) == ("info", "team")


async def test_a_change_that_fails_leaves_no_line(lab: TeamLab) -> None:
    team_id = await lab.team()
    before = await texts(lab, team_id)
    answer = await lab.client.patch(f"/api/teams/{team_id}", json={"model": "no/such"})
    assert answer.status_code == 404
    await lab.post("/api/teams", 201, name="Other", leader={"name": "lead"})
    taken = await lab.client.patch(f"/api/teams/{team_id}", json={"name": "other"})
    assert taken.status_code == 409
    assert await texts(lab, team_id) == before


async def test_pages_and_levels(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    await put(lab, team_id, told("one", "warning"), told("two"), told("three", "error"))
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = await page_of(lab, team_id, **query)
        assert len(page["items"]) <= 2
        seen += [line["text"] for line in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen[:3] == ["three", "two", "one"]
    assert len(seen) == 4
    assert await texts(lab, team_id, level="warning") == ["one", "three"]
    assert await texts(lab, team_id, level="error") == ["three"]
    first = await page_of(lab, team_id, level="warning", limit=1)
    rest = await page_of(lab, team_id, level="warning", limit=1, cursor=first["next_cursor"])
    assert [line["text"] for line in rest["items"]] == ["one"]
    assert rest["next_cursor"] is None
    for bad in ({"level": "loud"}, {"limit": 0}, {"cursor": "!"}, {"cursor": "eA"}):
        assert (await page_of(lab, team_id, 422, **bad))["code"]


async def test_only_of_ones_own_teams_and_with_the_scope(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    stranger = await lab.gateway.tenant()
    bodies = [
        (await stranger.client.get(f"/api/teams/{wanted}/logs")).json()
        for wanted in (team_id, uuid7())
    ]
    assert [body["code"] for body in bodies] == ["team_not_found"] * 2
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset({Scope.MESSAGES_READ}))
    client = await lab.gateway.client(key)
    assert (await client.get(f"/api/teams/{team_id}/logs")).status_code == 403


async def test_the_newest_thousand_are_kept(lab: TeamLab) -> None:
    team_id, other = await lab.team(deploy=False), await lab.team(name="Other", deploy=False)
    for first in range(0, 1100, 150):
        await put(lab, team_id, *(told(str(n)) for n in range(first, first + 150)))
    kept = await lab.superuser.fetch(
        "select text from team_logs where team_id = $1 order by id", team_id
    )
    assert [row["text"] for row in kept] == [str(n) for n in range(200, 1200)]
    await put(lab, team_id, told("last"))
    rows = await lab.superuser.fetch(
        "select text from team_logs where team_id = $1 order by id", team_id
    )
    assert (len(rows), rows[0]["text"], rows[-1]["text"]) == (1000, "201", "last")
    assert len(await texts(lab, other)) == 1, "another team's lines stay"


async def test_more_lines_than_are_kept_at_once(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    await put(lab, team_id, *(told(str(n)) for n in range(1500)))
    rows = await lab.superuser.fetch(
        "select text from team_logs where team_id = $1 order by id", team_id
    )
    assert [row["text"] for row in rows] == [str(n) for n in range(500, 1500)]


async def test_lines_go_with_their_team(lab: TeamLab) -> None:
    team_id = await lab.team(deploy=False)
    await put(lab, team_id, told("still here"))
    assert (await lab.client.delete(f"/api/teams/{team_id}")).status_code == 204
    assert await lab.superuser.fetchval("select count(*) from team_logs") == 0
    await page_of(lab, team_id, 404)


# What a line may hold -------------------------------------------------------------------------------


def test_what_an_agent_prints_is_made_fit_to_be_kept() -> None:
    raw = [
        "\x1b[31mError:\x1b[0m no\0 luck\r",
        "",
        "   ",
        "\x1b]8;;https://example.com\x07a link\x1b]8;;\x07\ttab",
        "half a pair \ud800",
        "x" * 10_000,
    ]
    lines = printed(raw)
    assert [line.text for line in lines[:3]] == ["Error: no luck", "a link\ttab", "half a pair ?"]
    assert [len(line.text) for line in lines[3:]] == [MOST_CHARACTERS]
    assert {line.source for line in lines} == {"agent"}


def test_secrets_are_masked_also_over_several_lines() -> None:
    key = "sk-" + "a1" * 20
    lines = [
        f"using {key}",
        "-----BEGIN PRIVATE KEY-----",
        "MIIBVgIBADANBgkqhkiG9w0B",
        "-----END PRIVATE KEY-----",
        "after",
        # Cut before it is masked, the key would pass for something else.
        "y" * (MOST_CHARACTERS - 10) + " " + key,
    ]
    text = "\n".join(line.text for line in printed(lines))
    assert key[:8] not in text
    assert "MIIBVg" not in text
    assert text.startswith(f"using {MASK}\n{MASK}\nafter\n")
    assert key[:8] not in told(f"It said last: {key}").text


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Error: it broke", "error"),
        ("java.lang.Exception", "error"),
        ("WARN deprecated", "warning"),
        ("warning: low on ink", "warning"),
        ("no errors at all", "info"),
        ("all is well", "info"),
    ],
)
def test_how_much_a_line_matters_is_guessed(text: str, level: str) -> None:
    assert [line.level for line in printed([text])] == [level]


def test_lines_of_statuses_and_servers() -> None:
    assert status_line("error", "It is gone.") == Line(
        "error", "team", "Status: error. It is gone."
    )
    assert status_line("repairing", None).level == "warning"
    well = {"notes": {"status": "connected", "error": ""}}
    ill = {"notes": {"status": "failed", "error": "refused"}}
    assert server_lines({}, well) == [Line("info", "team", "MCP server notes: connected.")]
    assert server_lines(well, well) == []
    assert server_lines(well, ill) == [Line("warning", "team", "MCP server notes: failed. refused")]
