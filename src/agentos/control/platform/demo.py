"""The demo tenant of a local installation: somewhere to start, with nothing to set up."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentos.control.api_keys import service as api_keys
from agentos.control.auth import service as auth
from agentos.control.members import service as members
from agentos.control.platform import service
from agentos.kernel.clock import Clock
from agentos.kernel.crypto import derive, derive_password
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, UserId, uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.opaque_tokens import OpaqueToken, token_from
from agentos.tenancy.principals import Role, Scope, platform_principal
from agentos.tenancy.work import PlatformWork

EMAIL = "owner@demo.example"
SLUG = "demo"


@dataclass(frozen=True)
class Demo:
    """How to get in. Derived from the installation's key, so it is the same at every start."""

    email: str
    password: str = field(repr=False)
    api_key: str = field(repr=False)


async def ensure_demo(
    platform_db: Database, secret_key: bytes, outbox: Outbox, clock: Clock
) -> Demo | None:
    """Makes the demo tenant if the installation has none yet; None if it is not there any more."""
    password = derive_password(secret_key, "demo password")[:20]
    async with platform_db.transaction() as tx:
        # Two first starts at once would both find it empty.
        await tx.execute("select pg_advisory_xact_lock(hashtextextended('demo', 0))")
        tenant_id = await tx.value("select id from tenants where slug = $1", SLUG)
        if tenant_id is None:
            if await tx.value("select exists (select from tenants)"):
                return None
            work = PlatformWork(tx, platform_principal("system", "AgentOS"), outbox, clock)
            tenant_id = await _create(work, secret_key, password)
    return Demo(EMAIL, password, _api_key(secret_key, TenantId(tenant_id)).text)


async def _create(work: PlatformWork, secret_key: bytes, password: str) -> TenantId:
    tenant = await service.create_tenant(work, "Demo", SLUG, "pro")
    tenant_id = TenantId(tenant.id)
    within = work.within(tenant_id)
    user_id = UserId(uuid7())
    await auth.create_user(work.tx, user_id, EMAIL, "Demo Owner", password)
    # Whoever runs the installation runs the platform.
    await service.set_platform_admin(work, EMAIL, admin=True)
    await members.join(within, user_id, EMAIL, Role.OWNER)
    await api_keys.store_key(
        within, "demo", frozenset(Scope), None, _api_key(secret_key, tenant_id)
    )
    return tenant_id


def _api_key(secret_key: bytes, tenant_id: TenantId) -> OpaqueToken:
    return token_from(api_keys.PREFIX, tenant_id, derive(secret_key, "demo api key"))
