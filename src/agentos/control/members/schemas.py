from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from agentos.tenancy.principals import Role
from agentos.tenancy.schemas import Body, Email, Name, Password


class MemberRead(BaseModel):
    user_id: UUID
    email: str
    name: str
    role: Role
    created_at: datetime


class MemberUpdate(Body):
    role: Role = Field(examples=["admin"])


class InvitationCreate(Body):
    email: Email = Field(examples=["grace@example.com"])
    role: Role = Field(Role.MEMBER, examples=["member"])


class InvitationRead(BaseModel):
    id: UUID
    email: str
    role: Role
    invited_by: str
    created_at: datetime
    expires_at: datetime


class InvitationCreated(InvitationRead):
    token: str = Field(description="Shown only now; give it to the person you invite.")


class InvitationAccept(Body):
    token: str = Field(max_length=200, examples=["inv_…"])
    name: Name | None = Field(None, description="Needed if you have no account yet.")
    password: Password = Field(
        description="Of your account; it becomes the password if you have none yet."
    )
