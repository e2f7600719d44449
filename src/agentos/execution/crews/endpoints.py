from __future__ import annotations

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from agentos.execution.crews import service
from agentos.execution.crews.front import CurrentCrew
from agentos.execution.crews.logs import service as logs
from agentos.execution.crews.logs.schemas import Level, LogRead
from agentos.execution.crews.schemas import (
    AgentPut,
    Handle,
    ProviderName,
    TeamCreate,
    TeamDetails,
    TeamRead,
    TeamStatus,
    TeamUpdate,
    TemplateRead,
    TemplateUse,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of
from agentos.tenancy.schemas import Name

_YAML = "application/yaml"
_TEAM: dict[str, Any] = {"schema": {"$ref": "#/components/schemas/TeamCreate"}}
_DOCUMENT: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": _TEAM, _YAML: _TEAM}}
}
_ODD = re.compile(r"[^a-z0-9]+")

router = APIRouter(prefix="/api/teams", tags=["teams"])
team_templates = APIRouter(prefix="/api/team-templates", tags=["teams"])

WorkerName = Annotated[Handle, Path(description="The name of the worker.")]


@router.post("", status_code=201)
async def create_team(body: TeamCreate, work: CurrentWork, crew: CurrentCrew) -> TeamDetails:
    """Make a team of a leader and workers, and start it if `deploy` says so."""
    return await service.create_team(work, crew, body)


@router.post("/import", status_code=201, openapi_extra=_DOCUMENT)
async def import_team(
    request: Request,
    work: CurrentWork,
    crew: CurrentCrew,
    name: Annotated[Name | None, Query(description="Instead of the document's.")] = None,
) -> TeamDetails:
    """Make a team of a document in YAML or JSON, such as `export` gives."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return await service.import_team(work, crew, await request.body(), media_type, name)


@router.get("", response_model=Page[TeamRead], openapi_extra=PAGED)
async def list_teams(
    work: CurrentWork,
    request: Request,
    status: Annotated[TeamStatus | None, Query(description="Only with this status.")] = None,
    provider: Annotated[ProviderName | None, Query(description="Only of this provider.")] = None,
    name: Annotated[
        str | None,
        Query(description="Only with this in their name.", max_length=100, pattern=r"^[^\x00]*$"),
    ] = None,
) -> Response:
    """The teams of this tenant, newest first."""
    page = await service.list_teams(
        work, page_of(request), status=status, provider=provider, name=name
    )
    return page.response()


@router.get("/{team_id}")
async def read_team(team_id: UUID, work: CurrentWork) -> TeamDetails:
    """One team: its agents, what they may use, and how it is."""
    return await service.read_team(work, team_id)


@router.patch("/{team_id}")
async def update_team(
    team_id: UUID, body: TeamUpdate, work: CurrentWork, crew: CurrentCrew
) -> TeamDetails:
    """Change a team. A deployed one goes on by the new version, its conversation kept."""
    return await service.update_team(work, crew, team_id, body)


@router.delete("/{team_id}", status_code=204)
async def delete_team(team_id: UUID, work: CurrentWork, crew: CurrentCrew) -> None:
    """Remove a stopped team, with its messages, schedules and webhooks."""
    await service.delete_team(work, crew, team_id)


@router.put("/{team_id}/leader")
async def put_leader(
    team_id: UUID, body: AgentPut, work: CurrentWork, crew: CurrentCrew
) -> TeamDetails:
    """Change the leader of a team."""
    return await service.put_leader(work, crew, team_id, body)


@router.put("/{team_id}/workers/{name}")
async def put_worker(
    team_id: UUID, name: WorkerName, body: AgentPut, work: CurrentWork, crew: CurrentCrew
) -> TeamDetails:
    """Add a worker to a team, or change it; another name in the body renames it."""
    return await service.put_worker(work, crew, team_id, name, body)


@router.delete("/{team_id}/workers/{name}")
async def delete_worker(
    team_id: UUID, name: WorkerName, work: CurrentWork, crew: CurrentCrew
) -> TeamDetails:
    """Remove a worker from a team."""
    return await service.delete_worker(work, crew, team_id, name)


@router.get(
    "/{team_id}/export",
    response_class=Response,
    responses={200: {"content": {_YAML: _TEAM}}},
)
async def export_team(team_id: UUID, work: CurrentWork) -> Response:
    """The team as a YAML document that can be imported. Secrets are named in it, never shown."""
    name, text = await service.export_team(work, team_id)
    file_name = _ODD.sub("-", name.lower()).strip("-") or "team"
    return Response(
        text,
        media_type=_YAML,
        headers={"Content-Disposition": f'attachment; filename="{file_name}.yaml"'},
    )


@router.get("/{team_id}/logs", response_model=Page[LogRead], openapi_extra=PAGED)
async def list_logs(
    team_id: UUID,
    work: CurrentWork,
    request: Request,
    level: Annotated[Level, Query(description="Only lines of this level or worse.")] = "info",
) -> Response:
    """What a team lived through and what its agent CLI printed, newest first."""
    page = await logs.list_logs(work, team_id, page_of(request), level=level)
    return page.response()


@router.post("/{team_id}/deploy")
async def deploy_team(team_id: UUID, work: CurrentWork, crew: CurrentCrew) -> TeamDetails:
    """Start a team. One that was given up on is tried again."""
    return await service.deploy_team(work, crew, team_id)


@router.post("/{team_id}/stop")
async def stop_team(team_id: UUID, work: CurrentWork, crew: CurrentCrew) -> TeamDetails:
    """Stop a team. Its conversation and files stay; messages wait until it is deployed again."""
    return await service.stop_team(work, crew, team_id)


@router.post("/{team_id}/restart")
async def restart_team(team_id: UUID, work: CurrentWork, crew: CurrentCrew) -> TeamDetails:
    """Stop a deployed team and start it again, with its conversation and files."""
    return await service.restart_team(work, crew, team_id)


@team_templates.get("")
async def list_templates(work: CurrentWork) -> list[TemplateRead]:
    """Teams to start from."""
    return service.list_templates(work)


@team_templates.post("/{template_id}/create", status_code=201)
async def create_from_template(
    template_id: str, body: TemplateUse, work: CurrentWork, crew: CurrentCrew
) -> TeamDetails:
    """Make a team of a template."""
    return await service.create_from_template(work, crew, template_id, body)
