from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field


class EventRead(BaseModel):
    seq: int = Field(description="The event's place in the tenant's stream; counts up by one.")
    id: UUID
    type: str = Field(examples=["session.completed"])
    tenant_id: UUID
    at: datetime
    data: dict[str, Any] = Field(description="The facts; which ones depends on the type.")


class EventPage(BaseModel):
    items: list[EventRead]
    next_after: int = Field(description="Ask with `?after=` this to go on, now or later.")


class TicketRead(BaseModel):
    ticket: str = Field(description="Open `/api/events?ticket=…` with it, once.")
    expires_at: datetime
