from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

Level = Literal["info", "warning", "error"]
Source = Literal["team", "agent"]


class LogRead(BaseModel):
    """One line of a team's log."""

    id: UUID
    at: datetime
    level: Level
    source: Source = Field(
        description="`team`: what it lived through. `agent`: what its agent CLI printed."
    )
    text: str
