from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.pulse import service
from agentos.execution.pulse.front import CurrentPulse
from agentos.execution.pulse.schemas import (
    SessionCreate,
    SessionDetails,
    SessionFilter,
    SessionRead,
)
from agentos.execution.pulse.states import State
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


@router.post("", status_code=201)
async def create_session(
    body: SessionCreate, work: CurrentWork, pulse: CurrentPulse
) -> SessionDetails:
    """Make a session and put it into the queue. Follow it by its `session.*` events."""
    return await service.create_session(work, pulse, body)


@router.get("", response_model=Page[SessionRead], openapi_extra=PAGED)
async def list_sessions(
    work: CurrentWork,
    request: Request,
    state: Annotated[
        list[State] | None,
        Query(max_length=len(State), description="Only in this state; several may be given."),
    ] = None,
    q: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[^\x00]*$",
            description="Only with all these words in their title, in any case.",
        ),
    ] = None,
    team_id: Annotated[UUID | None, Query(description="Only of this team.")] = None,
    parent_id: Annotated[UUID | None, Query(description="Only sub-agents of this one.")] = None,
    chain_id: Annotated[UUID | None, Query(description="Only of this chain.")] = None,
) -> Response:
    """The sessions of this tenant, newest first."""
    wanted = SessionFilter(state or (), team_id, parent_id, chain_id, (q or "").split())
    return (await service.list_sessions(work, wanted, page_of(request))).response()


@router.get("/{session_id}")
async def read_session(session_id: UUID, work: CurrentWork) -> SessionDetails:
    """One session, with its configuration, its result, and its place in the queue."""
    return await service.read_session(work, session_id)


@router.post("/{session_id}/run")
async def run_session(session_id: UUID, work: CurrentWork, pulse: CurrentPulse) -> SessionDetails:
    """Put a session that was only created into the queue."""
    return await service.run_session(work, pulse, session_id)


@router.post("/{session_id}/pause")
async def pause_session(session_id: UUID, work: CurrentWork, pulse: CurrentPulse) -> SessionDetails:
    """Pause a session, at its next step at the latest. It keeps no slot while it is paused."""
    return await service.pause_session(work, pulse, session_id)


@router.post("/{session_id}/resume")
async def resume_session(
    session_id: UUID, work: CurrentWork, pulse: CurrentPulse
) -> SessionDetails:
    """Let a paused session go on."""
    return await service.resume_session(work, pulse, session_id)


@router.post("/{session_id}/cancel")
async def cancel_session(
    session_id: UUID, work: CurrentWork, pulse: CurrentPulse
) -> SessionDetails:
    """End a session and its sub-agents at once. It becomes FAILED, with the code `cancelled`."""
    return await service.cancel_session(work, pulse, session_id)
