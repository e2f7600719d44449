"""Teams: what they are told to be, and whether people want them to run.

A native team runs at once. One of a CLI provider is only wanted here: a worker keeps it running,
and says how it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
from pydantic import ValidationError

from agentos.contracts.events import (
    Event,
    TeamCreated,
    TeamDeleted,
    TeamStatusChanged,
    TeamUpdated,
)
from agentos.execution.crews import documents, repository
from agentos.execution.crews.checks import checked
from agentos.execution.crews.errors import (
    TeamDeployed,
    TeamNameTaken,
    TeamNotDeployed,
    TeamNotFound,
    TemplateNotFound,
    WorkerNotFound,
)
from agentos.execution.crews.front import CrewFront
from agentos.execution.crews.logs import repository as logs
from agentos.execution.crews.logs.lines import Line, status_line, told
from agentos.execution.crews.repository import Definition, TeamRow
from agentos.execution.crews.schemas import (
    AgentPut,
    AgentRead,
    ProviderName,
    TeamCreate,
    TeamDefinition,
    TeamDetails,
    TeamRead,
    TeamStatus,
    TeamUpdate,
    TemplateRead,
    TemplateUse,
)
from agentos.execution.crews.templates import described, templates
from agentos.kernel.bus_credentials import REVOKED_FOR
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

T = TypeVar("T", bound=TeamDefinition)

_LAST = UUID(int=2**128 - 1)
_LIMIT = "deployed_teams"
_FIELDS = tuple(TeamDefinition.model_fields)

_WAITING = "Waiting for a worker."
_STOPPING = "Stopping."
_ORDERS = {
    "team.deployed": "Deployed",
    "team.restarted": "Restarted",
    "team.stopped": "Stopped",
}


# What a team is told to be -----------------------------------------------------------------------


async def create_team(work: Work, front: CrewFront, body: TeamCreate) -> TeamDetails:
    """A new team; deployed if the caller wants that, too."""
    work.require(Scope.TEAMS_WRITE)
    document = await checked(work, front, body)
    team_id, principal = uuid7(), work.principal
    try:
        await repository.insert(
            work.tx,
            work.tenant_id,
            team_id,
            document,
            principal=(principal.kind, principal.id, principal.name),
            now=work.now(),
        )
    except asyncpg.UniqueViolationError:
        raise TeamNameTaken(f"Another team is called {document.name}.") from None
    await work.record(
        "team.created",
        TeamCreated(team_id=team_id, name=document.name, provider=document.provider),
        target=("team", team_id),
        after=_audited(document),
    )
    await _log(work, team_id, told(f"Created by {work.principal.name}."))
    if body.deploy:
        await _deploy(work, front, await _locked(work, team_id))
    return await _details(work, team_id)


async def import_team(
    work: Work, front: CrewFront, text: bytes, media_type: str, name: str | None = None
) -> TeamDetails:
    """A new team made of a document in YAML or JSON; `name` takes the place of the document's."""
    work.require(Scope.TEAMS_WRITE)
    # Beside the loop: a large document takes a while.
    body = await asyncio.to_thread(documents.read, text, media_type)
    if name is not None:
        body = body.model_copy(update={"name": name})
    return await create_team(work, front, body)


async def list_teams(
    work: Work,
    page: PageRequest,
    *,
    status: TeamStatus | None = None,
    provider: ProviderName | None = None,
    name: str | None = None,
) -> RowPage[TeamRead]:
    """The teams of the tenant, newest first. `name`: only those with this in their name."""
    work.require(Scope.TEAMS_READ)
    rows = await repository.page(
        work.tx,
        work.tenant_id,
        status=status,
        provider=provider,
        name=name,
        before=page.after_id if page.after is not None else _LAST,
        limit=page.limit + 1,
    )
    return page.of(TeamRead, rows)


async def read_team(work: Work, team_id: UUID) -> TeamDetails:
    work.require(Scope.TEAMS_READ)
    return await _details(work, team_id)


async def export_team(work: Work, team_id: UUID) -> tuple[str, str]:
    """The name of the team, and a YAML document of it, to keep or share."""
    work.require(Scope.TEAMS_READ)
    team = (await _definition(work, team_id)).document()
    return team.name, await asyncio.to_thread(documents.write, team)


async def update_team(work: Work, front: CrewFront, team_id: UUID, body: TeamUpdate) -> TeamDetails:
    """Changes what is given. A deployed team goes on by the new version."""
    work.require(Scope.TEAMS_WRITE)
    return await _change(work, front, team_id, lambda _: body.given)


async def put_leader(work: Work, front: CrewFront, team_id: UUID, body: AgentPut) -> TeamDetails:
    work.require(Scope.TEAMS_WRITE)
    return await _change(work, front, team_id, lambda _: {"leader": body})


async def put_worker(
    work: Work, front: CrewFront, team_id: UUID, name: str, body: AgentPut
) -> TeamDetails:
    """Changes the worker of this name, which may get another by that; or adds one."""
    work.require(Scope.TEAMS_WRITE)

    def put(team: TeamDefinition) -> dict[str, Any]:
        if name in [worker.name for worker in team.workers]:
            return {"workers": [body if each.name == name else each for each in team.workers]}
        if body.name != name:
            raise WorkerNotFound(f"The team has no worker {name[:100]} that could be renamed.")
        return {"workers": [*team.workers, body]}

    return await _change(work, front, team_id, put)


async def delete_worker(work: Work, front: CrewFront, team_id: UUID, name: str) -> TeamDetails:
    work.require(Scope.TEAMS_WRITE)

    def without(team: TeamDefinition) -> dict[str, Any]:
        workers = [worker for worker in team.workers if worker.name != name]
        if len(workers) == len(team.workers):
            raise WorkerNotFound()
        return {"workers": workers}

    return await _change(work, front, team_id, without)


async def delete_team(work: Work, front: CrewFront, team_id: UUID) -> None:
    """Removes a stopped team with its messages, schedules, webhooks and rights on the bus."""
    work.require(Scope.TEAMS_WRITE)
    team = await _locked(work, team_id)
    if team.deployed:
        raise TeamDeployed()
    if team.status != "stopped" or team.owner is not None:
        raise TeamDeployed("The team is still stopping.", hint="Try again in a moment.")
    if team.is_native:
        await front.native.stopped(work, team_id)
    if team.fence:
        # A worker has kept it: a copy of its sidecar's credentials may be anywhere.
        await repository.revoke(work.tx, team, work.now() + REVOKED_FOR)
        work.tx.after_commit(front.hints.revoked)
    await repository.delete(work.tx, team)
    await work.record(
        "team.deleted",
        TeamDeleted(team_id=team_id, name=team.name),
        target=("team", team_id),
        before={"name": team.name, "provider": team.provider, "version": team.version},
    )
    _hint(work, front, team_id)


# Templates ---------------------------------------------------------------------------------------


def list_templates(work: Work) -> list[TemplateRead]:
    """The teams to start from."""
    work.require(Scope.TEAMS_READ)
    return described()


async def create_from_template(
    work: Work, front: CrewFront, template_id: str, body: TemplateUse
) -> TeamDetails:
    """A new team made of a template, with what the caller wants to be different."""
    work.require(Scope.TEAMS_WRITE)
    template = templates().get(template_id)
    if template is None:
        raise TemplateNotFound()
    other = {name: value for name in body.model_fields_set if (value := getattr(body, name))}
    return await create_team(
        work, front, _valid(TeamCreate, {**template.model_dump(include=set(_FIELDS)), **other})
    )


# Whether it runs ---------------------------------------------------------------------------------


async def deploy_team(work: Work, front: CrewFront, team_id: UUID) -> TeamDetails:
    """Starts a team. Harmless if it is deployed; one that was given up on is tried again."""
    work.require(Scope.TEAMS_WRITE)
    team = await _locked(work, team_id)
    if not team.deployed or team.status == "error":
        await _deploy(work, front, team)
    return await _details(work, team_id)


async def stop_team(work: Work, front: CrewFront, team_id: UUID) -> TeamDetails:
    """Stops a team. Its conversation and files stay, and messages wait until it is deployed again."""
    work.require(Scope.TEAMS_WRITE)
    team = await _locked(work, team_id)
    kept = team.owner is not None
    if team.deployed or (team.status != "stopped" and not kept):
        # Whoever keeps it says when it has stopped.
        status: TeamStatus = team.status if kept else "stopped"
        reason = _STOPPING if kept else None
        await _want(work, front, team, "team.stopped", False, status, reason)
        if team.is_native:
            await front.native.stopped(work, team_id)
    return await _details(work, team_id)


async def restart_team(work: Work, front: CrewFront, team_id: UUID) -> TeamDetails:
    """Stops a deployed team and starts it again, with its conversation and files."""
    work.require(Scope.TEAMS_WRITE)
    team = await _locked(work, team_id)
    if not team.deployed:
        raise TeamNotDeployed()
    if team.is_native:
        await front.native.stopped(work, team_id)
    await _start(work, front, team, "team.restarted", restart=True)
    return await _details(work, team_id)


async def _deploy(work: Work, front: CrewFront, team: TeamRow) -> None:
    if not team.is_native and not team.deployed:
        await work.hold(_LIMIT)
        used = await repository.deployed_on_machines(work.tx, work.tenant_id)
        await work.quota(_LIMIT, used)
    await _start(work, front, team, "team.deployed", restart=team.deployed)


async def _start(
    work: Work, front: CrewFront, team: TeamRow, action: str, *, restart: bool
) -> None:
    status: TeamStatus = "running" if team.is_native else "starting"
    reason = None if team.is_native else _WAITING
    await _want(work, front, team, action, True, status, reason, restart=restart)
    if team.is_native:
        await front.native.deployed(work, team.id)


async def _want(
    work: Work,
    front: CrewFront,
    team: TeamRow,
    action: str,
    deployed: bool,
    status: TeamStatus,
    reason: str | None,
    *,
    restart: bool = False,
) -> None:
    await repository.want(
        work.tx,
        team,
        work.now(),
        deployed=deployed,
        status=status,
        reason=reason,
        restart=restart,
    )
    events: list[Event] = []
    lines = [told(f"{_ORDERS[action]} by {work.principal.name}.")]
    if (status, reason) != (team.status, team.reason):
        lines.append(status_line(status, reason))
    if restart or len(lines) > 1:
        events.append(TeamStatusChanged(team_id=team.id, status=status, reason=reason))
    await work.record(
        action,
        *events,
        target=("team", team.id),
        before={"deployed": team.deployed, "status": team.status},
        after={"deployed": deployed, "status": status},
    )
    await _log(work, team.id, *lines)
    _hint(work, front, team.id)


# Shared ------------------------------------------------------------------------------------------


async def _change(
    work: Work,
    front: CrewFront,
    team_id: UUID,
    change: Callable[[TeamDefinition], dict[str, Any]],
) -> TeamDetails:
    """Makes a new version of the team, if what `change` says is not what it is."""
    team = await _locked(work, team_id)
    before = (await _definition(work, team_id)).document()
    after = _valid(TeamDefinition, {**dict(before), **change(before)})
    changed = _differences(before, after)
    if not changed:
        return await _details(work, team_id)
    if "runtime" in changed and (team.deployed or team.owner is not None):
        raise TeamDeployed("The runtime can only be changed while the team is stopped.")
    after = await checked(work, front, after)
    try:
        await repository.update(work.tx, work.tenant_id, team_id, after, work.now())
    except asyncpg.UniqueViolationError:
        raise TeamNameTaken(f"Another team is called {after.name}.") from None
    if {"leader", "workers"} & set(changed):
        await repository.delete_agents(work.tx, work.tenant_id, team_id)
        await repository.insert_agents(work.tx, work.tenant_id, team_id, after)
    await work.record(
        "team.updated",
        TeamUpdated(team_id=team_id, version=team.version + 1, changed=changed),
        target=("team", team_id),
        before={**_audited(before), "version": team.version},
        after={**_audited(after), "version": team.version + 1, "changed": changed},
    )
    what = f"Version {team.version + 1} by {work.principal.name}: {', '.join(changed)}."
    await _log(work, team_id, told(what))
    _hint(work, front, team_id)
    return await _details(work, team_id)


def _valid(kind: type[T], values: dict[str, Any]) -> T:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise documents.bad_team(error) from error


def _differences(before: TeamDefinition, after: TeamDefinition) -> list[str]:
    one, other = before.model_dump(), after.model_dump()
    return [name for name in _FIELDS if one[name] != other[name]]


def _audited(document: TeamDefinition) -> dict[str, Any]:
    """Enough to know what happened; instructions can be long."""
    return {
        "name": document.name,
        "provider": document.provider,
        "runtime": document.runtime,
        "model": document.model,
        "agents": [agent.name for agent in (document.leader, *document.workers)],
        "mcp_servers": [server.name for server in document.mcp_servers],
        "allowed_hosts": document.allowed_hosts,
    }


async def _log(work: Work, team_id: UUID, *lines: Line) -> None:
    await logs.write(work.tx, work.tenant_id, team_id, work.now(), *lines)


def _hint(work: Work, front: CrewFront, team_id: UUID) -> None:
    work.tx.after_commit(lambda: front.hints.changed(team_id))


async def _locked(work: Work, team_id: UUID) -> TeamRow:
    team = await repository.lock_after_session(work.tx, work.tenant_id, team_id)
    if team is None:
        raise TeamNotFound()
    return team


async def _definition(work: Work, team_id: UUID) -> Definition:
    definition = await repository.definition(work.tx, work.tenant_id, team_id)
    if definition is None:
        raise TeamNotFound()
    return definition


async def _details(work: Work, team_id: UUID) -> TeamDetails:
    definition = await _definition(work, team_id)
    row = await repository.find(work.tx, work.tenant_id, team_id)
    if row is None:
        raise TeamNotFound()
    document = definition.document().model_dump(mode="json")
    leader, *workers = (
        AgentRead(**agent.model_dump(mode="json"), leader=agent is definition.leader)
        for agent in definition.agents
    )
    shown = ("skills", "mcp_servers", "command", "allowed_hosts", "answer_seconds")
    return TeamDetails(
        **row,
        leader=leader,
        workers=workers,
        **{name: document[name] for name in shown},
    )
