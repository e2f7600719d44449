from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response

from agentos.control.platform import service
from agentos.control.platform.schemas import (
    PlanChange,
    PlatformAuditRead,
    PlatformTenantRead,
    TenantProvision,
    TenantProvisioned,
)
from agentos.tenancy.edge import CurrentPlatformWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/platform", tags=["platform"])


@router.get("/tenants", response_model=Page[PlatformTenantRead], openapi_extra=PAGED)
async def list_tenants(work: CurrentPlatformWork, request: Request) -> Response:
    """All tenants of this installation. For platform admins."""
    return (await service.list_tenants(work, page_of(request))).response()


@router.post("/tenants", status_code=201)
async def provision_tenant(body: TenantProvision, work: CurrentPlatformWork) -> TenantProvisioned:
    """Create a tenant and invite its owner. For platform admins."""
    return await service.provision_tenant(work, body)


@router.patch("/tenants/{tenant_id}")
async def change_plan(
    tenant_id: UUID, body: PlanChange, work: CurrentPlatformWork
) -> PlatformTenantRead:
    """Move a tenant to another plan, or agree other limits with it. For platform admins."""
    return await service.change_plan(work, tenant_id, body)


@router.get("/audit", response_model=Page[PlatformAuditRead], openapi_extra=PAGED)
async def list_audit(work: CurrentPlatformWork, request: Request) -> Response:
    """What was done through the platform role. For platform admins."""
    return (await service.list_audit(work, page_of(request))).response()
