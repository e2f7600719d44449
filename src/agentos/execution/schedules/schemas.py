from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    Field,
    StringConstraints,
    model_validator,
)

from agentos.execution.crews.messages.schemas import Text
from agentos.execution.pulse.schemas import SessionCreate
from agentos.execution.runs.schemas import LastRun
from agentos.tenancy.schemas import Body, Name

Missed = Literal["skip", "once", "all"]
Kind = Literal["cron", "interval", "once"]
Cron = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]*$")]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]*$")]
_YEARS = range(1970, 3000)


def _in_utc(moment: datetime) -> datetime:
    # Far from where time ends for Python and for the database: there is always a next one.
    if moment.year not in _YEARS:
        raise ValueError(f"must be from {_YEARS[0]} to {_YEARS[-1]}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
# A year.
Seconds = Annotated[int, Field(ge=10, le=31_622_400)]


class Timing(Body):
    """When it fires: `cron`, or `every_seconds`, or once `at` a moment."""

    cron: Cron | None = Field(None, examples=["0 9 * * 1-5"])
    timezone: Zone = Field("UTC", description="In which cron is read.", examples=["Europe/Berlin"])
    every_seconds: Seconds | None = None
    at: Moment | None = Field(
        None, description="The one moment; or, with every_seconds, the first one (default: now)."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Timing:
        if (self.cron is not None) + (self.every_seconds is not None) > 1:
            raise ValueError("give cron or every_seconds, not both")
        if self.cron is None and self.every_seconds is None and self.at is None:
            raise ValueError("give cron, every_seconds or at")
        if self.cron is not None and self.at is not None:
            raise ValueError("at does not go with cron")
        return self

    @property
    def kind(self) -> Kind:
        if self.cron is not None:
            return "cron"
        return "interval" if self.every_seconds is not None else "once"


class ScheduleCreate(Timing):
    name: Name
    team_id: UUID | None = Field(None, description="The team that is asked `prompt`.")
    prompt: Text | None = None
    session: SessionCreate | None = Field(
        None,
        description="Or the session that is started.",
        examples=[{"prompt": "Say what changed since yesterday"}],
    )
    missed: Missed = Field(
        "once",
        description="What becomes of runs whose time has passed while nothing was running: skip "
        "them, make up for the newest one, or for all (100 at most).",
    )
    enabled: bool = True


class ScheduleUpdate(Body):
    """What is given is changed. Giving one way of timing takes the place of the other."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    every_seconds: Seconds | None = None
    at: Moment | None = None
    prompt: Text | None = Field(
        None, description="What its team is asked, or the session that it starts."
    )
    session: SessionCreate | None = Field(
        None, description="In place of the session that it starts."
    )
    missed: Missed | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ScheduleUpdate:
        if self.cron is not None and (self.every_seconds is not None or self.at is not None):
            raise ValueError("give cron, or every_seconds or at")
        return self


class ScheduleRead(BaseModel):
    id: UUID
    name: str
    team_id: UUID | None
    prompt: str | None
    session: dict[str, Any] | None
    kind: Kind
    cron: str | None
    timezone: str
    every_seconds: int | None
    at: datetime | None
    missed: Missed
    enabled: bool
    next_at: datetime | None = Field(description="When it fires next. Null: it does not.")
    created_by: str
    created_at: datetime
    updated_at: datetime
    last_run: LastRun | None = Field(description="Its newest run. Null: none is kept.")


class ScheduleDetails(ScheduleRead):
    upcoming: list[datetime] = Field(description="The next moments, however far away.")


class TimingPreview(BaseModel):
    upcoming: list[datetime]
