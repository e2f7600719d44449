from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.execution.pulse.front import CurrentPulse
from agentos.execution.runs.schemas import RunRead
from agentos.execution.webhooks import service
from agentos.execution.webhooks.schemas import (
    WebhookCreate,
    WebhookCreated,
    WebhookRead,
    WebhookUpdate,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/webhooks", tags=["webhooks"])


@router.post("", status_code=201)
async def create_webhook(
    body: WebhookCreate, work: CurrentWork, pulse: CurrentPulse
) -> WebhookCreated:
    """Make a webhook. Its token is in this answer and nowhere else."""
    return await service.create_webhook(work, pulse, body)


@router.get("", response_model=Page[WebhookRead], openapi_extra=PAGED)
async def list_webhooks(
    work: CurrentWork,
    request: Request,
    team_id: Annotated[UUID | None, Query(description="Only of this team.")] = None,
) -> Response:
    """The webhooks of this tenant."""
    page = await service.list_webhooks(work, page_of(request), team_id=team_id)
    return page.response()


@router.get("/{webhook_id}")
async def read_webhook(webhook_id: UUID, work: CurrentWork) -> WebhookRead:
    """One webhook."""
    return await service.read_webhook(work, webhook_id)


@router.patch("/{webhook_id}")
async def update_webhook(
    webhook_id: UUID, body: WebhookUpdate, work: CurrentWork, pulse: CurrentPulse
) -> WebhookRead:
    """Change a webhook, or turn it off."""
    return await service.update_webhook(work, pulse, webhook_id, body)


@router.post("/{webhook_id}/rotate")
async def rotate_token(webhook_id: UUID, work: CurrentWork) -> WebhookCreated:
    """Give it a new token. The old one stops working within a second."""
    return await service.rotate_token(work, webhook_id)


@router.get("/{webhook_id}/runs", response_model=Page[RunRead], openapi_extra=PAGED)
async def list_runs(webhook_id: UUID, work: CurrentWork, request: Request) -> Response:
    """What a webhook has started, newest first."""
    return (await service.list_runs(work, webhook_id, page_of(request))).response()


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: UUID, work: CurrentWork) -> None:
    """Remove a webhook and its history."""
    await service.delete_webhook(work, webhook_id)
