"""Going on with a session that has ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from agentos.contracts.events import SessionQueued
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.configs import checked_config
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.paths import closing
from agentos.execution.pulse.history.reading import path_to
from agentos.execution.pulse.history.schemas import SessionContinue
from agentos.execution.pulse.journal import Session, Step, state_step
from agentos.execution.pulse.schemas import SessionConfig, SessionDetails
from agentos.execution.pulse.service import details, locked
from agentos.execution.pulse.states import ENDED, IllegalTransition, State
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work


async def continue_session(
    work: Work, front: PulseFront, session_id: UUID, body: SessionContinue
) -> SessionDetails:
    """Gives an ended session more to do, with its conversation and its files.

    Its guards count anew from here, and so does the time that the plan lets a session run: who
    asks for more expects it to be done. What it may spend does not: the budget is for its whole
    life. Tool calls that it was stopped at are not made; the model is told so.
    """
    work.require(Scope.SESSIONS_WRITE)
    session = await locked(work, session_id)
    _check_ended(session)
    path = await path_to(work.tx, front.payloads, work.tenant_id, session_id, session.seq)
    config = await config_with(work, front, session.config, model=body.model)
    now = work.now()
    closed = closing(session, path, now)
    steps = [*closed.steps, said(body.prompt, now), queued_again(session, session.state, now)]
    await sessions.change(
        work.tx,
        session,
        now,
        state=State.QUEUED,
        steps=steps,
        events=[*closed.events, SessionQueued(session_id=session_id)],
        queue=True,
        pause_requested=False,
        snapshot_id=session.snapshot_id,
        config=config,
    )
    await repository.begin_anew(work.tx, session)
    await work.record(
        "session.continued", target=("session", session_id), before={"state": session.state}
    )
    work.tx.after_commit(front.hints.queued)
    return await details(work, session_id)


def _check_ended(session: Session) -> None:
    if session.state in ENDED:
        return
    hint = "Tell it to run." if session.state == State.CREATED else "Wait until it has ended."
    if session.state == State.PAUSED:
        hint = "Resume it, or cancel it first."
    raise IllegalTransition(
        f"Only a session that has ended can be continued; it is {session.state}.",
        hint=hint,
        state=session.state,
    )


def said(prompt: str, at: datetime) -> Step:
    return Step(kind="message", name="user", at=at, output={"text": prompt})


def queued_again(session: Session, before: State, at: datetime) -> Step:
    """The step back into the queue. It keeps what `begin_anew` sets to nothing; guards and costs
    look for it.
    """
    step = state_step(before, State.QUEUED, at)
    return replace(step, input={**step.input, "turns": session.turns, "ran_ms": session.ran_ms})


async def config_with(
    work: Work, front: PulseFront, config: dict[str, Any], **changes: str | None
) -> dict[str, Any] | None:
    """A session's configuration with what is given changed; None if nothing is. Raises BadConfig, …"""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        return None
    wanted = SessionConfig.model_validate({**config, **given})
    return (await checked_config(work, front, wanted)).model_dump(mode="json")
