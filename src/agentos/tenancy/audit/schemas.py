from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

ExportFormat = Literal["ndjson", "csv"]


class AuditRead(BaseModel):
    """One mutation: who did what to which thing, and what changed."""

    id: UUID
    at: datetime
    actor_kind: str = Field(examples=["user"])
    actor_id: str
    actor_name: str
    action: str = Field(examples=["secret.stored"])
    target_kind: str = Field(examples=["secret"])
    target_id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are meant; what is None does not restrict."""

    action: str | None = None
    actor_id: str | None = None
    target_kind: str | None = None
    target_id: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
