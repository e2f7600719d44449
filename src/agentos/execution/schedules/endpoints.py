from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.pulse.front import CurrentPulse
from agentos.execution.runs.schemas import RunRead
from agentos.execution.schedules import service
from agentos.execution.schedules.schemas import (
    ScheduleCreate,
    ScheduleDetails,
    ScheduleRead,
    ScheduleUpdate,
    Timing,
    TimingPreview,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/schedules", tags=["schedules"])


@router.post("", status_code=201)
async def create_schedule(
    body: ScheduleCreate, work: CurrentWork, pulse: CurrentPulse
) -> ScheduleDetails:
    """Ask a team, or start a session, by cron, at an interval, or once."""
    return await service.create_schedule(work, pulse, body)


@router.get("", response_model=Page[ScheduleRead], openapi_extra=PAGED)
async def list_schedules(
    work: CurrentWork,
    request: Request,
    team_id: Annotated[UUID | None, Query(description="Only of this team.")] = None,
) -> Response:
    """The schedules of this tenant."""
    page = await service.list_schedules(work, page_of(request), team_id=team_id)
    return page.response()


@router.post("/preview")
async def preview_timing(body: Timing, work: CurrentWork) -> TimingPreview:
    """When a schedule with this timing would fire next."""
    return await service.preview(work, body)


@router.get("/{schedule_id}")
async def read_schedule(schedule_id: UUID, work: CurrentWork) -> ScheduleDetails:
    """One schedule, with the moments at which it fires next."""
    return await service.read_schedule(work, schedule_id)


@router.patch("/{schedule_id}")
async def update_schedule(
    schedule_id: UUID, body: ScheduleUpdate, work: CurrentWork, pulse: CurrentPulse
) -> ScheduleDetails:
    """Change a schedule."""
    return await service.update_schedule(work, pulse, schedule_id, body)


@router.post("/{schedule_id}/pause")
async def pause_schedule(schedule_id: UUID, work: CurrentWork) -> ScheduleDetails:
    """Let it not fire until it is resumed."""
    return await service.pause_schedule(work, schedule_id)


@router.post("/{schedule_id}/resume")
async def resume_schedule(schedule_id: UUID, work: CurrentWork) -> ScheduleDetails:
    """Let it fire again, from its next moment on."""
    return await service.resume_schedule(work, schedule_id)


@router.post("/{schedule_id}/run", status_code=201)
async def run_schedule(schedule_id: UUID, work: CurrentWork, pulse: CurrentPulse) -> RunRead:
    """Start a run now."""
    return await service.run_now(work, pulse, schedule_id)


@router.get("/{schedule_id}/runs", response_model=Page[RunRead], openapi_extra=PAGED)
async def list_runs(schedule_id: UUID, work: CurrentWork, request: Request) -> Response:
    """What a schedule has started, newest first."""
    return (await service.list_runs(work, schedule_id, page_of(request))).response()


@router.delete("/{schedule_id}", status_code=204)
async def delete_schedule(schedule_id: UUID, work: CurrentWork) -> None:
    """Remove a schedule and its history."""
    await service.delete_schedule(work, schedule_id)
