"""Makes the session of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from agentos.contracts.events import ChainNodeStarted, Event, SessionCreated, SessionQueued
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.chains.board import WHOLE, Row
from agentos.execution.pulse.chains.errors import BadNode
from agentos.execution.pulse.chains.plans import PlannedNode
from agentos.execution.pulse.chains.repository import Chain
from agentos.execution.pulse.journal import Step, state_step
from agentos.execution.pulse.schemas import SessionConfig
from agentos.execution.pulse.states import State
from agentos.kernel.ids import uuid7
from agentos.tenancy.budgets import service as budgets
from agentos.tenancy.work import Work

_FIELDS = set(SessionConfig.model_fields)
_TITLE = 80
# Of a prompt in an event; the session has all of it.
_SHOWN = 2_000


def config_of(node: PlannedNode, row: Row, context: Mapping[str, Any]) -> SessionConfig:
    """The configuration of a node's next session. Raises BadExpression, BadNode."""
    given = node.config.model_dump(include=_FIELDS)
    given["prompt"] = node.prompt.render(context)
    if row.tries and row.error:
        given["prompt"] += f"\n\nAn earlier try at this failed: {row.error}\nDo not fail that way."
    if node.instructions is not None:
        given["instructions"] = node.instructions.render(context)
    if "\0" in given["prompt"] or "\0" in (given["instructions"] or ""):
        raise BadNode(f"nodes.{node.id}: there is a NUL character in its prompt.")
    try:
        return SessionConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadNode(f"nodes.{node.id}.{where}: {first['msg']}") from error


async def start_session(
    work: Work,
    chain: Chain,
    row: Row,
    config: SessionConfig,
    *,
    priority: int,
    team_id: UUID | None,
    snapshot_id: UUID | None,
) -> UUID:
    """Puts a session for this row into the queue, in the name of whoever made the chain."""
    session_id, now = uuid7(), work.now()
    label = row.node if row.item == WHOLE else f"{row.node}[{row.item}]"
    principal = work.principal
    await sessions.insert(
        work.tx,
        work.tenant_id,
        session_id,
        state=State.QUEUED,
        title=f"{chain.name}: {label}"[:_TITLE],
        config=config.model_dump(mode="json"),
        priority=priority,
        team_id=team_id,
        principal=(principal.kind, principal.id, principal.name),
        now=now,
        snapshot_id=snapshot_id,
        chain=(chain.id, label),
        steps=[
            # With the files it begins with: going back to its start brings them back.
            Step(
                kind="message",
                name="user",
                at=now,
                output={"text": config.prompt},
                snapshot_id=snapshot_id,
            ),
            state_step(State.CREATED, State.QUEUED, now),
        ],
        events=_events(chain, row, session_id, config),
    )
    if config.budget_micros is not None:
        await budgets.cap_session(work, session_id, config.budget_micros)
    await work.record(
        "session.created",
        target=("session", session_id),
        after={"state": State.QUEUED, "chain_id": str(chain.id), "node": label},
    )
    return session_id


def _events(chain: Chain, row: Row, session_id: UUID, config: SessionConfig) -> list[Event]:
    shown = config.model_dump(mode="json", exclude={"files"})
    shown["prompt"] = config.prompt[:_SHOWN]
    return [
        SessionCreated(session_id=session_id, config=shown),
        SessionQueued(session_id=session_id),
        ChainNodeStarted(
            chain_id=chain.id,
            node=row.node,
            item=row.item,
            session_id=session_id,
            tries=row.tries + 1,
        ),
    ]
