"""Who is behind a request: bearer token, API key, service token, webhook or cookie."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentos.control.api_keys import repository as api_keys
from agentos.control.api_keys.service import PREFIX as API_KEY_PREFIX
from agentos.control.auth import repository as auth
from agentos.control.auth.errors import SignInEnded
from agentos.execution.webhooks import repository as webhooks
from agentos.execution.webhooks.service import PREFIX as WEBHOOK_PREFIX
from agentos.kernel.clock import Clock
from agentos.kernel.crypto import digest
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.tenancy.opaque_tokens import OpaqueToken, parse_token
from agentos.tenancy.plans import Plan, plan_for
from agentos.tenancy.principals import ROLE_SCOPES, Principal, PrincipalKind, Role, known_scopes
from agentos.tenancy.tokens import TokenExpired, TokenInvalid, Tokens, Use

# How long a process believes what it read about a credential. A revoked one is refused everywhere
# after this at the latest, without any process having to tell the others.
TRUST_SECONDS = 1.0
_MOST_ENTRIES = 20_000
_TOUCH_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Identity:
    principal: Principal
    requests_per_minute: int
    expires_at: datetime | None
    trusted_until: float


class Authenticator:
    def __init__(self, db: Database, tokens: Tokens, clock: Clock):
        self._db = db
        self._tokens = tokens
        self._clock = clock
        self._known: dict[bytes, Identity] = {}
        self._reading: dict[bytes, asyncio.Lock] = {}
        # By tenant, and until when that is believed. A service token says all else by itself, and
        # each message to a team has one of its own.
        self._plans: dict[TenantId, tuple[Plan, float]] = {}

    async def identify(self, credential: str) -> Identity:
        """The identity behind a credential; raises Unauthenticated."""
        key = digest(credential)
        known = self._known.get(key)
        if known is None or known.trusted_until < time.monotonic():
            known = await self._read_once(key, credential)
        if known.expires_at is not None and known.expires_at <= self._clock.now():
            raise TokenExpired()
        return known

    async def confirm(self, credential: str) -> Identity:
        """As `identify`, but reads the credential anew."""
        self._known.pop(digest(credential), None)
        return await self.identify(credential)

    async def _read_once(self, key: bytes, credential: str) -> Identity:
        """Reads a credential anew; of many requests that find it stale at once, one does."""
        reading = self._reading.setdefault(key, asyncio.Lock())
        try:
            async with reading:
                known = self._known.get(key)
                if known is None or known.trusted_until < time.monotonic():
                    self._known.pop(key, None)
                    known = await self._look_up(credential)
                    if len(self._known) >= _MOST_ENTRIES:
                        self._known.clear()
                    self._known[key] = known
                return known
        finally:
            if not reading.locked():
                self._reading.pop(key, None)

    async def _look_up(self, credential: str) -> Identity:
        api_key = parse_token(API_KEY_PREFIX, credential)
        if api_key is not None:
            return await self._api_key(api_key)
        webhook = parse_token(WEBHOOK_PREFIX, credential)
        if webhook is not None:
            return await self._webhook(webhook)
        if self._tokens.use_of(credential) == Use.SERVICE:
            return await self._service(credential)
        return await self._user(credential)

    async def _api_key(self, token: OpaqueToken) -> Identity:
        async with self._db.transaction(tenant_id=token.tenant_id) as tx:
            row = await api_keys.principal(tx, token.tenant_id, token.digest)
            if row is None:
                raise TokenInvalid("The API key is not valid: unknown or revoked.")
            now = self._clock.now()
            if row["last_used_at"] is None or now - row["last_used_at"] > _TOUCH_EVERY:
                await api_keys.touch(tx, token.tenant_id, row["id"], now)
        principal = Principal(
            kind=PrincipalKind.API_KEY,
            id=str(row["id"]),
            name=row["name"],
            tenant_id=token.tenant_id,
            scopes=known_scopes(row["scopes"]),
            plan=row["plan"],
        )
        return self._identity(principal, plan_for(row["plan"], row["limits"]), row["expires_at"])

    async def _webhook(self, token: OpaqueToken) -> Identity:
        async with self._db.transaction(tenant_id=token.tenant_id) as tx:
            row = await webhooks.principal(tx, token.tenant_id, token.digest)
        if row is None:
            raise TokenInvalid("The webhook's token is not valid: unknown, rotated or disabled.")
        principal = Principal(
            kind=PrincipalKind.WEBHOOK,
            id=str(row["id"]),
            name=row["name"],
            tenant_id=token.tenant_id,
            scopes=frozenset(),
            plan=row["plan"],
        )
        return self._identity(principal, plan_for(row["plan"], row["limits"]), None)

    async def _service(self, credential: str) -> Identity:
        claims = self._tokens.read_service(credential)
        plan, until = await self._plan(claims.tenant_id)
        principal = Principal(
            kind=PrincipalKind.SERVICE,
            id=claims.subject,
            name=claims.subject,
            tenant_id=claims.tenant_id,
            scopes=claims.scopes,
            plan=plan.name,
            team_id=claims.team_id,
            session_id=claims.session_id,
        )
        return Identity(principal, plan.requests_per_minute, claims.expires_at, until)

    async def _plan(self, tenant_id: TenantId) -> tuple[Plan, float]:
        """The plan of a tenant that exists, and until when that is believed."""
        known = self._plans.get(tenant_id)
        if known is not None and known[1] >= time.monotonic():
            return known
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            row = await tx.row("select plan, limits from tenants where id = $1", tenant_id)
        if row is None:
            raise TokenInvalid()
        return self._learn(tenant_id, plan_for(row["plan"], row["limits"]))

    def _learn(self, tenant_id: TenantId, plan: Plan) -> tuple[Plan, float]:
        if len(self._plans) >= _MOST_ENTRIES:
            self._plans.clear()
        learnt = self._plans[tenant_id] = plan, time.monotonic() + TRUST_SECONDS
        return learnt

    async def _user(self, credential: str) -> Identity:
        claims = self._tokens.read_access(credential)
        async with self._db.transaction(tenant_id=claims.tenant_id, user_id=claims.user_id) as tx:
            row = await auth.user_principal(tx, claims.user_id, claims.tenant_id, claims.login_id)
        if row is None:
            raise SignInEnded()
        role = Role(row["role"])
        principal = Principal(
            kind=PrincipalKind.USER,
            id=str(claims.user_id),
            name=row["name"],
            tenant_id=TenantId(claims.tenant_id),
            scopes=ROLE_SCOPES[role],
            plan=row["plan"],
            user_id=claims.user_id,
            login_id=claims.login_id,
            role=role,
            platform_admin=row["platform_admin"],
        )
        return self._identity(principal, plan_for(row["plan"], row["limits"]), claims.expires_at)

    def _identity(self, principal: Principal, plan: Plan, expires_at: datetime | None) -> Identity:
        """Of what was read just now."""
        plan, until = self._learn(principal.tenant_id, plan)
        return Identity(principal, plan.requests_per_minute, expires_at, until)
