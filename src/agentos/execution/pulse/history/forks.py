"""Forks: a new session out of the steps of another, up to one of them.

The fork has copies of everything but the snapshot of the files, which is counted by whoever names
it: so each of the two can be deleted without the other losing anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from agentos.contracts.events import Event, SessionCreated, SessionForked, SessionQueued
from agentos.execution.pulse import journal, payloads
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.conversation import SPOKEN
from agentos.execution.pulse.errors import SessionNotFound
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.continuing import config_with, said
from agentos.execution.pulse.history.errors import PromptNeeded
from agentos.execution.pulse.history.paths import (
    boundary_before,
    ends_with_answer,
    only_first_message,
)
from agentos.execution.pulse.history.reading import Reader, check_step
from agentos.execution.pulse.history.schemas import SessionFork
from agentos.execution.pulse.history.timeline import whole_of
from agentos.execution.pulse.journal import Step, numbered, snapshot_at, state_step
from agentos.execution.pulse.schemas import SessionDetails, title_of
from agentos.execution.pulse.service import details
from agentos.execution.pulse.states import State
from agentos.kernel.ids import uuid7
from agentos.tenancy.budgets import service as budgets
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

# What the conversation and the files are made of. States, gates and approvals are the original's.
_COPIED = SPOKEN | {"checkpoint"}

# Of a prompt in an event; the session has all of it.
_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a fork takes from the session it comes from."""

    session: dict[str, Any]
    seq: int
    path: list[Step]


async def fork_session(
    reader: Reader,
    open_work: Callable[[], Awaitable[Work]],
    session_id: UUID,
    body: SessionFork,
) -> SessionDetails:
    """A new session that shares the steps up to one, and goes its own way from there.

    At a step between tool calls and their results it takes the last one before them; `forked_seq`
    says which. The original is not touched, and may be running. What the shared steps cost stays
    with it. The work is opened only when everything has been read and copied.
    """
    reader.principal.require(Scope.SESSIONS_WRITE)
    origin = await _origin(reader, session_id, body.seq)
    if body.run and body.prompt is None and ends_with_answer(origin.path):
        raise PromptNeeded()
    copies = await _copies(reader, origin.path)
    work = await open_work()
    return await _insert(work, reader.front, session_id, origin, copies, body)


async def _origin(reader: Reader, session_id: UUID, seq: int) -> _Origin:
    async with reader.transaction() as tx:
        row = await sessions.find(tx, reader.tenant_id, session_id)
        if row is None:
            raise SessionNotFound()
        check_step(seq, row["steps"])
        steps = await journal.read_path(tx, session_id, seq)
    loaded = [await reader.front.payloads.load(reader.tenant_id, step) for step in steps]
    at = boundary_before(loaded, seq)
    return _Origin(dict(row), at, [step for step in loaded if step.seq <= at])


async def _copies(reader: Reader, path: Sequence[Step]) -> list[Step]:
    """The steps as the fork has them, numbered from one, with objects of their own."""
    kept = [step for step in path if step.kind in _COPIED]
    renumbered = {step.seq: number for number, step in enumerate(kept, 1)}
    copies = [
        replace(
            await _with_own_output(reader, step),
            input=_repointed(step, renumbered),
            key=_renamed(step, renumbered),
            input_object=None,
            output_object=None,
            call_id=None,
            input_tokens=0,
            output_tokens=0,
            cost_micros=None if step.cost_micros is None else 0,
        )
        for step in kept
    ]
    rows = [await reader.front.payloads.offload(reader.tenant_id, step) for step in copies]
    return numbered(rows, 0)


async def _with_own_output(reader: Reader, step: Step) -> Step:
    """A tool's step whose whole output is an object of its own, which its text names, too."""
    if step.kind == "checkpoint":
        return replace(step, output={"checkpoint_id": str(uuid7())})
    whole = whole_of(step)
    if whole is None:
        return step
    store = reader.store.for_tenant(reader.tenant_id)
    data = b"".join([chunk async for chunk in await store.get(str(whole))])
    own = await reader.front.payloads.keep(reader.tenant_id, data)
    text = msgspec.json.encode(step.output).decode()
    return replace(step, output=msgspec.json.decode(text.replace(str(whole), str(own))))


def _repointed(step: Step, renumbered: dict[int, int]) -> Any:
    """The input; that of a compaction names the first step that it left as it is."""
    if step.kind != "compaction":
        return step.input
    kept = [new for old, new in renumbered.items() if old >= step.input["kept_from"]]
    return {**step.input, "kept_from": min(kept)}


def _renamed(step: Step, renumbered: dict[int, int]) -> str | None:
    """The key that the step has in its new place: that of a tool call begins with its answer."""
    if step.kind == "model":
        return f"turn.{renumbered[step.seq]}"
    if step.kind == "compaction":
        return f"compaction.{renumbered[step.seq]}"
    if step.kind == "tool" and step.key is not None:
        answer, _, number = step.key.partition(".")
        return f"{renumbered[int(answer)]}.{number}"
    return None


async def _insert(
    work: Work,
    front: PulseFront,
    session_id: UUID,
    origin: _Origin,
    copies: Sequence[Step],
    body: SessionFork,
) -> SessionDetails:
    work.require(Scope.SESSIONS_WRITE)
    fork_id, now, principal = uuid7(), work.now(), work.principal
    replaces = body.prompt is not None and only_first_message(origin.path)
    changed = await config_with(
        work,
        front,
        origin.session["config"],
        model=body.model,
        instructions=body.instructions,
        prompt=body.prompt if replaces else None,
    )
    config: dict[str, Any] = changed or origin.session["config"]
    state = State.QUEUED if body.run else State.CREATED
    steps = _steps(copies, body.prompt, work, replaces=replaces, run=body.run)
    title = title_of(body.prompt) if body.prompt and replaces else origin.session["title"]
    await sessions.insert(
        work.tx,
        work.tenant_id,
        fork_id,
        state=state,
        title=title,
        config=config,
        priority=origin.session["priority"],
        team_id=origin.session["team_id"],
        principal=(principal.kind, principal.id, principal.name),
        now=now,
        snapshot_id=snapshot_at(origin.path, origin.seq),
        forked=(session_id, origin.seq),
        steps=steps,
        events=_events(fork_id, session_id, origin.seq, config, run=body.run),
    )
    await payloads.claim(work.tx, work.tenant_id, steps)
    await _insert_checkpoints(work, fork_id, numbered(steps, 0))
    if config.get("budget_micros") is not None:
        await budgets.cap_session(work, fork_id, config["budget_micros"])
    await work.record(
        "session.forked",
        target=("session", fork_id),
        after={"state": state, "forked_from": str(session_id), "forked_seq": origin.seq},
    )
    if body.run:
        work.tx.after_commit(front.hints.queued)
    return await details(work, fork_id)


def _steps(
    copies: Sequence[Step], prompt: str | None, work: Work, *, replaces: bool, run: bool
) -> list[Step]:
    now, steps = work.now(), list(copies)
    if prompt is not None and replaces:
        at = next(number for number, step in enumerate(steps) if step.kind == "message")
        steps[at] = said(prompt, now)
    elif prompt is not None:
        steps.append(said(prompt, now))
    return [*steps, state_step(State.CREATED, State.QUEUED, now)] if run else steps


def _events(
    fork_id: UUID, session_id: UUID, seq: int, config: dict[str, Any], *, run: bool
) -> list[Event]:
    shown = {name: value for name, value in config.items() if name != "files"}
    shown["prompt"] = shown["prompt"][:_SHOWN]
    events: list[Event] = [
        SessionForked(session_id=fork_id, forked_from=session_id, forked_seq=seq),
        SessionCreated(session_id=fork_id, config=shown),
    ]
    return [*events, SessionQueued(session_id=fork_id)] if run else events


async def _insert_checkpoints(work: Work, fork_id: UUID, steps: Sequence[Step]) -> None:
    made = [
        (UUID(step.output["checkpoint_id"]), step) for step in steps if step.kind == "checkpoint"
    ]
    if made:
        await repository.insert_checkpoints(work.tx, work.tenant_id, fork_id, made)
