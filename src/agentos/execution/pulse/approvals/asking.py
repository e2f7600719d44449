"""What a run asks people: may this tool be used, does this pass, what is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from agentos.contracts.events import ApprovalRequested, Event
from agentos.execution.pulse.approvals import repository
from agentos.execution.pulse.approvals.decisions import Decision, event_of, step_of
from agentos.execution.pulse.approvals.errors import ApprovalDecided, ApprovalExpired
from agentos.execution.pulse.approvals.schemas import ApprovalKind
from agentos.execution.pulse.journal import Change
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Wait, Write
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7

# Enough to decide by. The journal has all of it.
_LONGEST_SUBJECT = 1_000
_LONGEST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. `key` names it within the session: asked again, it is the same request."""

    kind: ApprovalKind
    key: str
    subject: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What people said; an approval that expired was decided by its session's rules."""

    approved: bool
    answer: str | None
    reason: str | None
    decided_by: str | None


async def ask(run: Run, request: Request) -> Answer | Wait:
    """What was decided about a request; or the wait for it.

    Raises ApprovalExpired if nobody did, and the session's rules want it to fail then.
    """
    row = await _find(run, request.key)
    if row is None or _is_void(row):
        expires_at = _expiry(run)
        return Wait("approval", write=_requesting(run, request, expires_at), wake_at=expires_at)
    if row["state"] in ("approved", "rejected"):
        return Answer(row["state"] == "approved", row["answer"], row["reason"], row["decided_by"])
    if row["state"] == "expired":
        return Answer(row["on_expiry"] == "approve", None, row["reason"], None)
    if row["expires_at"] > run.parts.clock.now():
        return Wait("approval", write=_going_on_if_decided(run), wake_at=row["expires_at"])
    return await _expire(run, request, row)


def together(waits: Sequence[Wait]) -> Wait:
    """One wait for all of them, until the first of them expires."""
    writes = [wait.write for wait in waits if wait.write is not None]

    async def write(tx: Transaction) -> list[Event]:
        return [event for each in writes for event in await each(tx)]

    times = [wait.wake_at for wait in waits if wait.wake_at is not None]
    return Wait("approval", write=write, wake_at=min(times, default=None))


def _is_void(row: asyncpg.Record) -> bool:
    """Whether the session ended over it, and has been told to go on since: it is asked anew."""
    ended: bool = row["state"] == "withdrawn"
    return ended or (row["state"] == "expired" and row["on_expiry"] == "fail")


async def _expire(run: Run, request: Request, row: asyncpg.Record) -> Answer | Wait:
    """Decides as the session's rules say, since nobody did."""
    told = f"Nobody decided about {request.subject[:200]} in time."
    if row["on_expiry"] == "fail":
        # It is put down as expired with the end of the session.
        raise ApprovalExpired(told)
    session, now = run.session, run.parts.clock.now()
    decision = Decision("expired", reason=told)

    async def write(tx: Transaction) -> list[Event]:
        if not await repository.decide(tx, session.tenant_id, row["id"], decision, now):
            raise ApprovalDecided()
        return [event_of(row, session.id, decision)]

    try:
        # What it was doing is none of this step's business.
        await run.commit(
            Change(steps=[step_of(row, decision, now)], doing=session.doing), also=[write]
        )
    except ApprovalDecided:
        # In the very last moment.
        return await ask(run, request)
    return Answer(row["on_expiry"] == "approve", None, told, None)


async def _find(run: Run, key: str) -> asyncpg.Record | None:
    session = run.session
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        return await repository.find_by_key(tx, session.tenant_id, session.id, key)


def _expiry(run: Run) -> datetime:
    return run.parts.clock.now() + timedelta(seconds=run.config.approvals.expires_seconds)


def _requesting(run: Run, request: Request, expires_at: datetime) -> Write:
    session = run.session

    async def write(tx: Transaction) -> list[Event]:
        subject = shortened(request.subject)[:_LONGEST_SUBJECT]
        approval_id = await repository.insert(
            tx,
            session.tenant_id,
            session.id,
            uuid7(),
            kind=request.kind,
            key=request.key,
            subject=subject,
            details=shortened(request.details),
            on_expiry=run.config.approvals.on_expiry,
            now=run.parts.clock.now(),
            expires_at=expires_at,
        )
        return [
            ApprovalRequested(
                approval_id=approval_id,
                session_id=session.id,
                kind=request.kind,
                subject=subject,
                expires_at=expires_at,
            )
        ]

    return write


def _going_on_if_decided(run: Run) -> Write:
    async def write(tx: Transaction) -> list[Event]:
        await repository.requeue_if_decided(tx, run.session.tenant_id, run.session.id)
        return []

    return write


def shortened(value: Any) -> Any:
    """The same, with long texts cut, and without what binary JSON cannot hold."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        over = len(text) - _LONGEST_TEXT
        return text if over <= 0 else f"{text[:_LONGEST_TEXT]}… ({over} characters more)"
    if isinstance(value, dict):
        return {shortened(key): shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(item) for item in value]
    return value
