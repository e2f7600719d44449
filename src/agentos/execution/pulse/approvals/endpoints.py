from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.pulse.approvals import service
from agentos.execution.pulse.approvals.schemas import (
    ApprovalFilter,
    ApprovalRead,
    ApprovalState,
    Approve,
    Reject,
)
from agentos.execution.pulse.front import CurrentPulse
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/approvals", tags=["approvals"])


@router.get("", response_model=Page[ApprovalRead], openapi_extra=PAGED)
async def list_approvals(
    work: CurrentWork,
    request: Request,
    state: Annotated[
        ApprovalState | Literal["all"], Query(description="Only in this state.")
    ] = "waiting",
    session_id: Annotated[UUID | None, Query(description="Only of this session.")] = None,
    team_id: Annotated[UUID | None, Query(description="Only of this team.")] = None,
) -> Response:
    """What needs you: tool calls, gates and questions that wait for a person, the oldest first."""
    wanted = ApprovalFilter(None if state == "all" else state, session_id, team_id)
    return (await service.list_approvals(work, wanted, page_of(request))).response()


@router.get("/{approval_id}")
async def read_approval(approval_id: UUID, work: CurrentWork) -> ApprovalRead:
    """One approval, with all that it is about."""
    return await service.read_approval(work, approval_id)


@router.post("/{approval_id}/approve")
async def approve(
    approval_id: UUID, work: CurrentWork, pulse: CurrentPulse, body: Approve | None = None
) -> ApprovalRead:
    """Say yes, or answer a question. The session goes on once all that it waits for is decided."""
    return await service.approve(work, pulse, approval_id, body or Approve())


@router.post("/{approval_id}/reject")
async def reject(
    approval_id: UUID, work: CurrentWork, pulse: CurrentPulse, body: Reject | None = None
) -> ApprovalRead:
    """Say no. The agent is told the reason, and goes on without it."""
    return await service.reject(work, pulse, approval_id, body or Reject())
