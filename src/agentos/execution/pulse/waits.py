"""What a step of a session can come to: it is done, or the session has to wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentos.contracts.events import Event
from agentos.execution.pulse.schemas import StepStatus, WaitingFor
from agentos.kernel.database import Transaction
from agentos.tenancy.ledger.calls import FinishedCall, Reservation

Booked = tuple[Reservation, FinishedCall]


@dataclass(frozen=True, slots=True)
class Done:
    """A result, as the model and the timeline shall see it."""

    text: str
    failed: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    status: StepStatus = "done"


Write = Callable[[Transaction], Awaitable[Sequence[Event]]]


@dataclass(frozen=True, slots=True)
class Wait:
    """The session waits without a worker. Once it goes on, whatever asked to wait is asked again.

    `write` makes, in the transaction that pauses the session, what is waited for, and returns the
    events of it.
    """

    waiting_for: WaitingFor
    write: Write | None = None
    # When it goes on in any case.
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate has found."""

    passed: bool
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    # If models were asked: what that took, to be booked with the gate's step.
    booked: Sequence[Booked] = ()
    input_tokens: int = 0
    output_tokens: int = 0
