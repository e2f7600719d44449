from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from agentos.tenancy.schemas import Body

MessageState = Literal["queued", "running", "answered", "failed", "cancelled", "uncertain"]
MessageSource = Literal["chat", "schedule", "webhook"]

MOST_TEXT = 50_000
MOST_ATTACHMENTS = 5
MOST_ATTACHMENT_BYTES = 10 * 1024 * 1024

Text = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=MOST_TEXT, strip_whitespace=False, pattern=r"^[^\x00]*$"
    ),
]


class Attachment(Body):
    """An object of the tenant that the agents shall have as a file."""

    object_id: UUID = Field(description="Stored before with PUT /api/objects/….")
    name: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+$")
    ] = Field(description="What the file is called in the workspace.")


class MessageCreate(Body):
    text: Text
    attachments: Annotated[list[Attachment], Field(max_length=MOST_ATTACHMENTS)] = Field(
        default_factory=list
    )


class MessageRead(BaseModel):
    """What a team was asked, and its answer."""

    id: UUID
    team_id: UUID
    position: int = Field(description="Messages are answered in this order.")
    source: MessageSource
    run_id: UUID | None
    author: str
    text: str
    attachments: list[dict[str, Any]]
    state: MessageState
    attempt: int = Field(
        description="How often an agent was given it: more than once after a crash."
    )
    answer: str | None
    error: str | None
    error_code: str | None
    activity: list[dict[str, Any]] = Field(description="What the agents did: tools, workers.")
    input_tokens: int
    output_tokens: int
    cost_micros: int
    session_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
