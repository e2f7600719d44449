"""Checkpoints that people make: named places in a session to go back to."""

from __future__ import annotations

from uuid import UUID

from agentos.contracts.events import SessionCheckpoint
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.errors import ReservedName
from agentos.execution.pulse.history.reading import in_force, tip_of
from agentos.execution.pulse.history.schemas import CheckpointCreate, CheckpointRead
from agentos.execution.pulse.history.timeline import after_seq
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.service import locked
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import Page, PageRequest, encode_cursor
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

# Those that a run makes by itself: what it was given, and what it came to.
_RESERVED = frozenset({"start", "end"})


async def create_checkpoint(work: Work, session_id: UUID, body: CheckpointCreate) -> CheckpointRead:
    """Marks where a session is, whatever it is doing. One that runs is not held up."""
    work.require(Scope.SESSIONS_WRITE)
    if body.name in _RESERVED:
        raise ReservedName()
    session = await locked(work, session_id)
    checkpoint_id, now = uuid7(), work.now()
    step = Step(
        kind="checkpoint",
        name=body.name,
        at=now,
        output={"checkpoint_id": str(checkpoint_id)},
        snapshot_id=session.snapshot_id,
    )
    event = SessionCheckpoint(session_id=session_id, checkpoint_id=checkpoint_id)
    (made,) = await repository.append(work.tx, session, now, [step], [event])
    await repository.insert_checkpoints(
        work.tx, work.tenant_id, session_id, [(checkpoint_id, made)]
    )
    await work.record(
        "checkpoint.created",
        target=("checkpoint", checkpoint_id),
        after={"session_id": str(session_id), "seq": made.seq, "name": body.name},
    )
    return CheckpointRead(
        id=checkpoint_id,
        session_id=session_id,
        seq=made.seq,
        name=body.name,
        in_force=True,
        has_files=made.snapshot_id is not None,
        created_at=now,
    )


async def list_checkpoints(work: Work, session_id: UUID, page: PageRequest) -> Page[CheckpointRead]:
    """The checkpoints of a session in order, those that are not in force included."""
    work.require(Scope.SESSIONS_READ)
    tip = await tip_of(work.tx, work.tenant_id, session_id)
    path = await in_force(work.tx, work.tenant_id, session_id, tip)
    rows = await repository.checkpoints(
        work.tx, work.tenant_id, session_id, after_seq(page), page.limit + 1
    )
    shown = rows[: page.limit]
    return Page(
        items=[CheckpointRead(**row, in_force=row["seq"] in path) for row in shown],
        next_cursor=encode_cursor(str(shown[-1]["seq"])) if len(rows) > page.limit else None,
    )
