"""Going back: files and conversation return to a step together, as a step that can be undone.

Nothing is removed. A rollback is a step whose parent is where it went back to, so what came
between is not in force any more; going back to the step before the rollback undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agentos.contracts.events import (
    Event,
    SessionQueued,
    SessionRollbackStarted,
    SessionRolledBack,
)
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.aftermath import lock_family, session_ended
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.continuing import (
    config_with,
    queued_again,
    said,
)
from agentos.execution.pulse.history.errors import (
    BetweenCalls,
    CheckpointNotFound,
    NotStopped,
    PromptNeeded,
)
from agentos.execution.pulse.history.paths import (
    boundaries,
    boundary_before,
    closing,
    ends_with_answer,
    neighbours,
)
from agentos.execution.pulse.history.reading import check_step, path_to
from agentos.execution.pulse.history.schemas import (
    CheckpointRestore,
    RollbackCreate,
    RolledBack,
)
from agentos.execution.pulse.journal import Session, Step, snapshot_at, state_step
from agentos.execution.pulse.service import details, end_session, locked
from agentos.execution.pulse.states import State, check_transition
from agentos.kernel.errors import Invalid
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_STOPPED = frozenset({State.PAUSED, State.COMPLETE, State.FAILED, State.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class _Onward:
    """How a session goes on from where it went back to."""

    prompt: str | None
    config: dict[str, Any] | None


async def roll_back(
    work: Work, front: PulseFront, session_id: UUID, body: RollbackCreate
) -> RolledBack:
    """Takes a stopped session back to a step, in force or not, or to a checkpoint of it.

    It is ROLLED_BACK then, and waits to be continued. Raises BetweenCalls for a step between tool
    calls and their results; a checkpoint made there counts as the last step before them.
    """
    work.require(Scope.SESSIONS_WRITE)
    await lock_family(work.tx, work.tenant_id, session_id)
    session = await locked(work, session_id)
    if body.checkpoint_id is not None and body.to_seq is None:
        to_seq = await _seq_of(work, session_id, body.checkpoint_id)
        path = await _path(work, front, session, to_seq)
        to_seq = boundary_before(path, to_seq)
    elif body.to_seq is not None and body.checkpoint_id is None:
        to_seq = check_step(body.to_seq, session.seq)
        path = await _path(work, front, session, to_seq)
        if boundaries(path)[-1] != to_seq:
            now_path = await _path(work, front, session, session.seq)
            raise between_calls(path, now_path, to_seq)
    else:
        raise Invalid("Give either to_seq or checkpoint_id.")
    undo_seq = await _go_back(work, front, session, path, to_seq)
    await work.record(
        "session.rolled_back",
        target=("session", session_id),
        before={"state": session.state, "seq": session.seq},
        after={"to_seq": to_seq},
    )
    return RolledBack(to_seq=to_seq, undo_seq=undo_seq, session=await details(work, session_id))


async def restore_checkpoint(
    work: Work, front: PulseFront, checkpoint_id: UUID, body: CheckpointRestore
) -> RolledBack:
    """Takes a stopped session back to a checkpoint, and puts it into the queue to go on from there.

    Guards count anew, as when it is continued. Raises PromptNeeded if the conversation had ended
    there with an answer and no prompt is given.
    """
    work.require(Scope.SESSIONS_WRITE)
    row = await repository.checkpoint(work.tx, work.tenant_id, checkpoint_id)
    if row is None:
        raise CheckpointNotFound()
    await lock_family(work.tx, work.tenant_id, row["session_id"])
    session = await locked(work, row["session_id"])
    path = await _path(work, front, session, row["seq"])
    to_seq = boundary_before(path, row["seq"])
    kept = [step for step in path if step.seq <= to_seq]
    if body.prompt is None and ends_with_answer(kept):
        raise PromptNeeded()
    config = await config_with(work, front, session.config, model=body.model)
    onward = _Onward(body.prompt, config)
    undo_seq = await _go_back(work, front, session, kept, to_seq, onward)
    await work.record(
        "checkpoint.restored",
        target=("checkpoint", checkpoint_id),
        before={"state": session.state, "seq": session.seq},
        after={"session_id": str(session.id), "to_seq": to_seq},
    )
    work.tx.after_commit(front.hints.queued)
    return RolledBack(to_seq=to_seq, undo_seq=undo_seq, session=await details(work, session.id))


def between_calls(path: Sequence[Step], now_path: Sequence[Step], seq: int) -> BetweenCalls:
    """The error that names the steps to take instead."""
    on_path = any(step.seq == seq for step in now_path)
    later = [step for step in now_path if step.seq > seq] if on_path else []
    near = neighbours(path, later, seq)
    return BetweenCalls(
        f"At step {seq} the model had asked for tools whose results were not in yet.",
        hint=f"Use step {' or '.join(str(at) for at in near)}.",
        nearest=near,
    )


async def _go_back(
    work: Work,
    front: PulseFront,
    session: Session,
    path: Sequence[Step],
    to_seq: int,
    onward: _Onward | None = None,
) -> int:
    """Takes a locked session back; returns the step that undoes it."""
    _check_stopped(session)
    now, tx = work.now(), work.tx
    now_path = await _path(work, front, session, session.seq)
    # What it is stopped at is closed first: undoing the rollback leads to a clean end.
    closed = closing(session, now_path, now)
    steps = [
        *closed.steps,
        state_step(session.state, State.ROLLBACK, now),
        Step(
            kind="rollback",
            name="user",
            at=now,
            input={"to_seq": to_seq},
            output={"by": work.principal.name},
            parent=to_seq,
        ),
        state_step(State.ROLLBACK, State.ROLLED_BACK, now),
        *(_onward_steps(session, onward, work) if onward else []),
    ]
    events: list[Event] = [
        *closed.events,
        SessionRollbackStarted(session_id=session.id, to_seq=to_seq),
        SessionRolledBack(session_id=session.id, to_seq=to_seq),
    ]
    if onward:
        events.append(SessionQueued(session_id=session.id))
    await sessions.change(
        tx,
        session,
        now,
        state=State.QUEUED if onward else State.ROLLED_BACK,
        steps=steps,
        events=events,
        queue=onward is not None,
        # Nobody owns it, but it may be in the queue, or about to be woken.
        seize=True,
        pause_requested=False,
        snapshot_id=snapshot_at(path, to_seq),
        config=onward.config if onward else None,
    )
    if onward:
        await repository.begin_anew(tx, session)
    else:
        await repository.leave_behind(tx, session)
    await _end_what_hung_on_it(work, front, session, goes_on=onward is not None)
    return session.seq + len(closed.steps)


def _onward_steps(session: Session, onward: _Onward, work: Work) -> list[Step]:
    now = work.now()
    prompt = [said(onward.prompt, now)] if onward.prompt is not None else []
    return [*prompt, queued_again(session, State.ROLLED_BACK, now)]


async def _end_what_hung_on_it(
    work: Work, front: PulseFront, session: Session, *, goes_on: bool
) -> None:
    """Cancels open sub-agents and withdraws approvals; lets go on what waited for the session."""
    for child_id in await sessions.open_children(work.tx, work.tenant_id, session.id):
        child = await locked(work, child_id)
        await end_session(work, front, child, "cancelled", "The session that started it went back.")
    events = await session_ended(
        work.tx,
        work.tenant_id,
        session.id,
        work.now(),
        parent_id=None if goes_on else session.parent_id,
        chain_id=None if goes_on else session.chain_id,
    )
    await work.outbox.announce(work.tx, work.tenant_id, work.now(), *events)


def _check_stopped(session: Session) -> None:
    if session.state in _STOPPED:
        return
    if session.state == State.CREATED:
        check_transition(session.state, State.ROLLBACK)
    raise NotStopped(f"The session is {session.state}.", state=session.state)


async def _seq_of(work: Work, session_id: UUID, checkpoint_id: UUID) -> int:
    row = await repository.checkpoint(work.tx, work.tenant_id, checkpoint_id)
    if row is None or row["session_id"] != session_id:
        raise CheckpointNotFound()
    seq: int = row["seq"]
    return seq


async def _path(work: Work, front: PulseFront, session: Session, seq: int) -> list[Step]:
    return await path_to(work.tx, front.payloads, work.tenant_id, session.id, seq)
