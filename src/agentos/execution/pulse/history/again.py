"""The steps with which a session that has ended goes on."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from agentos.execution.pulse.journal import Session, Step, state_step
from agentos.execution.pulse.states import State


def said(prompt: str, at: datetime) -> Step:
    return Step(kind="message", name="user", at=at, output={"text": prompt})


def queued_again(session: Session, before: State, at: datetime) -> Step:
    """The step back into the queue. It keeps what `begin_anew` sets to nothing; guards and costs
    look for it.
    """
    step = state_step(before, State.QUEUED, at)
    return replace(step, input={**step.input, "turns": session.turns, "ran_ms": session.ran_ms})
