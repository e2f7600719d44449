from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from agentos.integrations.tools.schemas import HeaderName, HeaderValue
from agentos.tenancy.schemas import Body, Name

After = Literal["success", "failure", "any"]
Method = Literal["POST", "PUT", "PATCH", "GET", "DELETE"]


def _http(url: str) -> str:
    if not url.startswith(("http://", "https://")) or not (url.isascii() and url.isprintable()):
        raise ValueError("must be an http:// or https:// URL")
    return url


Url = Annotated[str, StringConstraints(min_length=8, max_length=2000), AfterValidator(_http)]
UserName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^:\x00-\x1f\x7f]*$")]
SecretName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Auth(Body):
    """How the call says who it is; the secret itself is in the vault."""

    kind: Literal["none", "bearer", "basic", "header"] = "none"
    secret: SecretName | None = Field(None, description="The name of the secret in the vault.")
    user: UserName | None = Field(None, description="Of basic.")
    header: HeaderName | None = Field(None, description="Of header: which one.")

    @model_validator(mode="after")
    def _complete(self) -> Auth:
        if (self.kind == "none") != (self.secret is None):
            raise ValueError("a secret is for bearer, basic and header, and needed there")
        if (self.kind == "basic") != (self.user is not None):
            raise ValueError("user is for basic, and needed there")
        if (self.kind == "header") != (self.header is not None):
            raise ValueError("header is for header, and needed there")
        return self


class PostActionCreate(Body):
    """An HTTP call after a run. Its URL and body may name {{run.state}}, {{run.result}},
    {{run.error}}, {{run.id}}, {{run.due_at}} and {{source.name}}."""

    name: Name
    schedule_id: UUID | None = Field(
        None,
        description="The schedule whose runs it follows.",
        examples=["01981f2e-7c00-7000-8000-000000000001"],
    )
    webhook_id: UUID | None = Field(None, description="Or the webhook.")
    after: After = "any"
    method: Method = "POST"
    url: Url = Field(examples=["https://example.com/done"])
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=50)] = Field(
        default_factory=dict
    )
    body: Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")] | None = (
        Field(None, description="A template. Null: the run as JSON.")
    )
    auth: Auth = Field(default_factory=Auth)
    max_attempts: int = Field(5, ge=1, le=20)
    enabled: bool = True

    @model_validator(mode="after")
    def _of_one(self) -> PostActionCreate:
        if (self.schedule_id is None) == (self.webhook_id is None):
            raise ValueError("give schedule_id or webhook_id")
        return self


class PostActionUpdate(Body):
    """What is given is changed."""

    name: Name | None = None
    after: After | None = None
    method: Method | None = None
    url: Url | None = None
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=50)] | None = None
    body: Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")] | None = (
        Field(None, description="Null, if it is given: the run as JSON.")
    )
    auth: Auth | None = None
    max_attempts: int | None = Field(None, ge=1, le=20)
    enabled: bool | None = None


class PostActionRead(BaseModel):
    id: UUID
    name: str
    schedule_id: UUID | None
    webhook_id: UUID | None
    after: After
    method: Method
    url: str
    headers: dict[str, str]
    body: str | None
    auth: dict[str, Any] = Field(description="Names its secret, never shows it.")
    max_attempts: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
