from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.post_actions import service
from agentos.execution.post_actions.schemas import (
    PostActionCreate,
    PostActionRead,
    PostActionUpdate,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/post-actions", tags=["post-actions"])


@router.post("", status_code=201)
async def create_post_action(body: PostActionCreate, work: CurrentWork) -> PostActionRead:
    """Make an HTTP call after the runs of a schedule or a webhook."""
    return await service.create_post_action(work, body)


@router.get("", response_model=Page[PostActionRead], openapi_extra=PAGED)
async def list_post_actions(
    work: CurrentWork,
    request: Request,
    schedule_id: Annotated[UUID | None, Query(description="Only of this schedule.")] = None,
    webhook_id: Annotated[UUID | None, Query(description="Only of this webhook.")] = None,
) -> Response:
    """The post-actions of this tenant."""
    page = await service.list_post_actions(
        work, page_of(request), schedule_id=schedule_id, webhook_id=webhook_id
    )
    return page.response()


@router.patch("/{post_action_id}")
async def update_post_action(
    post_action_id: UUID, body: PostActionUpdate, work: CurrentWork
) -> PostActionRead:
    """Change a post-action."""
    return await service.update_post_action(work, post_action_id, body)


@router.delete("/{post_action_id}", status_code=204)
async def delete_post_action(post_action_id: UUID, work: CurrentWork) -> None:
    """Remove a post-action."""
    await service.delete_post_action(work, post_action_id)
