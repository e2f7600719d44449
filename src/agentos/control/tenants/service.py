"""Tenants: founding, reading, changing, and what their plan allows."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from agentos.contracts.events import TenantCreated, TenantUpdated
from agentos.control.members import service as members
from agentos.control.tenants import repository
from agentos.control.tenants.errors import SlugTaken
from agentos.control.tenants.schemas import LimitRead, PlanRead, TenantRead, TenantUpdate
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import UserId
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.plans import LIMITS
from agentos.tenancy.principals import Role, Scope
from agentos.tenancy.work import Work


async def found_tenant(
    work: Work, name: str, slug: str, *, owner: UserId, email: str
) -> TenantRead:
    """Creates the tenant the work is bound to, with its first owner."""
    await work.tx.set("app.tenant_id", str(work.tenant_id))
    try:
        await repository.insert(work.tx, work.tenant_id, name, slug)
    except asyncpg.UniqueViolationError:
        raise SlugTaken() from None
    await work.record(
        "tenant.created",
        TenantCreated(name=name, slug=slug, plan="free"),
        target=("tenant", work.tenant_id),
        after={"name": name, "slug": slug, "plan": "free"},
    )
    await members.join(work, owner, email, Role.OWNER)
    return await read(work)


async def read(work: Work) -> TenantRead:
    """The tenant of this work. Needs no scope: everybody may know where they are."""
    row = await repository.read(work.tx, work.tenant_id)
    if row is None:
        raise NotFound()
    return TenantRead(**row)


async def read_tenant(work: Work, tenant_id: UUID) -> TenantRead:
    work.require(Scope.TENANT_READ)
    row = await repository.read(work.tx, tenant_id)
    if row is None:
        raise NotFound()
    return TenantRead(**row)


async def list_tenants(work: Work, page: PageRequest) -> RowPage[TenantRead]:
    work.require(Scope.TENANT_READ)
    rows = await repository.of_user(work.tx, page.after_id, page.limit + 1)
    return page.of(TenantRead, rows)


async def update_tenant(work: Work, tenant_id: UUID, body: TenantUpdate) -> TenantRead:
    work.require(Scope.TENANT_WRITE)
    before = await repository.lock(work.tx, tenant_id) if tenant_id == work.tenant_id else None
    if before is None:
        raise NotFound()
    changes = body.model_dump(exclude_none=True)
    wanted = {key: changes.get(key, before[key]) for key in ("name", "slug", "settings")}
    try:
        row = await repository.update(work.tx, tenant_id, **wanted)
    except asyncpg.UniqueViolationError:
        raise SlugTaken() from None
    changed = [key for key in wanted if wanted[key] != before[key]]
    if changed:
        await work.record(
            "tenant.updated",
            TenantUpdated(changed=changed),
            target=("tenant", tenant_id),
            before={key: before[key] for key in changed},
            after={key: wanted[key] for key in changed},
        )
    return TenantRead(**row)


async def read_plan(work: Work) -> PlanRead:
    work.require(Scope.TENANT_READ)
    plan = await work.plan()
    used = dict(await repository.counts(work.tx))
    return PlanRead(
        plan=plan.name,
        support=plan.support,
        uptime_percent=plan.uptime_percent,
        monthly_price_usd=plan.monthly_price_usd,
        limits=[
            LimitRead(name=name, allowed=getattr(plan, name), used=used.get(name))
            for name in LIMITS
        ],
    )
