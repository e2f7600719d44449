"""The end of a message: its answer is stored once, whoever brings it and however often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from agentos.contracts.events import Event, MessageFinished
from agentos.execution.crews.messages import repository
from agentos.execution.runs.outcomes import message_finished
from agentos.kernel.database import Transaction
from agentos.kernel.texts import storable

# Of an answer in an event; the message has all of it.
_SHOWN = 4_000
MOST_DEEDS = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a message ended. `activity` are deeds as the API shows them."""

    state: Literal["answered", "failed", "cancelled", "uncertain"]
    answer: str = ""
    error: str | None = None
    error_code: str | None = None
    activity: Sequence[dict[str, Any]] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0

    def costing(self, input_tokens: int, output_tokens: int, cost_micros: int) -> Outcome:
        """The same, with what it took."""
        return replace(
            self, input_tokens=input_tokens, output_tokens=output_tokens, cost_micros=cost_micros
        )


async def finish(
    tx: Transaction,
    tenant_id: UUID,
    team_id: UUID,
    message_id: UUID,
    outcome: Outcome,
    now: datetime,
    *,
    before: Literal["queued", "running"] = "running",
) -> list[Event] | None:
    """Ends a message of a team, with the run that it was sent for; returns what to announce.

    None if it had ended, or is not the team's: then nothing is changed.
    """
    answer = storable(outcome.answer)
    row = await repository.finish(
        tx,
        tenant_id,
        team_id,
        message_id,
        before,
        state=outcome.state,
        answer=answer or None,
        error=storable(outcome.error),
        error_code=outcome.error_code,
        activity=storable(list(outcome.activity[:MOST_DEEDS])),
        usage=(outcome.input_tokens, outcome.output_tokens, outcome.cost_micros),
        now=now,
    )
    if row is None:
        return None
    events: list[Event] = [
        MessageFinished(
            message_id=message_id,
            team_id=team_id,
            state=outcome.state,
            answer=answer if len(answer) <= _SHOWN else answer[: _SHOWN - 1] + "…",
            error=storable(outcome.error),
            cost_micros=outcome.cost_micros,
        )
    ]
    if row["run_id"] is not None:
        events += await message_finished(
            tx,
            tenant_id,
            row["run_id"],
            state=outcome.state,
            answer=answer,
            error=storable(outcome.error),
            error_code=outcome.error_code,
            now=now,
        )
    return events
