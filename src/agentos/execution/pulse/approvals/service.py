"""Approvals: what waits for a person, and what people decide.

Deciding is one transaction on the session's row: the decision, its step in the journal, its event
and its audit row; the last decision puts the session back into the queue. An approval is expired
from the moment it says, whether or not its session has gone on yet: the session's next run, woken
at that moment, does what its rules say.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.approvals import repository
from agentos.execution.pulse.approvals.decisions import Decision, event_of, step_of
from agentos.execution.pulse.approvals.errors import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalNotFound,
    BadDecision,
)
from agentos.execution.pulse.approvals.schemas import (
    ApprovalFilter,
    ApprovalRead,
    Approve,
    Reject,
)
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.journal import Session
from agentos.execution.pulse.states import State
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work


async def list_approvals(
    work: Work, wanted: ApprovalFilter, page: PageRequest
) -> RowPage[ApprovalRead]:
    """What needs somebody, the longest waiting first."""
    work.require(Scope.SESSIONS_READ)
    rows = await repository.page(
        work.tx, work.tenant_id, wanted, work.now(), page.after_id, page.limit + 1
    )
    return page.of(ApprovalRead, rows)


async def read_approval(work: Work, approval_id: UUID) -> ApprovalRead:
    work.require(Scope.SESSIONS_READ)
    return await _read(work, approval_id)


async def approve(work: Work, front: PulseFront, approval_id: UUID, body: Approve) -> ApprovalRead:
    """Says yes, or answers. `always` also decides what else waits about the same tool."""
    work.require(Scope.APPROVALS_WRITE)
    found = await _read(work, approval_id)
    decision = Decision("approved", by=work.principal.name, answer=body.answer, always=body.always)
    if found.message_id is not None:
        return await _decide_for_team(work, front, found, decision, body)
    session, row = await _waiting(work, found)
    _check_fits(row, body)
    rows = [row]
    if body.always:
        await repository.allow_tool(work.tx, work.tenant_id, session.id, row["subject"])
        rows += await repository.others_of_tool(
            work.tx, work.tenant_id, session.id, row["subject"], row["id"], work.now()
        )
    await _decide(work, front, session, rows, decision)
    return await _read(work, approval_id)


async def reject(work: Work, front: PulseFront, approval_id: UUID, body: Reject) -> ApprovalRead:
    """Says no; the agent is told why."""
    work.require(Scope.APPROVALS_WRITE)
    found = await _read(work, approval_id)
    decision = Decision("rejected", by=work.principal.name, reason=body.reason)
    if found.message_id is not None:
        return await _decide_for_team(work, front, found, decision)
    session, row = await _waiting(work, found)
    await _decide(work, front, session, [row], decision)
    return await _read(work, approval_id)


async def _read(work: Work, approval_id: UUID) -> ApprovalRead:
    row = await repository.find(work.tx, work.tenant_id, approval_id, work.now())
    if row is None:
        raise ApprovalNotFound()
    return ApprovalRead(**row)


async def _waiting(work: Work, found: ApprovalRead) -> tuple[Session, asyncpg.Record]:
    """An approval that still waits, and its session, both locked."""
    assert found.session_id is not None, "it is a session that waits"
    session = await sessions.lock(work.tx, work.tenant_id, found.session_id)
    if session is None:
        raise ApprovalNotFound()
    return session, await _locked(work, found.id)


async def _locked(work: Work, approval_id: UUID) -> asyncpg.Record:
    """An approval that still waits, locked."""
    row = await repository.lock(work.tx, work.tenant_id, approval_id)
    if row is None:
        raise ApprovalNotFound()
    if row["state"] == "withdrawn":
        raise ApprovalDecided("It has ended: nothing waits for this decision any more.")
    if row["state"] == "expired" or row["expires_at"] <= work.now():
        raise ApprovalExpired(
            f"This expired at {row['expires_at']:%Y-%m-%d %H:%M:%S} UTC, before it was decided."
        )
    if row["state"] != "waiting":
        raise ApprovalDecided(f"{row['decided_by']} has {row['state']} this before.")
    return row


async def _decide_for_team(
    work: Work,
    front: PulseFront,
    found: ApprovalRead,
    decision: Decision,
    body: Approve | None = None,
) -> ApprovalRead:
    """Decides about a tool call of a team's agent; its keeper is told after the commit."""
    assert found.message_id is not None, "the agent of a team waits"
    assert found.team_id is not None, "a message has a team"
    row = await _locked(work, found.id)
    rows = [row]
    if body is not None:
        _check_fits(row, body)
    if decision.always:
        await repository.note_always(work.tx, work.tenant_id, found.id)
        rows += await repository.others_of_team(
            work.tx, work.tenant_id, found.message_id, row["subject"], found.id, work.now()
        )
    for each in rows:
        await repository.decide(work.tx, work.tenant_id, each["id"], decision, work.now())
        event = event_of(each, None, decision, found.team_id, found.message_id)
        await work.record(
            f"approval.{decision.state}",
            event,
            target=("approval", each["id"]),
            after={**_recorded(each, decision), "team_id": str(found.team_id)},
        )
    team_id = found.team_id
    work.tx.after_commit(lambda: front.hints.team_changed(team_id))
    return await _read(work, found.id)


def _check_fits(row: asyncpg.Record, body: Approve) -> None:
    if row["kind"] == "question" and body.answer is None:
        raise BadDecision("A question needs an answer.", hint="Give it as `answer` (--answer).")
    if row["kind"] != "question" and body.answer is not None:
        raise BadDecision("Only a question takes an answer.", hint="Leave out `answer`.")
    if row["kind"] != "tool" and body.always:
        raise BadDecision("Only a tool can be approved for good.", hint="Leave out `always`.")


async def _decide(
    work: Work,
    front: PulseFront,
    session: Session,
    rows: list[asyncpg.Record],
    decision: Decision,
) -> None:
    now = work.now()
    for row in rows:
        await repository.decide(work.tx, work.tenant_id, row["id"], decision, now)
    goes_on = (
        session.state == State.PAUSED
        and session.waiting_for == "approval"
        and not session.pause_requested
        and not await repository.is_waiting(work.tx, work.tenant_id, session.id)
    )
    await sessions.change(
        work.tx,
        session,
        now,
        steps=[step_of(row, decision, now) for row in rows],
        queue=goes_on,
        waiting_for=None if goes_on else session.waiting_for,
        snapshot_id=session.snapshot_id,
    )
    for row in rows:
        await work.record(
            f"approval.{decision.state}",
            event_of(row, session.id, decision),
            target=("approval", row["id"]),
            after={**_recorded(row, decision), "session_id": str(session.id)},
        )
    if goes_on:
        work.tx.after_commit(front.hints.queued)


def _recorded(row: asyncpg.Record, decision: Decision) -> dict[str, Any]:
    return {
        "kind": row["kind"],
        "subject": row["subject"],
        "reason": decision.reason,
        "always": decision.always,
    }
