from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from agentos.execution.crews.messages.schemas import Text
from agentos.execution.pulse.schemas import SessionCreate
from agentos.execution.runs.schemas import LastRun, RunState
from agentos.tenancy.schemas import Body, Name


class WebhookCreate(Body):
    name: Name
    team_id: UUID | None = Field(None, description="The team that is asked `prompt`.")
    prompt: Text | None = Field(
        None,
        description="A template: {{a.path}} comes from the JSON that is sent, {{body}} is all of "
        "it, {{a.path?}} may be missing.",
    )
    session: SessionCreate | None = Field(
        None,
        description="Or the session that is started; its prompt is a template.",
        examples=[{"prompt": "Look at this issue: {{issue.title}}"}],
    )
    max_unfinished: int = Field(
        20, ge=1, le=10_000, description="Runs at once; more are refused with 429."
    )
    enabled: bool = True


class WebhookUpdate(Body):
    """What is given is changed."""

    name: Name | None = None
    prompt: Text | None = Field(
        None, description="What its team is asked, or the session that it starts."
    )
    session: SessionCreate | None = Field(
        None, description="In place of the session that it starts."
    )
    max_unfinished: int | None = Field(None, ge=1, le=10_000)
    enabled: bool | None = None


class WebhookRead(BaseModel):
    id: UUID
    name: str
    team_id: UUID | None
    prompt: str | None
    session: dict[str, Any] | None
    token_hint: str = Field(description="The end of its token, to recognise it by.")
    enabled: bool
    max_unfinished: int
    used_at: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    last_run: LastRun | None = Field(description="Its newest run. Null: none is kept.")


class WebhookCreated(WebhookRead):
    token: str = Field(description="Shown only now; keep it safe.")
    path: str = Field(description="Where to send to: POST this path of your AgentOS.")


class Fired(BaseModel):
    """What a webhook has started; with `wait`, also what came of it."""

    run_id: UUID
    state: RunState
    message_id: UUID | None
    session_id: UUID | None
    result: str | None
    error: str | None
