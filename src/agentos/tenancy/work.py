"""The unit of work: one transaction, one tenant, one principal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import asyncpg

from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.outbox import Announced, Outbox
from agentos.tenancy.audit import log as audit
from agentos.tenancy.plans import LIMITS, Plan, PlanLimitReached, plan_for
from agentos.tenancy.principals import Principal, PrincipalKind, Scope


@dataclass(frozen=True, slots=True)
class Work:
    """What a use-case is given. It never commits; whoever opened the work does."""

    tx: Transaction
    principal: Principal
    outbox: Outbox
    clock: Clock
    request_id: str | None = None

    @property
    def tenant_id(self) -> TenantId:
        return self.principal.tenant_id

    def now(self) -> datetime:
        return self.clock.now()

    def require(self, scope: Scope) -> None:
        """Raises Forbidden unless the principal holds the scope. First line of every use-case."""
        self.principal.require(scope)

    async def record(
        self,
        action: str,
        *events: Announced,
        target: tuple[str, object],
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the audit row of a mutation and announces its events."""
        now = self.now()
        principal = self.principal
        await audit.write(
            self.tx,
            tenant_id=self.tenant_id,
            at=now,
            actor=(principal.kind, principal.id, principal.name),
            action=action,
            target=(target[0], str(target[1])),
            before=before,
            after=after,
            request_id=self.request_id,
        )
        await self.outbox.announce(self.tx, self.tenant_id, now, *events)

    async def plan(self) -> Plan:
        """The tenant's plan as it is now, so that an upgrade acts at once."""
        row = await self.tx.row("select plan, limits from tenants where id = $1", self.tenant_id)
        assert row is not None, "a principal's tenant exists"
        return plan_for(row["plan"], row["limits"])

    async def quota(self, limit: str, used: int, adding: int = 1) -> None:
        """Raises PlanLimitReached if `adding` to `used` would exceed the plan.

        Call it after `hold(limit)`, so that two at once cannot both take the last place.
        """
        assert limit in LIMITS, limit
        plan = await self.plan()
        allowed = getattr(plan, limit)
        if allowed is not None and used + adding > allowed:
            raise PlanLimitReached(
                f"The {plan.name} plan allows {allowed} {limit.replace('_', ' ')}; {used} in use.",
                hint="Remove some, or move the tenant to a larger plan.",
                limit=limit,
                allowed=allowed,
                used=used,
            )

    async def hold(self, resource: str) -> None:
        """Makes others of this tenant that hold the same resource wait until this work ends."""
        await self.tx.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{self.tenant_id}:{resource}"
        )


@dataclass(frozen=True, slots=True)
class Alone:
    """Work that is one statement, which is its transaction: a function of the schema, which sets the
    tenant, and writes the audit row and the events itself."""

    db: Database
    principal: Principal
    outbox: Outbox
    clock: Clock
    request_id: str | None = None

    async def row(self, query: str, *args: Any) -> asyncpg.Record | None:
        rows = await self.db.fetch(query, *args)
        return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class PlatformWork:
    """Work across tenants, as the audited platform role."""

    tx: Transaction
    principal: Principal
    outbox: Outbox
    clock: Clock
    request_id: str | None = None

    def within(self, tenant_id: TenantId) -> Work:
        """The same transaction, for what happens to one tenant."""
        return Work(
            self.tx,
            replace(
                self.principal,
                tenant_id=tenant_id,
                kind=PrincipalKind.PLATFORM,
                scopes=frozenset(Scope),
            ),
            self.outbox,
            self.clock,
            self.request_id,
        )

    async def record(self, action: str, **details: Any) -> None:
        """Writes the row of the platform's own audit log; reading across tenants is logged, too."""
        await self.tx.execute(
            """insert into platform_audit_log (id, at, actor_id, actor_name, action, details, request_id)
               values ($1, $2, $3, $4, $5, $6, $7)""",
            uuid7(),
            self.clock.now(),
            self.principal.id,
            self.principal.name,
            action,
            details,
            self.request_id,
        )
