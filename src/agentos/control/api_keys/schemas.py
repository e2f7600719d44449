from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field

from agentos.tenancy.principals import Scope
from agentos.tenancy.schemas import Body, Name


class ApiKeyCreate(Body):
    name: Name = Field(examples=["ci"])
    scopes: Annotated[list[Scope], Field(max_length=50)] | None = Field(
        None, description="Default: everything you may do yourself.", examples=[["events:read"]]
    )
    expires_at: AwareDatetime | None = Field(
        None, description="Default: never.", examples=["2099-01-01T00:00:00Z"]
    )


class ApiKeyRead(BaseModel):
    id: UUID
    name: str
    last_four: str = Field(description="The end of the key, to recognise it by.")
    scopes: list[str]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class ApiKeyCreated(ApiKeyRead):
    key: str = Field(description="The key itself. Shown only now; keep it safe.")
