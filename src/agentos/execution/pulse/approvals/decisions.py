"""What was decided about an approval, as the journal and the events have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import ApprovalDecided
from agentos.execution.pulse.approvals.schemas import ApprovalState
from agentos.execution.pulse.journal import Step

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """`by` is None for what the session's own rules decided."""

    state: ApprovalState
    by: str | None = None
    answer: str | None = None
    reason: str | None = None
    always: bool = False


def step_of(row: asyncpg.Record, decision: Decision, at: datetime) -> Step:
    """The step that shows it in the timeline."""
    output: dict[str, Any] = {"state": decision.state, "by": decision.by}
    if decision.answer is not None:
        output["answer"] = decision.answer
    if decision.reason is not None:
        output["reason"] = decision.reason
    if decision.always:
        output["always"] = True
    return Step(
        kind="approval",
        name=row["subject"][:_LONGEST_NAME],
        at=at,
        input={"approval_id": str(row["id"]), "kind": row["kind"], "about": row["key"]},
        output=output,
    )


def event_of(
    row: asyncpg.Record,
    session_id: UUID | None,
    decision: Decision,
    team_id: UUID | None = None,
    message_id: UUID | None = None,
) -> ApprovalDecided:
    return ApprovalDecided(
        approval_id=row["id"],
        session_id=session_id,
        state=decision.state,
        decided_by=decision.by,
        team_id=team_id,
        message_id=message_id,
    )
