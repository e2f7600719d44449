"""The states of a session, and the transitions between them, as data."""

from __future__ import annotations

from enum import StrEnum

from agentos.kernel.errors import Conflict


class State(StrEnum):
    CREATED = "CREATED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    CHECKPOINT = "CHECKPOINT"
    GATE_CHECK = "GATE_CHECK"
    COMPLETE = "COMPLETE"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    ROLLBACK = "ROLLBACK"
    ROLLED_BACK = "ROLLED_BACK"


# The way of a session as it was designed.
_DESIGNED = {
    State.CREATED: {State.QUEUED},
    State.QUEUED: {State.RUNNING, State.FAILED},
    State.RUNNING: {State.CHECKPOINT, State.PAUSED},
    State.CHECKPOINT: {State.GATE_CHECK, State.PAUSED},
    State.GATE_CHECK: {State.COMPLETE, State.FAILED},
    State.PAUSED: {State.RUNNING},
    State.FAILED: {State.ROLLBACK},
    State.ROLLBACK: {State.ROLLED_BACK},
}
# What people do to sessions besides: cancelling (to FAILED), pausing one that still waits for its
# turn, going on with one that has ended, going back in one that has not failed; and what a gate
# does: sending the agent back to work, or waiting for a person. docs/adr/0013 has the reasons.
_BESIDES = {
    State.CREATED: {State.FAILED},
    State.QUEUED: {State.PAUSED},
    State.RUNNING: {State.FAILED},
    State.CHECKPOINT: {State.FAILED},
    State.GATE_CHECK: {State.RUNNING, State.PAUSED, State.ROLLBACK},
    State.PAUSED: {State.FAILED, State.ROLLBACK},
    State.COMPLETE: {State.QUEUED, State.ROLLBACK},
    State.FAILED: {State.QUEUED},
    State.ROLLBACK: {State.FAILED},
    State.ROLLED_BACK: {State.QUEUED, State.ROLLBACK},
}

TRANSITIONS: dict[State, frozenset[State]] = {
    state: frozenset(_DESIGNED.get(state, set()) | _BESIDES.get(state, set())) for state in State
}

# Nothing happens to a session in one of these unless somebody asks for it.
ENDED = frozenset({State.COMPLETE, State.FAILED, State.ROLLED_BACK})
# A worker is at it.
WORKED_ON = frozenset({State.RUNNING, State.CHECKPOINT, State.GATE_CHECK, State.ROLLBACK})


class IllegalTransition(Conflict):
    """The session is not in a state in which this can be done."""

    code = "illegal_transition"
    hint = "Read the session again: its state says what can be done now."


def check_transition(before: State, after: State) -> None:
    """Raises IllegalTransition unless a session may go from one state to the other."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(
            f"A session that is {before} cannot become {after}.", state=before, wanted=after
        )
