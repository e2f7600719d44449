"""The list of sessions: what its filters leave, and that pages of it fit together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab

from agentos.kernel.ids import uuid7


async def titles(lab: Lab, **query: Any) -> list[str]:
    answer = await lab.client.get("/api/sessions", params=query)
    assert answer.status_code == 200, answer.text
    return [item["title"] for item in answer.json()["items"]]


async def scribes(lab: Lab) -> str:
    body = {"name": "Scribes", "model": "demo", "leader": {"name": "lead"}}
    answer = await lab.client.post("/api/teams", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("parser", ["Test the PARSER", "Fix the parser"]),
        ("the fix", ["Fix the parser"]),
        ("pars", ["Test the PARSER", "Fix the parser"]),
        ("übersicht", ["Übersicht 100%_a\\b"]),
        # Not patterns: a sign stands for itself.
        ("%", ["Übersicht 100%_a\\b"]),
        ("_", ["Übersicht 100%_a\\b"]),
        ("a\\b", ["Übersicht 100%_a\\b"]),
        ("P%R", []),
        ("pars_r", []),
        ("parser übersicht", []),
        ("'; drop table sessions --", []),
        ("", ["Übersicht 100%_a\\b", "Test the PARSER", "Fix the parser"]),
        ("   ", ["Übersicht 100%_a\\b", "Test the PARSER", "Fix the parser"]),
    ],
)
async def test_words_are_looked_for_in_titles(lab: Lab, q: str, found: list[str]) -> None:
    for title in ("Fix the parser", "Test the PARSER", "Übersicht 100%_a\\b"):
        await lab.create(title=title)
    assert await titles(lab, q=q) == found


async def test_bad_words_are_refused(lab: Lab) -> None:
    for q in ("a\0b", "x" * 201):
        answer = await lab.client.get("/api/sessions", params={"q": q})
        assert answer.status_code == 422


async def test_filters_add_up(lab: Lab) -> None:
    team = await scribes(lab)
    await lab.create(title="one", run=False)
    await lab.create(title="two", team_id=team, run=False)
    await lab.create(title="three", team_id=team)
    assert await titles(lab, team_id=team) == ["three", "two"]
    assert await titles(lab, team_id=str(uuid7())) == []
    assert await titles(lab, state="CREATED") == ["two", "one"]
    assert await titles(lab, state=["QUEUED", "CREATED"]) == ["three", "two", "one"]
    assert await titles(lab, state="CREATED", team_id=team, q="t") == ["two"]
    assert (await lab.client.get("/api/sessions?state=LOST")).status_code == 422


async def test_other_tenants_are_not_searched(lab: Lab) -> None:
    team = await scribes(lab)
    await lab.create(title="ours", team_id=team)
    stranger = await lab.gateway.tenant()
    for query in ("q=ours", f"team_id={team}"):
        assert (await stranger.client.get(f"/api/sessions?{query}")).json()["items"] == []


async def test_pages_of_a_search_fit_together(lab: Lab) -> None:
    wanted: list[str] = []
    for number in range(11):
        wanted.insert(0, f"wanted {number}")
        await lab.create(title=f"wanted {number}")
        await lab.create(title=f"other {number}")
    found: list[str] = []
    query = {"q": "WANTED", "limit": "4"}
    sizes = []
    while True:
        page = (await lab.client.get("/api/sessions", params=query)).json()
        found += [item["title"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert (found, sizes) == (wanted, [4, 4, 3])
