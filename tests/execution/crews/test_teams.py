"""Teams through the API: made, changed, started, stopped and removed."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.conftest import TenantWork
from tests.execution.crews.team_lab import Teams, teams

from agentos.execution.crews import repository, service
from agentos.execution.crews.hints import CHANGED_SUBJECT
from agentos.kernel.bus import Bus, Message
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Forbidden, Role, Scope

__all__ = ["teams"]

WORKER = {"name": "tester", "role": "Tests", "instructions": "Test all of it."}


# What a team is told to be ----------------------------------------------------------------------


async def test_a_team_is_made_and_read(teams: Teams) -> None:
    made = await teams.create(
        workers=[WORKER],
        skills=[{"name": "deploy", "description": "How to deploy", "instructions": "Push."}],
        allowed_hosts=["api.example.com"],
        answer_seconds=60,
    )
    assert made["provider"] == "native"
    assert made["runtime"] is None
    assert (made["status"], made["deployed"], made["version"]) == ("stopped", False, 1)
    assert (made["agents"], made["waiting"]) == (2, 0)
    assert made["leader"]["leader"] is True
    assert made["workers"][0]["instructions"] == "Test all of it."
    assert made["workers"][0]["leader"] is False
    assert made["skills"][0]["files"] == {}
    read = await teams.client.get(f"/api/teams/{made['id']}")
    assert read.json() == made
    assert (await teams.events("team.created")) == [
        {"team_id": made["id"], "name": "Crew", "provider": "native"}
    ]
    assert await teams.actions() == ["team.created"]


async def test_a_cli_team_runs_on_this_machine_unless_told_otherwise(teams: Teams) -> None:
    assert (await teams.cli())["runtime"] == "local"
    docker = await teams.create("D", provider="opencode", runtime="docker")
    assert docker["runtime"] == "docker"
    acp = await teams.create("A", provider="acp", command=["my-agent", "--acp"])
    assert acp["command"] == ["my-agent", "--acp"]


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "no/such"}, 404, "model_not_found"),
    ({"leader": {"name": "lead", "model": "no/such"}}, 404, "model_not_found"),
    ({"allowed_hosts": ["http://x"]}, 422, "bad_allowed_host"),
    ({"allowed_hosts": ["127.0.0.1"]}, 422, "bad_allowed_host"),
    (
        {
            "mcp_servers": [
                {"name": "x", "url": "https://x.io", "headers": {"A": {"secret": "nope"}}}
            ]
        },
        422,
        "secret_missing",
    ),
    ({"leader": {"name": "lead", "permissions": {"tools": ["Bash"]}}}, 422, "unknown_tool"),
    ({"description": "a\0b"}, 422, "bad_team"),
    ({"leader": {"name": "Lead"}}, 422, "invalid"),
    ({"leader": {"name": "a" * 64}}, 422, "invalid"),
    ({"leader": {"name": "lead", "role": "a\nb"}}, 422, "invalid"),
    ({"workers": [{"name": "lead"}]}, 422, "invalid"),
    ({"leader": {"name": "lead", "skills": ["none"]}}, 422, "invalid"),
    ({"provider": "acp"}, 422, "invalid"),
    ({"provider": "claude-code", "command": ["x"]}, 422, "invalid"),
    ({"runtime": "docker"}, 422, "invalid"),
    ({"provider": "other"}, 422, "invalid"),
    ({"answer_seconds": 10**30}, 422, "invalid"),
    ({"nonsense": 1}, 422, "invalid"),
]


async def test_what_no_team_can_work_by_is_refused(teams: Teams) -> None:
    for given, status, code in REFUSED:
        body = {"name": "Crew", "leader": {"name": "lead"}, **given}
        answer = await teams.client.post("/api/teams", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), (given, answer.text)
    assert (await teams.client.get("/api/teams")).json()["items"] == []


async def test_files_of_a_skill_stay_within_it(teams: Teams) -> None:
    odd = ["../x", "/x", "a//b", "./a", "a/..", ".", "", "SKILL.md", "skill.md", "a\nb", "x" * 300]
    for path in odd:
        skill = {"name": "s", "description": "d", "instructions": "i", "files": {path: "x"}}
        body = {"name": "Crew", "leader": {"name": "lead"}, "skills": [skill]}
        assert (await teams.client.post("/api/teams", json=body)).status_code == 422, path


async def test_a_file_of_a_skill_is_no_directory_of_another(teams: Teams) -> None:
    files = {"a": "x", "a/b": "x"}
    skill = {"name": "s", "description": "d", "instructions": "i", "files": files}
    body = {"name": "Crew", "leader": {"name": "lead"}, "skills": [skill]}
    assert (await teams.client.post("/api/teams", json=body)).status_code == 422


async def test_a_team_that_is_too_large_is_refused(teams: Teams) -> None:
    workers = [{"name": f"w{n}", "instructions": "x" * 200_000} for n in range(5)]
    body = {"name": "Crew", "leader": {"name": "lead"}, "workers": workers}
    answer = await teams.client.post("/api/teams", json=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "team_too_large")


async def test_names_are_taken_whatever_their_case(teams: Teams) -> None:
    first = await teams.create("Crew")
    other = await teams.create("Other")
    body = {"name": "cREW", "leader": {"name": "lead"}}
    answer = await teams.client.post("/api/teams", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "team_name_taken")
    assert (await teams.patch(other, name="CREW")).status_code == 409
    assert (await teams.patch(first, name="CREW")).status_code == 200
    stranger = await teams.gateway.tenant()
    assert (await stranger.client.post("/api/teams", json=body)).status_code == 201


async def test_two_at_once_cannot_have_the_same_name(teams: Teams) -> None:
    body = {"name": "Crew", "leader": {"name": "lead"}}
    answers = await asyncio.gather(*(teams.client.post("/api/teams", json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]


async def test_lists_are_paged_and_filtered(teams: Teams) -> None:
    names = ["Alpha", "Beta 100%", "beta_two"]
    for name in names:
        await teams.create(name)
    await teams.cli("Gamma", deploy=True)

    async def listed(**query: Any) -> list[str]:
        answer = await teams.client.get("/api/teams", params=query)
        assert answer.status_code == 200, answer.text
        return [item["name"] for item in answer.json()["items"]]

    assert await listed() == ["Gamma", "beta_two", "Beta 100%", "Alpha"]
    assert await listed(provider="claude-code") == ["Gamma"]
    assert await listed(status="stopped") == ["beta_two", "Beta 100%", "Alpha"]
    assert await listed(status="starting", provider="native") == []
    assert await listed(name="BETA") == ["beta_two", "Beta 100%"]
    assert await listed(name="%") == ["Beta 100%"]
    first = (await teams.client.get("/api/teams", params={"limit": 3})).json()
    assert await listed(limit=3, cursor=first["next_cursor"]) == ["Alpha"]
    for query in ({"status": "odd"}, {"name": "a\0"}, {"provider": "x"}):
        assert (await teams.client.get("/api/teams", params=query)).status_code == 422


async def test_an_update_makes_a_version_only_if_it_changes_something(teams: Teams) -> None:
    team = await teams.create(workers=[WORKER], description="Old")
    same = await teams.patch(team, description="Old", workers=[WORKER], name=None)
    assert same.json() == team
    answer = await teams.patch(team, description="New", leader={"name": "boss"}, model="demo")
    changed = answer.json()
    assert changed["version"] == 2
    assert (changed["description"], changed["leader"]["name"]) == ("New", "boss")
    assert changed["workers"] == team["workers"]
    assert await teams.events("team.updated") == [
        {"team_id": team["id"], "version": 2, "changed": ["description", "model", "leader"]}
    ]
    assert await teams.actions() == ["team.created", "team.updated"]


async def test_what_an_update_must_fit_together_with(teams: Teams) -> None:
    skill = {"name": "s", "description": "d", "instructions": "i"}
    team = await teams.create(skills=[skill], leader={"name": "lead", "skills": ["s"]})
    answer = await teams.patch(team, skills=[])
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_team")
    assert "lead has skills the team has not" in answer.json()["detail"]
    answer = await teams.patch(team, workers=[{"name": "lead"}])
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_team")
    answer = await teams.patch(team, command=["x"])
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_team")
    answer = await teams.patch(team, provider="claude-code")
    assert answer.status_code == 422
    assert "provider of a team cannot be changed" in answer.text
    assert (await teams.patch(team, model="no/such")).status_code == 404
    read = await teams.client.get(f"/api/teams/{team['id']}")
    assert read.json() == team


async def test_the_runtime_is_changed_only_while_the_team_is_stopped(teams: Teams) -> None:
    team = await teams.cli(deploy=True)
    answer = await teams.patch(team, runtime="docker")
    assert (answer.status_code, answer.json()["code"]) == (409, "team_deployed")
    await teams.post(team, "stop")
    assert (await teams.patch(team, runtime="docker")).json()["runtime"] == "docker"


async def test_single_agents_are_changed(teams: Teams) -> None:
    team = await teams.create()
    path = f"/api/teams/{team['id']}"
    added = await teams.client.put(f"{path}/workers/tester", json=WORKER)
    assert [w["name"] for w in added.json()["workers"]] == ["tester"]
    await teams.client.put(f"{path}/workers/writer", json={"name": "writer"})
    renamed = await teams.client.put(f"{path}/workers/tester", json={**WORKER, "name": "critic"})
    assert [w["name"] for w in renamed.json()["workers"]] == ["critic", "writer"]
    assert renamed.json()["version"] == 4
    taken = await teams.client.put(f"{path}/workers/critic", json={"name": "writer"})
    assert taken.json()["code"] == "bad_team"
    nobody = await teams.client.put(f"{path}/workers/nobody", json={"name": "somebody"})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "worker_not_found")
    leader = await teams.client.put(f"{path}/leader", json={"name": "chief", "role": "Decides"})
    assert leader.json()["leader"]["role"] == "Decides"
    removed = await teams.client.delete(f"{path}/workers/critic")
    assert [w["name"] for w in removed.json()["workers"]] == ["writer"]
    assert (await teams.client.delete(f"{path}/workers/critic")).status_code == 404
    assert (await teams.client.delete(f"{path}/workers/Not%20A%20Name")).status_code == 422


async def test_changes_at_once_are_all_kept(teams: Teams) -> None:
    team = await teams.create()
    answers = await asyncio.gather(
        *(
            teams.client.put(f"/api/teams/{team['id']}/workers/w{n}", json={"name": f"w{n}"})
            for n in range(5)
        )
    )
    assert {answer.status_code for answer in answers} == {200}
    read = (await teams.client.get(f"/api/teams/{team['id']}")).json()
    assert (read["version"], len(read["workers"])) == (6, 5)


async def test_secrets_are_named_and_never_shown(teams: Teams) -> None:
    await teams.client.put("/api/vault/token", json={"value": "s3cr3t-value"})
    server = {"name": "hub", "url": "https://hub.example", "headers": {"A": {"secret": "token"}}}
    team = await teams.create(mcp_servers=[server])
    assert team["mcp_servers"][0]["headers"] == {"A": {"secret": "token"}}
    exported = await teams.client.get(f"/api/teams/{team['id']}/export")
    assert "secret: token" in exported.text
    assert "s3cr3t-value" not in exported.text


# Whether it runs --------------------------------------------------------------------------------


async def test_a_native_team_runs_and_stops_at_once(teams: Teams) -> None:
    team = await teams.create(deploy=True)
    assert (team["status"], team["deployed"], team["reason"]) == ("running", True, None)
    assert (await teams.post(team, "deploy"))["status"] == "running"
    stopped = await teams.post(team, "stop")
    assert (stopped["status"], stopped["deployed"]) == ("stopped", False)
    assert await teams.post(team, "stop") == stopped
    team_id = UUID(team["id"])
    assert teams.native.told == [("deployed", team_id), ("stopped", team_id)]
    statuses = [event["status"] for event in await teams.events("team.status_changed")]
    assert sorted(statuses) == ["running", "stopped"]
    assert await teams.actions() == ["team.created", "team.deployed", "team.stopped"]


async def test_a_cli_team_waits_for_a_worker(teams: Teams) -> None:
    team = await teams.post(await teams.cli(), "deploy")
    assert (team["status"], team["reason"]) == ("starting", "Waiting for a worker.")
    # Nobody keeps it yet: then nobody has to stop it.
    stopped = await teams.post(team, "stop")
    assert (stopped["status"], stopped["reason"]) == ("stopped", None)
    assert teams.native.told == []


async def test_whoever_keeps_a_cli_team_says_when_it_has_stopped(teams: Teams) -> None:
    team = await teams.cli(deploy=True)
    await teams.superuser.execute(
        "update teams set owner = $2, status = 'running', reason = null where id = $1",
        UUID(team["id"]),
        uuid7(),
    )
    stopping = await teams.post(team, "stop")
    assert (stopping["status"], stopping["reason"]) == ("running", "Stopping.")
    assert stopping["deployed"] is False
    assert await teams.post(team, "stop") == stopping
    answer = await teams.client.delete(f"/api/teams/{team['id']}")
    assert (answer.status_code, answer.json()["detail"]) == (409, "The team is still stopping.")
    again = await teams.post(team, "deploy")
    assert (again["status"], again["deployed"]) == ("starting", True)


async def test_restart_raises_the_generation_and_forgets_crashes(teams: Teams) -> None:
    team = await teams.cli()
    answer = await teams.client.post(f"/api/teams/{team['id']}/restart")
    assert (answer.status_code, answer.json()["code"]) == (409, "team_not_deployed")
    await teams.post(team, "deploy")
    await teams.superuser.execute(
        "update teams set status = 'error', reason = 'x', crashes = '{now}', repairs = 2"
    )
    again = await teams.post(team, "restart")
    assert (again["status"], again["reason"]) == ("starting", "Waiting for a worker.")
    row = await teams.superuser.fetchrow("select generation, crashes, repairs from teams")
    assert row is not None
    assert tuple(row) == (1, [], 0)
    # One that was given up on is also tried again by deploying it.
    await teams.superuser.execute("update teams set status = 'error'")
    assert (await teams.post(team, "deploy"))["status"] == "starting"
    assert await teams.superuser.fetchval("select generation from teams") == 2


async def test_a_native_team_restarts(teams: Teams) -> None:
    team = await teams.create(deploy=True)
    team_id = UUID(team["id"])
    assert (await teams.post(team, "restart"))["status"] == "running"
    assert teams.native.told == [
        ("deployed", team_id),
        ("stopped", team_id),
        ("deployed", team_id),
    ]


async def test_the_plan_says_how_many_cli_teams_are_deployed_at_once(teams: Teams) -> None:
    await teams.superuser.execute(
        "update tenants set limits = '{\"deployed_teams\": 2}' where id = $1",
        teams.person.tenant_id,
    )
    made = [await teams.cli(f"Crew {n}") for n in range(4)]
    answers = await asyncio.gather(
        *(teams.client.post(f"/api/teams/{team['id']}/deploy") for team in made)
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 402, 402]
    native = await teams.create("Native", deploy=True)
    assert native["status"] == "running"
    body = {
        "name": "Late",
        "provider": "opencode",
        "deploy": True,
        "leader": {"name": "lead"},
    }
    assert (await teams.client.post("/api/teams", json=body)).status_code == 402
    listed = (await teams.client.get("/api/teams", params={"name": "Late"})).json()
    assert listed["items"] == []
    deployed = [team for team, answer in zip(made, answers, strict=True) if answer.is_success]
    await teams.post(deployed[0], "stop")
    assert (await teams.client.post("/api/teams", json=body)).status_code == 201


async def test_keepers_are_told_after_the_commit(teams: Teams, bus: Bus) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(message: Message) -> None:
        heard.put_nowait(message.data)

    subscription = await bus.subscribe(CHANGED_SUBJECT, hear)
    team = await teams.cli()
    await teams.post(team, "deploy")
    await teams.patch(team, description="New")
    async with asyncio.timeout(10):
        for _ in range(2):
            assert await heard.get() == UUID(team["id"]).bytes
    await subscription.unsubscribe()


# Removal ----------------------------------------------------------------------------------------


async def test_only_a_stopped_team_is_removed_with_all_it_has(teams: Teams) -> None:
    team = await teams.create(workers=[WORKER], deploy=True)
    team_id = UUID(team["id"])
    await teams.superuser.execute(
        """insert into team_messages (tenant_id, team_id, id, position, source, author,
               principal_kind, principal_id, text, state, created_at)
           values ($1, $2, $3, 1, 'chat', 'x', 'user', 'x', 'hi', 'queued', now())""",
        teams.person.tenant_id,
        team_id,
        uuid7(),
    )
    assert (await teams.client.get(f"/api/teams/{team_id}")).json()["waiting"] == 1
    answer = await teams.client.delete(f"/api/teams/{team_id}")
    assert (answer.status_code, answer.json()["code"]) == (409, "team_deployed")
    assert "Stop it first" in answer.json()["hint"]
    await teams.post(team, "stop")
    assert (await teams.client.delete(f"/api/teams/{team_id}")).status_code == 204
    assert (await teams.client.get(f"/api/teams/{team_id}")).status_code == 404
    for table in ("teams", "team_agents", "team_messages"):
        assert await teams.superuser.fetchval(f"select count(*) from {table}") == 0
    assert await teams.events("team.deleted") == [{"team_id": str(team_id), "name": "Crew"}]
    assert teams.native.told[-1] == ("stopped", team_id)
    assert (await teams.create("Crew"))["version"] == 1


async def test_the_session_is_locked_before_the_team(
    teams: Teams, db: Database, tenant_work: TenantWork
) -> None:
    """As workers do when a session ends: stopping waits for them, and never the other way round."""
    team = await teams.create(deploy=True)
    team_id, tenant_id = UUID(team["id"]), teams.person.tenant_id
    session = await teams.client.post("/api/sessions", json={"prompt": "x", "model": "demo"})
    session_id = UUID(session.json()["id"])
    await teams.superuser.execute("update teams set session_id = $1", session_id)
    async with db.transaction(tenant_id=tenant_id) as tx:
        await tx.execute("select from sessions where id = $1 for update", session_id)
        stopping = asyncio.create_task(teams.post(team, "stop"))
        async with asyncio.timeout(20):
            while not await teams.superuser.fetchval(  # noqa: ASYNC110 - the database is asked
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            ):
                await asyncio.sleep(0.01)
        # It waits for the session and holds nothing: the team is free.
        assert await tx.row("select id from teams where id = $1 for update nowait", team_id)
    assert (await stopping)["status"] == "stopped"


# Who may ----------------------------------------------------------------------------------------


async def test_a_team_of_others_is_like_none(teams: Teams) -> None:
    team = await teams.create(workers=[WORKER])
    stranger = await teams.gateway.tenant()
    for team_id in (team["id"], str(uuid7())):
        path = f"/api/teams/{team_id}"
        agent = {"name": "x"}
        answers = [
            await stranger.client.get(path),
            await stranger.client.patch(path, json={"name": "Mine"}),
            await stranger.client.delete(path),
            await stranger.client.get(f"{path}/export"),
            await stranger.client.put(f"{path}/leader", json=agent),
            await stranger.client.put(f"{path}/workers/x", json=agent),
            await stranger.client.delete(f"{path}/workers/tester"),
            *[
                await stranger.client.post(f"{path}/{action}")
                for action in ("deploy", "stop", "restart")
            ],
        ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (404, "team_not_found")
    assert (await stranger.client.get("/api/teams")).json()["items"] == []


async def test_members_read_and_do_not_change(teams: Teams) -> None:
    team = await teams.create()
    member = await teams.gateway.member(teams.person.tenant_id, role=Role.MEMBER)
    path = f"/api/teams/{team['id']}"
    assert (await member.client.get(path)).status_code == 200
    assert (await member.client.get("/api/team-templates")).status_code == 200
    assert (await member.client.post(f"{path}/deploy")).status_code == 403
    assert (await member.client.patch(path, json={"name": "x"})).status_code == 403
    bad = await member.client.post("/api/teams/import", content=b"{")
    assert bad.status_code == 403
    key = await teams.gateway.api_key(teams.person.tenant_id, frozenset(Scope) - {Scope.TEAMS_READ})
    blind = await teams.gateway.client(key)
    for place in ("/api/teams", path, f"{path}/export", "/api/team-templates"):
        assert (await blind.get(place)).status_code == 403


# For other slices -------------------------------------------------------------------------------


async def test_the_definition_and_the_row_that_others_need(teams: Teams, db: Database) -> None:
    server = {"name": "hub", "command": ["hub"], "env": {"A": "b"}}
    team = await teams.create(
        "Crew",
        provider="acp",
        command=["agent"],
        workers=[WORKER, {"name": "a"}],
        mcp_servers=[server],
        allowed_hosts=["example.com"],
    )
    tenant_id, team_id = teams.person.tenant_id, UUID(team["id"])
    async with db.transaction(tenant_id=tenant_id) as tx:
        definition = await repository.definition(tx, tenant_id, team_id)
        row = await repository.lock(tx, tenant_id, team_id)
        assert await repository.definition(tx, tenant_id, uuid7()) is None
        assert await repository.lock(tx, tenant_id, uuid7()) is None
    assert definition is not None
    assert row is not None
    assert [agent.name for agent in definition.agents] == ["lead", "tester", "a"]
    assert (definition.command, definition.version) == (("agent",), 1)
    assert definition.mcp_servers[0].env == {"A": "b"}
    assert (row.deployed, row.owner, row.last_position, row.is_native) == (False, None, 0, False)
    assert (row.name, row.principal_kind) == ("Crew", "user")


async def test_use_cases_ask_for_a_scope_first(tenant_work: TenantWork, teams: Teams) -> None:
    async with tenant_work(role="member") as work:
        with pytest.raises(Forbidden):
            await service.delete_team(work, teams.front, uuid7())
