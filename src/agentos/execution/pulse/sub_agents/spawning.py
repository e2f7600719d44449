"""Starting sub-agents: sessions of a session's own, made in the transaction that pauses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agentos.contracts.events import Event, SessionCreated, SessionQueued
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.names import ENGINE_TOOLS
from agentos.execution.pulse.journal import Step, state_step
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.schemas import AgentProfile, SessionConfig, title_of
from agentos.execution.pulse.states import ENDED, State
from agentos.execution.pulse.sub_agents import profiles, repository, shares
from agentos.execution.pulse.sub_agents.errors import SpawnRefused
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Write
from agentos.integrations.models.routing import targets
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.tenancy.audit import log as audit

MOST_DEPTH = 3
MOST_DESCENDANTS = 50
# Of a prompt in an event; the session has all of it.
_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class Task:
    """What one sub-agent shall do."""

    title: str
    config: SessionConfig
    # Of what is left of the budget; None: an equal part.
    share: float | None


async def planned(run: Run, given: Sequence[dict[str, Any]]) -> list[Task]:
    """The tasks as they can be started. Raises SpawnRefused, ModelNotFound."""
    theirs = await _tools_of(run)
    models = await run.parts.router.directory.of(run.session.tenant_id)
    tasks = []
    for task in given:
        if any("\0" in text for text in task.values() if isinstance(text, str)):
            raise SpawnRefused("A task contains a zero byte.")
        profile = profiles.named(run.config, task)
        model = task.get("model") if profile is None else profile.model
        if model is not None:
            targets(models, model)
        unknown = [name for name in task.get("tools", ()) if name not in theirs]
        if unknown:
            raise SpawnRefused(
                f"An agent cannot have tools that you do not have: {', '.join(unknown)[:500]}.",
                hint=f"You have: {', '.join(theirs)}.",
            )
        tasks.append(
            Task(
                title_of(str(task.get("title") or task["prompt"])),
                _config(run, task, profile),
                task.get("budget_share"),
            )
        )
    if sum(task.share or 0 for task in tasks) > 1:
        raise SpawnRefused("The shares of the budget are more than all of it.")
    return tasks


async def _tools_of(run: Run) -> list[str]:
    """What sub-agents can be given by name. They are connected to the same MCP servers anyway."""
    built_in = [s.name for s in (await toolroom_of(run)).toolbox.specs if "__" not in s.name]
    wanted = run.config.tools
    return [*built_in, *(name for name in ENGINE_TOOLS if wanted is None or name in wanted)]


def _config(run: Run, task: dict[str, Any], profile: AgentProfile | None) -> SessionConfig:
    """The session's own configuration, but for what is about its own task."""
    own = run.config
    who = {
        "model": task.get("model", own.model),
        "instructions": task.get("instructions", own.instructions),
        "tools": task.get("tools", own.tools),
    }
    if profile is not None:
        who = profiles.as_config(own, profile)
    return own.model_copy(
        update={
            **who,
            "prompt": task["prompt"],
            "output_schema": None,
            "gates": [],
            "files": {},
            "budget_micros": None,
        }
    )


def spawning(run: Run, call: ToolCall, tasks: Sequence[Task]) -> Write:
    """Makes the sub-agents, in the queue in their order. Raises SpawnRefused."""

    async def write(tx: Transaction) -> list[Event]:
        session = run.session
        origin, depth = await repository.origin(tx, session.tenant_id, session.id)
        await repository.hold_family(tx, session.tenant_id, origin)
        there = await repository.descendants(tx, session.tenant_id, origin)
        _check_room(depth, there, len(tasks))
        ids = [uuid7() for _ in tasks]
        caps, events = await shares.hand_out(tx, run, dict(zip(ids, tasks, strict=True)))
        may_spawn = depth + 1 < MOST_DEPTH
        for child_id, task in zip(ids, tasks, strict=True):
            update = {
                "budget_micros": caps.get(child_id),
                "sub_agents": task.config.sub_agents and may_spawn,
            }
            config = task.config.model_copy(update=update)
            await _insert(tx, run, call, child_id, task.title, config)
        return events

    return write


def _check_room(depth: int, there: int, more: int) -> None:
    if depth >= MOST_DEPTH:
        raise SpawnRefused(f"Agents are nested {MOST_DEPTH} deep at most. Do it yourself.")
    if there + more > MOST_DESCENDANTS:
        raise SpawnRefused(
            f"A session has {MOST_DESCENDANTS} agents at most, theirs included; "
            f"{there} were started. Do it yourself, or start fewer."
        )


async def _insert(
    tx: Transaction, run: Run, call: ToolCall, child_id: UUID, title: str, config: SessionConfig
) -> None:
    session, now = run.session, run.parts.clock.now()
    manners = await repository.manners(tx, session.tenant_id, session.id)
    principal = (session.principal_kind, session.principal_id, manners["created_by"])
    steps = [Step(kind="message", name="user", at=now, output={"text": config.prompt})]
    checkpoint_id = uuid7()
    if session.snapshot_id is not None:
        steps.append(
            Step(
                kind="checkpoint",
                name="start",
                at=now,
                output={"checkpoint_id": str(checkpoint_id)},
                snapshot_id=session.snapshot_id,
            )
        )
    steps.append(state_step(State.CREATED, State.QUEUED, now))
    shown = {**config.model_dump(mode="json"), "prompt": config.prompt[:_SHOWN]}
    await sessions.insert(
        tx,
        session.tenant_id,
        child_id,
        state=State.QUEUED,
        title=title,
        config=config.model_dump(mode="json"),
        priority=manners["priority"],
        team_id=session.team_id,
        principal=principal,
        now=now,
        snapshot_id=session.snapshot_id,
        parent=(session.id, call.key),
        steps=steps,
        events=[
            SessionCreated(session_id=child_id, config=shown),
            SessionQueued(session_id=child_id),
        ],
    )
    if session.snapshot_id is not None:
        await repository.insert_checkpoint(
            tx,
            session.tenant_id,
            checkpoint_id,
            child_id,
            seq=2,
            name="start",
            snapshot_id=session.snapshot_id,
        )
    await audit.write(
        tx,
        tenant_id=session.tenant_id,
        at=now,
        actor=principal,
        action="session.created",
        target=("session", str(child_id)),
        before=None,
        after={"state": State.QUEUED, "parent_id": str(session.id)},
        request_id=None,
    )


def going_on_if_ended(run: Run, call: ToolCall) -> Write:
    """Lets the session go on at once if its sub-agents have ended while it was being paused."""

    async def write(tx: Transaction) -> list[Event]:
        session = run.session
        await repository.requeue_if_ended(
            tx, session.tenant_id, session.id, call.key, sorted(ENDED)
        )
        return []

    return write
