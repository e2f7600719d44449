from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response

from agentos.control.api_keys import service
from agentos.control.api_keys.schemas import ApiKeyCreate, ApiKeyCreated, ApiKeyRead
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/keys", tags=["keys"])


@router.post("", status_code=201)
async def create_key(body: ApiKeyCreate, work: CurrentWork) -> ApiKeyCreated:
    """Make an API key. The key itself is in this answer and nowhere else."""
    return await service.create_key(work, body)


@router.get("", response_model=Page[ApiKeyRead], openapi_extra=PAGED)
async def list_keys(work: CurrentWork, request: Request) -> Response:
    """The API keys of this tenant, revoked ones included."""
    return (await service.list_keys(work, page_of(request))).response()


@router.delete("/{key_id}", status_code=204)
async def revoke_key(key_id: UUID, work: CurrentWork) -> None:
    """Revoke an API key. It stops working within a second everywhere."""
    await service.revoke_key(work, key_id)
