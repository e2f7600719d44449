from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

By = Literal["day", "model", "provider", "team", "session"]
Outcome = Literal["answered", "cancelled", "failed"]

_COST = "What providers charge. Null: unknown. With unpriced calls, at least this."
_RATED = "What AgentOS charges for it. Null: unknown. With unpriced calls, at least this."


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which calls are meant; what is None does not restrict."""

    team_id: UUID | None = None
    session_id: UUID | None = None
    model: str | None = None
    provider: str | None = None

    @property
    def restricts(self) -> bool:
        return self != UsageFilter()


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What a report is about: days from `first` to `last`, both included, UTC."""

    first: date
    last: date
    by: By
    wanted: UsageFilter


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls are meant; what is None does not restrict."""

    session_id: UUID | None = None
    team_id: UUID | None = None
    provider: str | None = None
    model: str | None = None
    outcome: Outcome | None = None


class UsageTotals(BaseModel):
    calls: int
    failed_calls: int
    unpriced_calls: int = Field(description="Calls whose price is not known.")
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_micros: int | None = Field(description=_COST)
    rated_micros: int | None = Field(description=_RATED)


class UsageRow(UsageTotals):
    key: str | None = Field(
        description="The day, the model as `provider/model`, the provider, or the id of the team "
        "or session. Null: calls of no team or session."
    )


class Rated(BaseModel):
    """What AgentOS charges the tenant for these days, in micro-dollars, with the quantities."""

    tokens_micros: int | None = Field(description=_RATED)
    compute_seconds: int
    compute_micros: int
    storage_byte_hours: int
    storage_micros: int
    api_calls: int
    api_calls_over_plan: int = Field(description="Beyond what today's plan includes each month.")
    api_calls_micros: int
    total_micros: int = Field(description="With unknown prices, at least this.")


class UsageReport(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    first: date = Field(alias="from")
    last: date = Field(alias="to", description="Included.")
    by: By
    rows: list[UsageRow] = Field(description="Days in order; else the dearest first.")
    truncated: bool = Field(description="There are more rows; the totals are of all.")
    totals: UsageTotals
    rated: Rated | None = Field(
        description="The bill is the tenant's: null if only some calls were asked for."
    )
    unknown_prices: bool = Field(description="Costs are then at least what is shown.")


class CallRead(BaseModel):
    """A model call that has ended."""

    id: UUID
    at: datetime
    team_id: UUID | None
    session_id: UUID | None
    principal_kind: str
    principal_id: str
    face: str = Field(description="How it came in.")
    provider: str
    model: str
    asked_model: str = Field(description="What the caller named.")
    outcome: Outcome
    error_class: str | None
    streamed: bool
    estimated: bool = Field(description="The provider reported no usage; tokens are an estimate.")
    attempts: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_micros: int | None = Field(description="What the provider charges. Null: unknown.")
    rated_micros: int | None = Field(description="What AgentOS charges. Null: unknown.")
    duration_ms: int
    first_byte_ms: int | None


class LedgerEntryRead(BaseModel):
    """One link of a call's chain: reserve, then settle or release. Amounts are changes."""

    kind: Literal["reserve", "settle", "release"]
    at: datetime
    held_micros: int
    held_tokens: int
    spent_micros: int
    spent_tokens: int
    reason: str | None


class CallDetails(CallRead):
    ledger: list[LedgerEntryRead]
