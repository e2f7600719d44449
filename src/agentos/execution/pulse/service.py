"""Sessions: create, run, pause, resume, cancel; and what there is to see of them.

Each use-case is one transaction on the session's row: transition, journal, events, audit. Workers
hear of it after the commit.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agentos.contracts.events import (
    SessionCreated,
    SessionFailed,
    SessionPaused,
    SessionQueued,
)
from agentos.execution.pulse import repository
from agentos.execution.pulse.aftermath import lock_family, session_ended
from agentos.execution.pulse.configs import checked_config
from agentos.execution.pulse.dispatch import charge_compute
from agentos.execution.pulse.errors import SessionNotFound, SessionWaits
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.journal import Session, Step, cut_off, state_step
from agentos.execution.pulse.schemas import (
    SessionCreate,
    SessionDetails,
    SessionFilter,
    SessionRead,
    title_of,
)
from agentos.execution.pulse.states import ENDED, IllegalTransition, State, check_transition
from agentos.kernel.ids import uuid7
from agentos.tenancy.budgets import service as budgets
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_LAST = UUID(int=2**128 - 1)
# Of a prompt in an event; the session has all of it.
_SHOWN = 2_000


async def create_session(work: Work, front: PulseFront, body: SessionCreate) -> SessionDetails:
    """A new session, in the queue unless the caller wants to run it later."""
    work.require(Scope.SESSIONS_WRITE)
    config = await checked_config(work, front, body)
    session_id, now = uuid7(), work.now()
    state = State.QUEUED if body.run else State.CREATED
    first = Step(kind="message", name="user", at=now, output={"text": body.prompt})
    steps = [first]
    shown = {**config.model_dump(mode="json", exclude={"files"}), "prompt": body.prompt[:_SHOWN]}
    events: list[SessionCreated | SessionQueued] = [
        SessionCreated(session_id=session_id, config=shown)
    ]
    if body.run:
        steps.append(state_step(State.CREATED, State.QUEUED, now))
        events.append(SessionQueued(session_id=session_id))
    principal = work.principal
    await repository.insert(
        work.tx,
        work.tenant_id,
        session_id,
        state=state,
        title=body.title or title_of(body.prompt),
        config=config.model_dump(mode="json"),
        priority=body.priority,
        team_id=body.team_id,
        principal=(principal.kind, principal.id, principal.name),
        now=now,
        steps=steps,
        events=events,
    )
    if config.budget_micros is not None:
        await budgets.cap_session(work, session_id, config.budget_micros)
    await work.record("session.created", target=("session", session_id), after={"state": state})
    if body.run:
        work.tx.after_commit(front.hints.queued)
    return await details(work, session_id)


async def list_sessions(
    work: Work, wanted: SessionFilter, page: PageRequest
) -> RowPage[SessionRead]:
    """The sessions of the tenant, newest first."""
    work.require(Scope.SESSIONS_READ)
    before = page.after_id if page.after is not None else _LAST
    rows = await repository.page(work.tx, work.tenant_id, wanted, before, page.limit + 1)
    return page.of(SessionRead, rows)


async def read_session(work: Work, session_id: UUID) -> SessionDetails:
    work.require(Scope.SESSIONS_READ)
    return await details(work, session_id)


async def run_session(work: Work, front: PulseFront, session_id: UUID) -> SessionDetails:
    """Puts a session that was only created into the queue."""
    work.require(Scope.SESSIONS_WRITE)
    session = await locked(work, session_id)
    if session.state != State.CREATED:
        raise IllegalTransition(
            f"The session was told to run before; it is {session.state}.",
            hint="To give it more to do, continue it with a prompt.",
        )
    await _change(
        work,
        session,
        state=State.QUEUED,
        steps=[state_step(State.CREATED, State.QUEUED, work.now())],
        events=[SessionQueued(session_id=session_id)],
        queue=True,
    )
    await work.record("session.run", target=("session", session_id))
    work.tx.after_commit(front.hints.queued)
    return await details(work, session_id)


async def pause_session(work: Work, front: PulseFront, session_id: UUID) -> SessionDetails:
    """Stops a session at its next step, or at once if none is running. Pausing twice is harmless."""
    work.require(Scope.SESSIONS_WRITE)
    session = await locked(work, session_id)
    if session.pause_requested:
        return await details(work, session_id)
    if session.state == State.PAUSED:
        # What it waits for may come: it stays paused all the same.
        waits = session.waiting_for or "pause"
        await _change(work, session, pause_requested=True, waiting_for=waits, dequeue=True)
    elif session.state == State.QUEUED:
        await _change(
            work,
            session,
            state=State.PAUSED,
            steps=[state_step(session.state, State.PAUSED, work.now(), "pause")],
            events=[SessionPaused(session_id=session_id, waiting_for="pause")],
            dequeue=True,
            pause_requested=True,
            waiting_for="pause",
        )
    else:
        check_transition(session.state, State.PAUSED)
        await _change(work, session, pause_requested=True)
        work.tx.after_commit(lambda: front.hints.changed(session_id))
    await work.record("session.paused", target=("session", session_id))
    return await details(work, session_id)


async def resume_session(work: Work, front: PulseFront, session_id: UUID) -> SessionDetails:
    """Lets a paused session go on, once it has what else it waits for."""
    work.require(Scope.SESSIONS_WRITE)
    session = await locked(work, session_id)
    if session.state != State.PAUSED:
        if not session.pause_requested:
            check_transition(session.state, State.RUNNING)
            raise IllegalTransition("The session is not paused.")
        # It has not come to its next step yet.
        await _change(work, session, pause_requested=False)
    else:
        await _resume_paused(work, front, session)
    await work.record("session.resumed", target=("session", session_id))
    return await details(work, session_id)


async def _resume_paused(work: Work, front: PulseFront, session: Session) -> None:
    missing = await repository.missing(work.tx, session)
    if missing is not None and not session.pause_requested:
        raise SessionWaits(
            f"The session waits for {missing}, and goes on by itself then.",
            hint="`agentos approvals` lists what needs you; or cancel the session.",
        )
    if missing is not None:
        await _change(work, session, pause_requested=False, waiting_for=session.waiting_for)
        return
    await _change(work, session, pause_requested=False, queue=True)
    work.tx.after_commit(front.hints.queued)


async def cancel_session(work: Work, front: PulseFront, session_id: UUID) -> SessionDetails:
    """Ends a session and its sub-agents at once, whatever they are at."""
    work.require(Scope.SESSIONS_WRITE)
    await lock_family(work.tx, work.tenant_id, session_id)
    session = await locked(work, session_id)
    if session.state in ENDED:
        raise IllegalTransition(f"The session has ended already: it is {session.state}.")
    await end_session(work, front, session, "cancelled", f"{work.principal.name} cancelled it.")
    await work.record("session.cancelled", target=("session", session_id))
    return await details(work, session_id)


async def end_session(
    work: Work, front: PulseFront, session: Session, code: str, reason: str
) -> None:
    """Fails a locked session from outside, and its sub-agents with it."""
    now = work.now()
    told = cut_off(session.id, session.doing, now)
    ran_ms = await _change(
        work,
        session,
        state=State.FAILED,
        steps=[*told.steps, state_step(session.state, State.FAILED, now, reason)],
        events=[*told.events, SessionFailed(session_id=session.id, error=reason)],
        seize=True,
        pause_requested=False,
        error=reason,
        error_code=code,
    )
    for child_id in await repository.open_children(work.tx, work.tenant_id, session.id):
        child = await locked(work, child_id)
        if child.state not in ENDED:
            await end_session(work, front, child, code, reason)
    events = await session_ended(
        work.tx,
        work.tenant_id,
        session.id,
        now,
        parent_id=session.parent_id,
        chain_id=session.chain_id,
        in_team=session.team_id is not None,
    )
    await work.outbox.announce(work.tx, work.tenant_id, now, *events)
    await charge_compute(work.tx, work.tenant_id, now, session.ran_ms, ran_ms)
    work.tx.after_commit(lambda: front.hints.changed(session.id))
    work.tx.after_commit(front.hints.queued)


async def locked(work: Work, session_id: UUID) -> Session:
    """A session of this tenant that nobody else changes until the work ends."""
    session = await repository.lock(work.tx, work.tenant_id, session_id)
    if session is None:
        raise SessionNotFound()
    return session


async def details(work: Work, session_id: UUID) -> SessionDetails:
    row = await repository.find(work.tx, work.tenant_id, session_id)
    if row is None:
        raise SessionNotFound()
    return SessionDetails(**row)


async def _change(work: Work, session: Session, **change: Any) -> int:
    """Changes a locked session; what is not named stays as it is."""
    change.setdefault("snapshot_id", session.snapshot_id)
    return await repository.change(work.tx, session, work.now(), **change)
