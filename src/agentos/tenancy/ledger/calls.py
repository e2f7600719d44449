"""What the ledger is told about a model call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from agentos.kernel.ids import TenantId


class Spender(msgspec.Struct, frozen=True, gc=False):
    """Whose budgets a call counts against: the tenant's, and its team's and session's if any."""

    tenant_id: TenantId
    team_id: UUID | None = None
    session_id: UUID | None = None


class Amount(msgspec.Struct, frozen=True, gc=False):
    """Micro-dollars and tokens. `micros` is None when the price is not known."""

    micros: int | None
    tokens: int


class FinishedCall(msgspec.Struct, frozen=True, gc=False):
    """A row of model_calls, but for its id and spender, which the reservation knows."""

    at: datetime
    principal_kind: str
    principal_id: str
    face: str
    provider: str
    model: str
    asked_model: str
    outcome: Literal["answered", "cancelled", "failed"]
    error_class: str | None
    streamed: bool
    estimated: bool
    attempts: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_micros: int | None
    duration_ms: int
    first_byte_ms: int | None


@dataclass(slots=True)
class Reservation:
    """Room for one call, taken out of every budget it counts against."""

    call_id: UUID
    spender: Spender
    at: datetime
    micros: int
    tokens: int
