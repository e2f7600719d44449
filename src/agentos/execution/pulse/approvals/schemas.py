from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from agentos.tenancy.schemas import Body

ApprovalKind = Literal["tool", "gate", "question"]
ApprovalState = Literal["waiting", "approved", "rejected", "expired", "withdrawn"]
OnExpiry = Literal["reject", "approve", "fail"]


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    return text


Answer = Annotated[
    str, StringConstraints(min_length=1, max_length=100_000), AfterValidator(_storable)
]
Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=10_000), AfterValidator(_storable)
]


class Approve(Body):
    always: bool = Field(
        False,
        description="Of a tool: allow it for the rest of this session, or until this team is "
        "restarted, whatever it is given.",
    )
    answer: Answer | None = Field(None, description="To a question: what the agent is told.")


class Reject(Body):
    reason: Reason | None = Field(None, description="The agent is told.")


class ApprovalRead(BaseModel):
    """Something that waits, or waited, for a person."""

    id: UUID
    kind: ApprovalKind
    subject: str = Field(description="The tool, the gate, or the question.")
    details: dict[str, Any] = Field(description="What it is about: a tool's arguments, …")
    state: ApprovalState
    session_id: UUID | None = Field(description="The session that waits for it.")
    session_title: str | None
    team_id: UUID | None = Field(description="The team whose agent it is, if it is one's.")
    team_name: str | None
    message_id: UUID | None = Field(
        description="What a team that runs an agent CLI was asked: it has no session."
    )
    on_expiry: OnExpiry = Field(description="What becomes of it if nobody decides.")
    answer: str | None
    reason: str | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """Which are meant; what is None does not restrict."""

    state: ApprovalState | None = "waiting"
    session_id: UUID | None = None
    team_id: UUID | None = None
