"""Which steps of a journal are in force, and between which of them one can cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agentos.execution.pulse import conversation, outputs
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.journal import Change, Session, Step, cut_off

_NOT_MADE = "This call was not made: the session was stopped before it was its turn."


@dataclass(frozen=True, slots=True)
class InForce:
    """The steps on the path to a tip, as the ranges between rollbacks."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, rollbacks: Sequence[tuple[int, int]], tip: int) -> InForce:
        """`rollbacks` in order, each with the step it went back to."""
        ranges, high, left = [], tip, list(rollbacks)
        while high > 0:
            while left and left[-1][0] > high:
                left.pop()
            ranges.append((left[-1][0] if left else 1, high))
            high = left.pop()[1] if left else 0
        return cls(tuple(reversed(ranges)))

    def __contains__(self, seq: int) -> bool:
        return any(low <= seq <= high for low, high in self.ranges)


def boundaries(path: Sequence[Step]) -> list[int]:
    """The steps after which no tool call waits for its result."""
    open_calls: set[str] = set()
    found = []
    for step in path:
        if step.kind == "model":
            open_calls = {call.key for call in conversation.calls_of(step)}
        elif step.kind == "tool":
            open_calls.discard(step.key or "")
        elif step.kind in ("message", "compaction"):
            open_calls.clear()
        if not open_calls:
            found.append(step.seq)
    return found


def boundary_before(path: Sequence[Step], seq: int) -> int:
    """The last boundary up to a step; a session's first message is always one."""
    return max(at for at in boundaries(path) if at <= seq)


def ends_with_answer(path: Sequence[Step]) -> bool:
    """Whether the model has said its last word, so that nothing is to be done."""
    last = conversation.last_spoken(path)
    if last is None:
        return False
    if last.kind == "tool":
        return outputs.accepted(path) is not None
    return last.kind == "model" and not conversation.calls_of(last)


def closing(session: Session, path: Sequence[Step], at: datetime) -> Change:
    """Results for the calls that a stopped session did not come to, and the events of them.

    A conversation goes on only if each call in it has a result. One that had begun, and whose
    effects are outside, is uncertain.
    """
    begun = cut_off(session.id, session.doing, at)
    calls = conversation.unanswered(path)
    uncertain = {step.key: step for step in begun.steps}
    return Change(
        steps=[uncertain.get(call.key) or _not_made(call, at) for call in calls],
        events=begun.events if any(call.key in uncertain for call in calls) else (),
    )


def _not_made(call: ToolCall, at: datetime) -> Step:
    return Step(
        kind="tool",
        name=call.name,
        at=at,
        status="failed",
        key=call.key,
        input={"call_id": call.id, "arguments": call.arguments},
        output={"text": _NOT_MADE, "failed": True, "stopped": True},
    )


def neighbours(path: Sequence[Step], later: Sequence[Step], seq: int) -> list[int]:
    """The boundaries next to a step that is none: before it, and after it if there is one."""
    after = [at for at in boundaries([*path, *later]) if at > seq]
    return [boundary_before(path, seq), *after[:1]]


def only_first_message(path: Sequence[Step]) -> bool:
    spoken = [step for step in path if step.kind in conversation.SPOKEN]
    return len(spoken) == 1 and spoken[0].kind == "message"
