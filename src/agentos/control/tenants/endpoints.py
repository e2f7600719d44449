from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response

from agentos.control.tenants import service
from agentos.control.tenants.schemas import PlanRead, TenantRead, TenantUpdate
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/tenants", tags=["tenants"])


@router.get("", response_model=Page[TenantRead], openapi_extra=PAGED)
async def list_tenants(work: CurrentWork, request: Request) -> Response:
    """The tenants you belong to."""
    return (await service.list_tenants(work, page_of(request))).response()


@router.get("/{tenant_id}")
async def read_tenant(tenant_id: UUID, work: CurrentWork) -> TenantRead:
    """One tenant you belong to."""
    return await service.read_tenant(work, tenant_id)


@router.patch("/{tenant_id}")
async def update_tenant(tenant_id: UUID, body: TenantUpdate, work: CurrentWork) -> TenantRead:
    """Change name, slug or settings of the tenant you are signed in to."""
    return await service.update_tenant(work, tenant_id, body)


plan_router = APIRouter(prefix="/api/plan", tags=["tenants"])


@plan_router.get("")
async def read_plan(work: CurrentWork) -> PlanRead:
    """What the tenant's plan allows, and how much of it is used."""
    return await service.read_plan(work)
