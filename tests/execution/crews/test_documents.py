"""Teams as documents: what is exported can be imported, and nothing else gets in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.execution.crews.team_lab import Teams, teams

from agentos.execution.crews import documents
from agentos.execution.crews.errors import BadTeam, TeamTooLarge, UnreadableTeam
from agentos.execution.crews.schemas import (
    AgentPut,
    Permissions,
    Skill,
    TeamCreate,
    TeamDefinition,
)
from agentos.integrations.tools.schemas import McpServer, SecretValue

__all__ = ["teams"]

TEAM = TeamDefinition(
    name="Crew",
    leader=AgentPut(name="lead", role="Leads", instructions="First line.\n  - indented\n"),
    workers=[AgentPut(name="tester", permissions=Permissions(denied_commands=["rm *"]))],
    skills=[Skill(name="s", description="d", instructions="i", files={"a/b.txt": "x\ny\n"})],
    mcp_servers=[
        McpServer(name="hub", url="https://hub.io", headers={"A": SecretValue(secret="token")})
    ],
)


def test_a_document_says_what_does_not_go_without_saying() -> None:
    assert documents.write(TEAM) == snapshot("""\
name: Crew
provider: native
model: auto
leader:
  name: lead
  role: Leads
  instructions: |
    First line.
      - indented
workers:
- name: tester
  permissions:
    denied_commands:
    - rm *
skills:
- name: s
  description: d
  instructions: i
  files:
    a/b.txt: |
      x
      y
mcp_servers:
- name: hub
  url: https://hub.io
  headers:
    A:
      secret: token
""")


def test_it_can_be_read_again_as_yaml_and_as_json() -> None:
    assert documents.read(documents.write(TEAM).encode()) == TeamCreate(**dict(TEAM))
    text = TEAM.model_dump_json().encode()
    assert documents.read(text, "application/json") == TeamCreate(**dict(TEAM))


# Storable text: what a team's check lets through.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)
LINES = st.lists(TEXT | st.sampled_from(["", " ", "\t", "- a", "# b", "...", "---", "a: b"])).map(
    "\n".join
)


@given(instructions=LINES, path=st.sampled_from(["a", "b/c.md", "yes", "1"]), file=LINES)
def test_every_character_survives(instructions: str, path: str, file: str) -> None:
    team = TeamDefinition(
        name="Crew",
        leader=AgentPut(name="lead", instructions=instructions),
        skills=[Skill(name="s", description="d", instructions="i", files={path: file})],
    )
    assert documents.read(documents.write(team).encode()) == TeamCreate(**dict(team))


BOMB = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c]\n" % (n + 1, n + 1, n, n, n) for n in range(ord("a"), ord("p"))
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", BadTeam),
        (b"[]", BadTeam),
        (b"name: x", BadTeam),
        (b"name: x\nleader: {name: lead}\nprovider: other", BadTeam),
        (b"name: x\nleader: {name: lead}\nextra: 1", BadTeam),
        (b"{", UnreadableTeam),
        (b"\xff\xfe\xff", UnreadableTeam),
        (b"name: !!python/object/apply:os.system [ls]", UnreadableTeam),
        (b"name: x\nname: y\nleader: {name: lead}", UnreadableTeam),
        (b"name: .inf", UnreadableTeam),
        (b"name: x\nleader: {name: lead}\n" + BOMB, TeamTooLarge),
        (b"[" * 1000, TeamTooLarge),
        (b"x" * 2_000_000, TeamTooLarge),
        (b"a: &a [*a]", UnreadableTeam),
    ],
)
def test_what_is_no_team(text: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        documents.read(text)
    assert "chain" not in str(raised.value).lower()


def test_a_refusal_never_repeats_what_was_given() -> None:
    with pytest.raises(BadTeam) as raised:
        documents.read(b"name: x\nleader: {name: lead}\nmcp_servers: [{name: a, url: s3cr3t}]")
    assert "s3cr3t" not in raised.value.message
    assert "mcp_servers.0.url" in raised.value.message


async def test_a_team_is_exported_and_imported(teams: Teams) -> None:
    await teams.client.put("/api/vault/token", json={"value": "s3cr3t-value"})
    made = await teams.client.post("/api/teams", json=TEAM.model_dump(mode="json"))
    path = f"/api/teams/{made.json()['id']}/export"
    exported = await teams.client.get(path)
    assert exported.headers["content-type"].startswith("application/yaml")
    assert exported.headers["content-disposition"] == 'attachment; filename="crew.yaml"'
    assert exported.text == documents.write(TEAM)
    yaml_type = {"content-type": "application/yaml"}
    taken = await teams.client.post(
        "/api/teams/import", content=exported.content, headers=yaml_type
    )
    assert (taken.status_code, taken.json()["code"]) == (409, "team_name_taken")
    imported = await teams.client.post(
        "/api/teams/import",
        params={"name": "Copy"},
        content=exported.content,
        headers=yaml_type,
    )
    assert imported.status_code == 201, imported.text
    same = {"leader", "workers", "skills", "mcp_servers", "model", "provider"}
    assert {name: imported.json()[name] for name in same} == {
        name: made.json()[name] for name in same
    }
    stranger = await teams.gateway.tenant()
    refused = await stranger.client.post(
        "/api/teams/import", content=exported.content, headers=yaml_type
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "secret_missing")


async def test_bad_documents_are_problems(teams: Teams) -> None:
    for content, kind in ((b"{", "application/json"), (b"{", ""), (b"", "text/plain")):
        answer = await teams.client.post(
            "/api/teams/import", content=content, headers={"content-type": kind}
        )
        assert answer.status_code == 422, answer.text
    as_json = await teams.client.post(
        "/api/teams/import", json={"name": "J", "leader": {"name": "lead"}, "deploy": True}
    )
    assert (as_json.status_code, as_json.json()["status"]) == (201, "running")
