"""The teams to start from."""

from __future__ import annotations

import pytest
from tests.execution.crews.team_lab import Teams, teams

from agentos.execution.crews import documents
from agentos.execution.crews.layouts.rendering import LAYOUTS
from agentos.execution.crews.schemas import TeamCreate, TemplateRead
from agentos.execution.crews.templates import described, templates

__all__ = ["teams"]

_MOST_WORDS = 260


def test_these_are_there() -> None:
    assert list(templates()) == [
        "content-studio",
        "data-analysts",
        "personal-assistant",
        "research-desk",
        "software-crew",
        "support-triage",
    ]


@pytest.mark.parametrize("template_id", templates())
def test_each_is_a_team_with_work_for_everybody(template_id: str) -> None:
    team = templates()[template_id]
    assert team.provider == "native"
    assert team.description.endswith(".")
    assert 1 <= len(team.workers) <= 4
    for agent in (team.leader, *team.workers):
        assert agent.role
        assert 40 <= len(agent.instructions.split()) <= _MOST_WORDS, agent.name
    # A leader that never names a worker would not call it.
    for worker in team.workers:
        assert f"`{worker.name}`" in team.leader.instructions


@pytest.mark.parametrize("shown", described(), ids=lambda shown: shown.id)
def test_what_is_shown_makes_the_same_team(shown: TemplateRead) -> None:
    read = TeamCreate.model_validate(shown.definition)
    assert read.model_dump() == templates()[shown.id].model_dump()
    assert documents.read(documents.write(read).encode()) == read


async def test_teams_are_made_of_templates(teams: Teams) -> None:
    listed = (await teams.client.get("/api/team-templates")).json()
    assert [each["id"] for each in listed] == list(templates())
    for each in listed:
        answer = await teams.client.post(f"/api/team-templates/{each['id']}/create", json={})
        assert answer.status_code == 201, answer.text
        assert answer.json()["name"] == each["name"]
        assert answer.json()["agents"] == len(each["agents"])


async def test_what_is_to_be_different(teams: Teams) -> None:
    path = "/api/team-templates/research-desk/create"
    body = {"name": "My desk", "provider": "claude-code", "model": "demo", "deploy": True}
    made = (await teams.client.post(path, json=body)).json()
    assert (made["name"], made["provider"], made["runtime"]) == ("My desk", "claude-code", "local")
    assert (made["model"], made["status"]) == ("demo", "starting")
    taken = await teams.client.post(path, json={"name": "MY DESK"})
    assert (taken.status_code, taken.json()["code"]) == (409, "team_name_taken")
    commandless = await teams.client.post(path, json={"provider": "acp"})
    assert (commandless.status_code, commandless.json()["code"]) == (422, "bad_team")
    acp = {"provider": "acp", "command": ["agent"]}
    assert (await teams.client.post(path, json=acp)).status_code == 201
    none = await teams.client.post("/api/team-templates/..%2Fx/create", json={})
    assert none.status_code == 404
    none = await teams.client.post("/api/team-templates/none/create", json={})
    assert (none.status_code, none.json()["code"]) == (404, "template_not_found")


def test_every_cli_provider_has_a_layout() -> None:
    assert set(LAYOUTS) == {"claude-code", "opencode", "acp"}
