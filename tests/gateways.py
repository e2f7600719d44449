"""A running gateway for tests, and people and tenants to use it with."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx

from agentos.contracts.events import subject_roots
from agentos.control.platform.demo import Demo
from agentos.execution.relay import relay_waker
from agentos.gateway.app import create_gateway
from agentos.gateway.parts import Parts
from agentos.gateway.server import Server
from agentos.integrations.models.parts import ModelParts
from agentos.kernel.bus import Bus
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.ids import ApiKeyId, LoginId, TenantId, UserId, uuid7
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.opaque_tokens import new_token
from agentos.tenancy.principals import Role, Scope
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.keyring import open_keyring

# Nothing here speaks TLS. Each client would read all certificates of the machine for itself.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Person:
    """A member of a tenant, signed in."""

    tenant_id: TenantId
    user_id: UserId
    login_id: LoginId
    email: str
    token: str = field(repr=False)
    client: httpx.AsyncClient


@dataclass
class Gateway:
    url: str
    parts: Parts
    tokens: Tokens
    outbox: Outbox
    models: ModelParts
    _stack: AsyncExitStack

    async def client(self, credential: str | None = None, **headers: str) -> httpx.AsyncClient:
        if credential is not None:
            headers["Authorization"] = f"Bearer {credential}"
        client = httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=30, verify=_NO_CERTIFICATES
        )
        return await self._stack.enter_async_context(client)

    async def tenant(self, *, plan: str = "pro", role: Role = Role.OWNER) -> Person:
        """A new tenant with one member."""
        tenant_id = TenantId(uuid7())
        async with self.parts.platform_db.transaction() as tx:
            await tx.execute(
                "insert into tenants (id, name, slug, plan) values ($1, $2, $3, $4)",
                tenant_id,
                f"Tenant {tenant_id.hex[-6:]}",
                f"t-{tenant_id.hex}",
                plan,
            )
        return await self.member(tenant_id, role=role)

    async def member(
        self, tenant_id: TenantId, *, role: Role = Role.MEMBER, platform_admin: bool = False
    ) -> Person:
        """One more person in a tenant. Signed in without a password: hashing one takes time."""
        user_id, login_id = UserId(uuid7()), LoginId(uuid7())
        email = f"{user_id.hex}@test.example"
        async with self.parts.platform_db.transaction() as tx:
            await tx.execute(
                """insert into users (id, email, name, password_hash, platform_admin)
                   values ($1, $2, $3, 'none', $4)""",
                user_id,
                email,
                f"Person {user_id.hex[-6:]}",
                platform_admin,
            )
            await tx.execute(
                "insert into members (tenant_id, user_id, role) values ($1, $2, $3)",
                tenant_id,
                user_id,
                role,
            )
        async with self.parts.db.transaction(user_id=user_id) as tx:
            await tx.execute(
                "insert into logins (user_id, id, expires_at) values ($1, $2, $3)",
                user_id,
                login_id,
                self.parts.clock.now() + timedelta(days=30),
            )
        token = self.tokens.access(user_id, tenant_id, login_id)
        return Person(tenant_id, user_id, login_id, email, token, await self.client(token))

    async def api_key(
        self, tenant_id: UUID, scopes: frozenset[Scope] = frozenset(Scope), **columns: Any
    ) -> str:
        """An API key with exactly these scopes."""
        token = new_token("sk", TenantId(tenant_id))
        async with self.parts.db.transaction(tenant_id=tenant_id) as tx:
            await tx.execute(
                """insert into api_keys
                   (tenant_id, id, name, last_four, token_hash, scopes, created_by, expires_at)
                   values ($1, $2, 'test', $3, $4, $5, 'test', $6)""",
                tenant_id,
                ApiKeyId(uuid7()),
                token.last_four,
                token.digest,
                sorted(scopes),
                columns.get("expires_at"),
            )
        return token.text


@asynccontextmanager
async def running_gateway(
    settings: Settings,
    secret_key: bytes,
    *,
    clock: Clock,
    db: Database,
    platform_db: Database,
    bus: Bus,
    demo: Demo | None = None,
) -> AsyncIterator[Gateway]:
    await bus.ensure_events_stream(subject_roots())
    parts = Parts(
        settings=settings,
        secret_key=secret_key,
        clock=clock,
        db=db,
        platform_db=platform_db,
        bus=bus,
        objects=ObjectStore.open(None, settings.data_dir),
        keyring=open_keyring(settings),
    )
    server = Server("127.0.0.1", 0)
    gateway = create_gateway(parts, demo=demo)
    assert gateway.models is not None
    # Clients go first: a server that stops waits for whoever is connected.
    async with server.running(gateway), AsyncExitStack() as stack:
        yield Gateway(
            url=f"http://127.0.0.1:{server.port}",
            parts=parts,
            tokens=Tokens(secret_key, clock, timedelta(seconds=settings.access_token_seconds)),
            outbox=Outbox(relay_waker(bus)),
            models=gateway.models,
            _stack=stack,
        )
