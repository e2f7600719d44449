from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

RunState = Literal["queued", "running", "succeeded", "failed", "cancelled", "uncertain", "skipped"]


class RunRead(BaseModel):
    """One firing of a schedule or a webhook, and what came of it."""

    id: UUID
    schedule_id: UUID | None
    webhook_id: UUID | None
    due_at: datetime = Field(description="The moment it was meant for.")
    manual: bool = Field(description="Somebody asked for it by hand.")
    state: RunState
    prompt: str | None = Field(description="What it asked its team, or its session.")
    message_id: UUID | None = Field(description="The message to its team.")
    session_id: UUID | None = Field(description="The session that it started.")
    result: str | None = Field(description="The answer, or the session's result.")
    error: str | None
    error_code: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class LastRun(BaseModel):
    """What came of the newest run, for those who look at what it is a run of."""

    id: UUID
    state: RunState
    due_at: datetime = Field(description="The moment it was meant for.")
    finished_at: datetime | None
    error: str | None


class DeliveryRead(BaseModel):
    """A post-action for one run."""

    id: UUID
    post_action_id: UUID
    run_id: UUID
    state: Literal["waiting", "delivered", "failed"]
    attempts: int
    next_at: datetime | None = Field(description="When it is tried next.")
    status: int | None = Field(description="What the last try was answered with.")
    error: str | None
    created_at: datetime
    finished_at: datetime | None
