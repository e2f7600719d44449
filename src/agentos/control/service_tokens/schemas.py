from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from agentos.tenancy.principals import Scope
from agentos.tenancy.schemas import Body


class ServiceTokenCreate(Body):
    subject: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9:_-]{0,99}$")] = Field(
        description="What the token is for; it becomes the actor in the audit log.",
        examples=["worker:nightly"],
    )
    scopes: list[Scope] = Field(max_length=50, examples=[["events:read"]])
    seconds: int = Field(900, ge=30, le=3600, description="How long it lives.")


class ServiceTokenCreated(BaseModel):
    token: str = Field(description="Shown only now. It cannot be revoked, so keep it short-lived.")
    expires_at: datetime
