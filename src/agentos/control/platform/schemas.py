from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from agentos.control.tenants.schemas import TenantRead
from agentos.tenancy.plans import check_limits
from agentos.tenancy.schemas import Body, Email, Name, Slug

PlanName = Literal["free", "pro", "enterprise"]


class TenantProvision(Body):
    name: Name = Field(examples=["Analytical Engines"])
    slug: Slug = Field(examples=["analytical-engines"])
    plan: PlanName = "free"
    owner_email: Email = Field(
        description="Gets an invitation as owner.", examples=["ada@example.com"]
    )


class PlatformTenantRead(TenantRead):
    limits: dict[str, Any] = Field(description="Limits agreed for this tenant alone.")


class TenantProvisioned(PlatformTenantRead):
    invitation_token: str = Field(description="Shown only now; give it to the owner.")


class PlanChange(Body):
    plan: PlanName | None = Field(None, examples=["pro"])
    limits: dict[str, int | bool | None] | None = Field(
        None,
        description="Replaces the limits agreed for this tenant; null lifts one.",
        examples=[{"team_members": 25}],
    )

    @field_validator("limits")
    @classmethod
    def _known(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            check_limits(value)
        return value


class PlatformAuditRead(BaseModel):
    id: UUID
    at: datetime
    actor_id: str
    actor_name: str
    action: str
    details: dict[str, Any]
    request_id: str | None
