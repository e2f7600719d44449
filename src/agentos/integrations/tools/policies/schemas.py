from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from agentos.integrations.tools.base import Repeat, Tier
from agentos.integrations.tools.policies.deciding import Decision
from agentos.tenancy.schemas import Body

Subject = Annotated[
    str,
    StringConstraints(pattern=r"^(tier:(safe|dangerous|destructive)|[A-Za-z0-9_-]{1,100}\*?)$"),
]


class ToolPolicyPut(Body):
    """A decision to set or to change."""

    subject: Subject = Field(
        description="A tool, tools by the beginning of their name (`mcp__github__*`), or a tier "
        "(`tier:destructive`). The most specific one decides.",
        examples=["http_send"],
    )
    decision: Decision = Field(
        description="ask: a person has to approve each call.", examples=["deny"]
    )


class ToolPolicyRead(BaseModel):
    id: UUID
    subject: str
    decision: Decision
    created_by: str
    updated_at: datetime


class ToolRead(BaseModel):
    """A built-in tool, and what this tenant has decided about it."""

    name: str
    description: str = Field(description="What models are told about it.")
    tier: Tier
    repeat: Repeat = Field(
        description="Whether a call that may have happened is made again. workspace: after the "
        "workspace was put back. Commands of sessions that may reach hosts are never repeated."
    )
    default: bool = Field(description="Whether a session has it that names no tools.")
    decision: Decision
    arguments: dict[str, Any] = Field(description="The JSON Schema of its arguments.")


class ToolList(BaseModel):
    items: list[ToolRead]
