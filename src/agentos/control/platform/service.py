"""What platform admins do: tenants of others, through the audited platform role."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from agentos.contracts.events import TenantCreated, TenantUpdated
from agentos.control.members import service as members
from agentos.control.members.schemas import InvitationCreate
from agentos.control.platform import repository
from agentos.control.platform.schemas import (
    PlanChange,
    PlatformAuditRead,
    PlatformTenantRead,
    TenantProvision,
    TenantProvisioned,
)
from agentos.control.tenants.errors import SlugTaken
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Role
from agentos.tenancy.work import PlatformWork


async def list_tenants(work: PlatformWork, page: PageRequest) -> RowPage[PlatformTenantRead]:
    rows = await repository.tenants(work.tx, page.after_id, page.limit + 1)
    await work.record("tenants.listed", count=len(rows))
    return page.of(PlatformTenantRead, rows)


async def provision_tenant(work: PlatformWork, body: TenantProvision) -> TenantProvisioned:
    """Creates a tenant and invites its owner."""
    tenant = await create_tenant(work, body.name, body.slug, body.plan)
    invitation = await members.invite(
        work.within(TenantId(tenant.id)), InvitationCreate(email=body.owner_email, role=Role.OWNER)
    )
    return TenantProvisioned(**tenant.model_dump(), invitation_token=invitation.token)


async def create_tenant(work: PlatformWork, name: str, slug: str, plan: str) -> PlatformTenantRead:
    """A tenant that nobody belongs to yet."""
    tenant_id = TenantId(uuid7())
    try:
        row = await repository.insert_tenant(work.tx, tenant_id, name, slug, plan)
    except asyncpg.UniqueViolationError:
        raise SlugTaken() from None
    facts = {"name": name, "slug": slug, "plan": plan}
    await work.record("tenant.provisioned", tenant_id=str(tenant_id), **facts)
    await work.within(tenant_id).record(
        "tenant.created",
        TenantCreated(name=name, slug=slug, plan=plan),
        target=("tenant", tenant_id),
        after=facts,
    )
    return PlatformTenantRead(**row)


async def change_plan(work: PlatformWork, tenant_id: UUID, body: PlanChange) -> PlatformTenantRead:
    before = await repository.lock_tenant(work.tx, tenant_id)
    if before is None:
        raise NotFound()
    plan = body.plan or before["plan"]
    limits = before["limits"] if body.limits is None else body.limits
    row = await repository.set_plan(work.tx, tenant_id, plan, limits)
    await work.record("tenant.plan_changed", tenant_id=str(tenant_id), plan=plan, limits=limits)
    await work.within(TenantId(tenant_id)).record(
        "tenant.plan_changed",
        TenantUpdated(changed=["plan", "limits"]),
        target=("tenant", tenant_id),
        before={"plan": before["plan"], "limits": before["limits"]},
        after={"plan": plan, "limits": limits},
    )
    return PlatformTenantRead(**row)


async def list_audit(work: PlatformWork, page: PageRequest) -> RowPage[PlatformAuditRead]:
    """What was done through the platform role, newest first."""
    before = page.after_id if page.after is not None else UUID(int=2**128 - 1)
    rows = await repository.audit(work.tx, before, page.limit + 1)
    return page.of(PlatformAuditRead, rows)


async def set_platform_admin(work: PlatformWork, email: str, *, admin: bool) -> bool:
    """Gives or takes the right to work across tenants; says whether that changed anything."""
    user = await repository.lock_user(work.tx, email)
    if user is None:
        raise NotFound(
            f"Nobody has an account with {email}.",
            hint="They join with an invitation first: `agentos members invite`.",
        )
    if user["platform_admin"] == admin:
        return False
    await repository.set_platform_admin(work.tx, user["id"], admin)
    action = "platform_admin.granted" if admin else "platform_admin.revoked"
    await work.record(action, user_id=str(user["id"]), email=email)
    return True
