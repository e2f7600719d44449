from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.crews.messages import service
from agentos.execution.crews.messages.schemas import MessageCreate, MessageRead, MessageState
from agentos.execution.pulse.front import CurrentPulse
from agentos.tenancy.edge import CurrentUnit, CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/teams/{team_id}/messages", tags=["messages"])


@router.post("", status_code=201)
async def send_message(
    team_id: UUID, body: MessageCreate, unit: CurrentUnit, pulse: CurrentPulse
) -> MessageRead:
    """Send the team a message. It answers one at a time, in order; follow `message.*` events, the
    team's chat, or `…/wait`. A stopped team takes messages, too: they stay queued until it is
    deployed.
    """
    return await service.send_message(unit, pulse, team_id, body)


@router.get("", response_model=Page[MessageRead], openapi_extra=PAGED)
async def list_messages(
    team_id: UUID,
    work: CurrentWork,
    request: Request,
    state: Annotated[MessageState | None, Query(description="Only in this state.")] = None,
    q: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=r"^[^\x00]*$",
            description="Only with these words in the text or the answer, in any case.",
        ),
    ] = None,
    before: Annotated[
        int | None, Query(ge=0, lt=10**18, description="Only those below this position.")
    ] = None,
) -> Response:
    """The messages of a team with their answers, newest first."""
    page = await service.list_messages(
        work, team_id, page_of(request), state=state, words=q, before=before
    )
    return page.response()


@router.get("/{message_id}")
async def read_message(team_id: UUID, message_id: UUID, work: CurrentWork) -> MessageRead:
    """One message: its state, and its answer once there is one."""
    return await service.read_message(work, team_id, message_id)


@router.post("/{message_id}/cancel")
async def cancel_message(
    team_id: UUID, message_id: UUID, work: CurrentWork, pulse: CurrentPulse
) -> MessageRead:
    """Take a message out of the queue, or stop the answer to it. The team goes on with the next."""
    return await service.cancel_message(work, pulse, team_id, message_id)
