from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from agentos.tenancy.principals import PrincipalKind, Role, Scope
from agentos.tenancy.schemas import Body, Email, Name, Password, Slug


class SignIn(Body):
    email: Email = Field(examples=["owner@demo.example"])
    # No lower bound here: a short wrong password is wrong, not malformed.
    password: str = Field(max_length=200, examples=["correct horse battery staple"])
    tenant: Slug | None = Field(
        None, description="Slug of the tenant to work in; default: the first."
    )


class Register(Body):
    email: Email = Field(examples=["ada@example.com"])
    name: Name = Field(examples=["Ada Lovelace"])
    password: Password = Field(examples=["correct horse battery staple"])
    tenant_name: Name = Field(examples=["Analytical Engines"])
    tenant_slug: Slug = Field(examples=["analytical-engines"])


class Refresh(Body):
    refresh_token: str | None = Field(
        None, max_length=4000, description="A browser with `?cookie=true` leaves it to its cookie."
    )
    tenant: Slug | None = Field(None, description="Slug of the tenant to go on in.")


class SignOut(Body):
    refresh_token: str | None = Field(
        None, max_length=4000, description="A browser leaves it to its cookie."
    )


class PasswordChange(Body):
    current_password: str = Field(max_length=200)
    new_password: Password


class TokenPair(BaseModel):
    """An access token for the API, and the refresh token that replaces both, once.

    With `?cookie=true` both are empty here: they are in cookies, which scripts cannot read.
    """

    access_token: str
    refresh_token: str
    token_type: str = "bearer"  # noqa: S105 - the name of a scheme, not a token
    expires_in: int = Field(description="Seconds until the access token expires.")
    tenant_id: UUID


class SignInOptions(BaseModel):
    """The ways in that this installation has."""

    signup: Literal["open", "invite"] = Field(description="open: anyone may register.")
    demo: bool = Field(
        description="Whether `POST /api/auth/demo` would sign you in. Only on the machine that "
        "`agentos up` runs on."
    )
    version: str = Field(description="The version of AgentOS.")


class TenantOfUser(BaseModel):
    id: UUID
    name: str
    slug: str
    role: Role


class WhoAmI(BaseModel):
    """The principal behind this request."""

    kind: PrincipalKind
    id: str
    name: str
    email: str | None
    role: Role | None
    platform_admin: bool
    scopes: list[Scope]
    tenant_id: UUID
    tenant_name: str
    tenant_slug: str
    plan: str
    tenants: list[TenantOfUser] = Field(description="All tenants this user belongs to.")


class LoginRead(BaseModel):
    """One sign-in of yours."""

    id: UUID
    current: bool = Field(description="It is the one that asks.")
    user_agent: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
