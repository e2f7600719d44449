from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from agentos.tenancy.schemas import Body

BudgetScope = Literal["tenant", "team", "session"]
BudgetState = Literal["open", "warned", "exhausted"]

# A billion dollars: far from what a bigint of micro-dollars holds, so that sums stay in range.
_MOST_MICROS = 10**15


class BudgetPut(Body):
    """A hard cap to set or to change.

    Whether a team or session of that id exists is not checked: a budget may be there before what
    it is for.
    """

    scope: BudgetScope = Field(
        description="A tenant's and a team's cap is for a calendar month (UTC), a session's in all.",
        examples=["tenant"],
    )
    subject_id: UUID | None = Field(
        None, description="The team or session. Leave it out for the tenant."
    )
    cap_micros: Annotated[int, Field(ge=0, le=_MOST_MICROS, strict=True)] = Field(
        description="Millionths of a dollar; 0 allows nothing that costs.", examples=[25_000_000]
    )


class BudgetRead(BaseModel):
    """A hard cap, and how far it is used up in its present period."""

    id: UUID
    scope: BudgetScope
    subject_id: UUID
    cap_micros: int
    spent_micros: int
    held_micros: int = Field(description="Set aside for calls that are running.")
    remaining_micros: int = Field(description="Neither spent nor held.")
    percent: int = Field(description="Whole percent of the cap that is spent, rounded down.")
    state: BudgetState = Field(
        description="warned: 80 % or more is spent. exhausted: a call was refused, or all is spent."
    )
    period: date | None = Field(description="First day of the month it counts; null: in all.")
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class BudgetFilter:
    """Which budgets are meant; what is None does not restrict."""

    scope: BudgetScope | None = None
    subject_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a cap is compared with, and what was already said about it."""

    spent_micros: int
    warned_at: datetime | None
    exhausted_at: datetime | None
