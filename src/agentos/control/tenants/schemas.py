from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from agentos.tenancy.schemas import Body, Name, Slug

_DEEPEST = 20


def _check_storable(value: object, depth: int = 0) -> None:
    """Raises ValueError for what Python reads as JSON and nothing else would."""
    if depth > _DEEPEST:
        raise ValueError(f"must not be nested more than {_DEEPEST} deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must not hold NaN or Infinity")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _check_storable(inner, depth + 1)


class TenantCreate(Body):
    name: Name = Field(examples=["Analytical Engines"])
    slug: Slug = Field(examples=["analytical-engines"])


class TenantUpdate(Body):
    name: Name | None = Field(None, examples=["Analytical Engines Ltd"])
    slug: Slug | None = Field(None, examples=["engines"])
    settings: dict[str, Any] | None = Field(
        None,
        description="Replaces the tenant's settings.",
        examples=[{"time_zone": "Europe/Berlin"}],
    )

    @field_validator("settings")
    @classmethod
    def _small(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and len(value) > 100:
            raise ValueError("must have at most 100 entries")
        _check_storable(value)
        return value


class TenantRead(BaseModel):
    id: UUID
    name: str
    slug: str
    plan: Literal["free", "pro", "enterprise"]
    settings: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class LimitRead(BaseModel):
    """One limit of the plan. A null `allowed` means unlimited; a null `used` is not counted yet."""

    name: str
    allowed: int | bool | None
    used: int | None


class PlanRead(BaseModel):
    """The tenant's plan and how much of it is used."""

    plan: str
    support: str
    uptime_percent: float | None
    monthly_price_usd: int | None
    limits: list[LimitRead]
