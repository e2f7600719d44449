"""The end of a session: checkpoint, gates, and what it has come to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from agentos.contracts.events import (
    Event,
    SessionCheckpoint,
    SessionCompleted,
    SessionGateFailed,
    SessionGatePassed,
    SessionGateStarted,
    SessionRollbackStarted,
    SessionRolledBack,
)
from agentos.execution.pulse import conversation, outputs
from agentos.execution.pulse.gates.checks import check_gate
from agentos.execution.pulse.gates.evidence import changes_of
from agentos.execution.pulse.gates.schemas import Gate
from agentos.execution.pulse.journal import Change, Step, encoded, snapshot_at, state_step
from agentos.execution.pulse.model_calls import cost_of
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.states import State
from agentos.execution.pulse.waits import Booked, Verdict, Wait
from agentos.integrations.workspaces.workspaces import Change as ChangedPath
from agentos.kernel.ids import uuid7
from agentos.kernel.texts import storable

# The message with which a gate sends the agent back to work.
AGAIN = "gate"
_MOST_FILES = 200


def is_plain(run: Run) -> bool:
    """Nothing is to be checked and no file was touched: the last answer is the end."""
    return (
        not run.config.gates
        and run.config.output_schema is None
        and run.session.snapshot_id is None
        and run.session.state == State.RUNNING
    )


async def complete(run: Run, answer: Step, booked: Sequence[Booked], progress: Event) -> None:
    """Ends a plain session with its last answer, in one transaction."""
    result = _result(conversation.text_of(answer), None, [])
    checkpoint, event = checkpoint_of(run, "end")
    now = run.parts.clock.now()
    await run.commit(
        Change(
            steps=[
                answer,
                state_step(State.RUNNING, State.CHECKPOINT, now),
                checkpoint,
                *_to_complete(now),
            ],
            events=[progress, event, _gates_started(run), _completed(run, result)],
            state=State.COMPLETE,
            turns=1,
            release=True,
            result=result,
        ),
        booked=booked,
    )


async def finish(run: Run) -> bool:
    """Does what is next to bring a session that has its answer to its end.

    One thing at a time, so that a pause is seen between two gates. False: it is not worked on any
    more.
    """
    if run.config.output_schema is not None and outputs.output_of(run) is None:
        await run.commit(Change(steps=[outputs.reminder(run)]))
    elif run.session.state == State.RUNNING:
        return await _leave_running(run)
    elif run.session.state == State.CHECKPOINT:
        await _enter_gates(run)
    elif (gate := _next_gate(run)) is not None:
        return await _check(run, gate)
    else:
        await _complete(run, [state_step(State.GATE_CHECK, State.COMPLETE, run.parts.clock.now())])
        return False
    return True


async def _leave_running(run: Run) -> bool:
    now = run.parts.clock.now()
    left = state_step(State.RUNNING, State.CHECKPOINT, now)
    if run.config.gates and _has_checkpoint(run):
        # It was here before, and had to wait for something.
        await run.commit(Change(steps=[left], state=State.CHECKPOINT))
        return True
    checkpoint, event = checkpoint_of(run, "end")
    if run.config.gates:
        await run.commit(Change(steps=[left, checkpoint], events=[event], state=State.CHECKPOINT))
        return True
    steps = [left, checkpoint, *_to_complete(now)]
    await _complete(run, steps, [event, _gates_started(run)])
    return False


async def _enter_gates(run: Run) -> None:
    await run.commit(
        Change(
            steps=[state_step(State.CHECKPOINT, State.GATE_CHECK, run.parts.clock.now())],
            events=[_gates_started(run)],
            state=State.GATE_CHECK,
        )
    )


async def _complete(run: Run, steps: Sequence[Step], events: Sequence[Event] = ()) -> None:
    result = await result_of(run)
    await run.commit(
        Change(
            steps=steps,
            events=[*events, _completed(run, result)],
            state=State.COMPLETE,
            release=True,
            result=result,
        )
    )


async def _check(run: Run, gate: Gate) -> bool:
    """Checks a gate and acts on what it finds. False: the session is not worked on any more."""
    began = time.monotonic()
    outcome = await check_gate(run, gate)
    if isinstance(outcome, Wait):
        await run.wait(outcome)
        return False
    outcome = replace(outcome, reason=storable(outcome.reason))
    step = _gate_step(run, gate, outcome, round((time.monotonic() - began) * 1000))
    session_id, booked = run.session.id, outcome.booked
    progress = run.progress(step, outcome.reason)
    if outcome.passed:
        passed = SessionGatePassed(session_id=session_id, gate=gate.name)
        await run.commit(Change(steps=[step], events=[progress, passed]), booked=booked)
        return True
    failed = SessionGateFailed(session_id=session_id, gate=gate.name, reason=outcome.reason)
    reason = f"The gate {gate.name} did not pass: {outcome.reason}"
    if gate.on_fail == "retry" and _failures(run, gate) < gate.retries:
        await run.commit(_back_to_work(run, step, [progress, failed], reason), booked=booked)
        return True
    if gate.on_fail == "rollback":
        change = _rolled_back(run, step, [progress, failed], reason)
        await run.commit(change, booked=booked)
        return False
    await run.fail("gate_failed", reason, steps=[step], events=[progress, failed], booked=booked)
    return False


def _gate_step(run: Run, gate: Gate, verdict: Verdict, duration_ms: int) -> Step:
    return Step(
        kind="gate",
        name=gate.name,
        at=run.parts.clock.now(),
        status="done" if verdict.passed else "failed",
        input={"kind": gate.kind},
        output={"passed": verdict.passed, "reason": verdict.reason, **verdict.details},
        input_tokens=verdict.input_tokens,
        output_tokens=verdict.output_tokens,
        cost_micros=cost_of(verdict.booked) if verdict.booked else None,
        duration_ms=duration_ms,
    )


def _back_to_work(run: Run, step: Step, events: list[Event], reason: str) -> Change:
    """The agent is told why, and goes on."""
    now = run.parts.clock.now()
    back = state_step(State.GATE_CHECK, State.RUNNING, now, reason)
    text = f"{reason}\n\nPut it right."
    again = Step(kind="message", name=AGAIN, at=now, output={"text": text})
    return Change(steps=[step, back, again], events=events, state=State.RUNNING)


def _rolled_back(run: Run, step: Step, events: list[Event], reason: str) -> Change:
    """Goes back to where the work on this answer began. Files and conversation go together."""
    session, now = run.session, run.parts.clock.now()
    target = rollback_target(run.path)
    back = Step(
        kind="rollback",
        name="gate",
        at=now,
        input={"to_seq": target.seq},
        output={"reason": reason},
        parent=target.seq,
    )
    return Change(
        steps=[
            step,
            state_step(State.GATE_CHECK, State.ROLLBACK, now, reason),
            back,
            state_step(State.ROLLBACK, State.ROLLED_BACK, now, reason),
        ],
        events=[
            *events,
            SessionRollbackStarted(session_id=session.id, to_seq=target.seq),
            SessionRolledBack(session_id=session.id, to_seq=target.seq),
        ],
        state=State.ROLLED_BACK,
        back_to=snapshot_at(run.path, target.seq),
        release=True,
        error=reason,
        error_code="gate_failed",
    )


def rollback_target(path: Sequence[Step]) -> Step:
    """Where a failed session goes back to: the newest checkpoint that is not of failed work.

    That is one that somebody made, the start, or the end of what was asked for before; if there is
    none, the very first step.
    """
    asked = _asked_at(path)
    kept = [s for s in path if s.kind == "checkpoint" and (s.name != "end" or s.seq < asked)]
    return kept[-1] if kept else path[0]


def _next_gate(run: Run) -> Gate | None:
    """The first gate that the answer has not passed yet."""
    since = _answered_at(run)
    passed = {s.name for s in run.path if s.kind == "gate" and s.status == "done" and s.seq > since}
    return next((gate for gate in run.config.gates if gate.name not in passed), None)


def _has_checkpoint(run: Run) -> bool:
    """Whether the end was kept since the answer that is being checked."""
    since = _answered_at(run)
    return any(s.kind == "checkpoint" and s.name == "end" and s.seq > since for s in run.path)


def _answered_at(run: Run) -> int:
    answer = conversation.last_answer(run.path)
    return answer.seq if answer else 0


def _asked_at(path: Sequence[Step]) -> int:
    """When it was last told to do something, other than to put it right."""
    own = (AGAIN, outputs.REMINDER)
    return max((s.seq for s in path if s.kind == "message" and s.name not in own), default=0)


def _failures(run: Run, gate: Gate) -> int:
    asked = _asked_at(run.path)
    return sum(
        step.kind == "gate"
        and step.name == gate.name
        and step.status == "failed"
        and step.seq > asked
        for step in run.path
    )


async def result_of(run: Run) -> dict[str, Any]:
    """What the session has come to, as its row keeps it."""
    answer = conversation.last_answer(run.path)
    text = conversation.text_of(answer) if answer else ""
    return _result(text, outputs.output_of(run), await changes_of(run))


def _result(
    text: str, output: outputs.Output | None, changes: Sequence[ChangedPath]
) -> dict[str, Any]:
    if not text and output is not None:
        text = encoded(output.value) or "null"
    files = [
        {"path": c.path, "kind": c.kind, "size_before": c.size_before, "size_after": c.size_after}
        for c in changes[:_MOST_FILES]
    ]
    result: dict[str, Any] = storable(
        {
            "text": text,
            "output": None if output is None else output.value,
            "files": files,
            "more_files": max(0, len(changes) - _MOST_FILES),
        }
    )
    return result


def checkpoint_of(run: Run, name: str, files: UUID | None = None) -> tuple[Step, Event]:
    """A checkpoint of the session as it is; with the step its row is written, too.

    `files`: the snapshot that comes with the same commit, if one does.
    """
    checkpoint_id, session = uuid7(), run.session
    step = Step(
        kind="checkpoint",
        name=name,
        at=run.parts.clock.now(),
        output={"checkpoint_id": str(checkpoint_id)},
        snapshot_id=files or session.snapshot_id,
    )
    return step, SessionCheckpoint(session_id=session.id, checkpoint_id=checkpoint_id)


def _to_complete(now: datetime) -> list[Step]:
    return [
        state_step(State.CHECKPOINT, State.GATE_CHECK, now),
        state_step(State.GATE_CHECK, State.COMPLETE, now),
    ]


def _gates_started(run: Run) -> SessionGateStarted:
    return SessionGateStarted(session_id=run.session.id, gates=[g.name for g in run.config.gates])


def _completed(run: Run, result: dict[str, Any]) -> SessionCompleted:
    return SessionCompleted(session_id=run.session.id, result=result)
