"""Native teams: a message is a turn of the session that is the team's conversation.

Nothing here waits or polls. A message is taken up in the transaction that queues it, or in the one
in which the conversation ends the message before, or in the one that deploys the team; and its
answer is stored in the transaction in which the session ends. Rows are locked in one order: the
session, then its team, then messages.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import Event, MessageStarted, SessionCreated, SessionQueued
from agentos.execution.crews import native_activity
from agentos.execution.crews import repository as teams
from agentos.execution.crews.messages import repository as messages
from agentos.execution.crews.messages.finishing import Outcome, finish
from agentos.execution.crews.native_config import config_of, prompt_of
from agentos.execution.crews.repository import TeamRow
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.history import repository as history
from agentos.execution.pulse.history.again import queued_again, said
from agentos.execution.pulse.journal import Session, cut_off, state_step
from agentos.execution.pulse.schemas import SessionConfig
from agentos.execution.pulse.states import ENDED, State
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.tenancy.audit import log as audit

# Of a prompt in an event; the session has all of it.
_SHOWN = 2_000
_WENT_BACK = "The conversation was taken back to where it was before."


async def start_next(tx: Transaction, team: TeamRow, now: datetime) -> list[Event]:
    """Has the team take up the message that waits longest, unless it is at one or is stopped.

    The caller has locked the team's session, if it has one, and then the team. Returns what to
    announce; the workers are to be woken after the commit.
    """
    if not (team.deployed and team.is_native):
        return []
    if await messages.running(tx, team.tenant_id, team.id) is not None:
        return []
    message = await messages.next_queued(tx, team.tenant_id, team.id)
    if message is None:
        return []
    definition = await teams.definition(tx, team.tenant_id, team.id)
    assert definition is not None, "the team is locked"
    prompt = prompt_of(message["text"], [each["name"] for each in message["attachments"]])
    config = config_of(definition, prompt)
    session = await _session(tx, team)
    if session is None:
        session_id = await _begin(tx, team, message, config, now)
    elif session.state in ENDED:
        session_id = session.id
        await _go_on(tx, session, prompt, config, now)
    else:
        return []  # somebody goes on with the session by hand; its end takes the message up
    attempt = await messages.start(tx, team.tenant_id, message["id"], session_id, now)
    return [MessageStarted(message_id=message["id"], team_id=team.id, attempt=attempt)]


async def conversation_ended(
    tx: Transaction, tenant_id: UUID, session_id: UUID, now: datetime
) -> list[Event]:
    """Stores what came of the message that a team's conversation was at, and takes up the next.

    To be called in the transaction in which a session ends, which has locked it. Does nothing to
    one that is no team's conversation.
    """
    team_id = await tx.value(
        "select id from teams where tenant_id = $1 and session_id = $2", tenant_id, session_id
    )
    if team_id is None or (team := await teams.lock(tx, tenant_id, team_id)) is None:
        return []
    session = await tx.row(
        "select state, result, error, error_code from sessions where tenant_id = $1 and id = $2",
        tenant_id,
        session_id,
    )
    if session is None or State(session["state"]) not in ENDED:
        return []  # it was taken back to a checkpoint, and goes on from there
    events: list[Event] = []
    message = await messages.running(tx, tenant_id, team.id)
    if message is not None:
        outcome = await _outcome(tx, tenant_id, session_id, session)
        events += await finish(tx, tenant_id, team.id, message["id"], outcome, now) or []
    return events + await start_next(tx, team, now)


async def _outcome(
    tx: Transaction, tenant_id: UUID, session_id: UUID, session: asyncpg.Record
) -> Outcome:
    spent = await native_activity.usage(tx, tenant_id, session_id)
    deeds = await native_activity.activity(tx, tenant_id, session_id)
    return _ended(session, deeds).costing(*spent)


def _ended(session: asyncpg.Record, deeds: list[dict[str, Any]]) -> Outcome:
    state = State(session["state"])
    if state == State.COMPLETE:
        return Outcome("answered", answer=session["result"]["text"], activity=deeds)
    if state == State.ROLLED_BACK:
        return Outcome("cancelled", error=_WENT_BACK, error_code="rolled_back", activity=deeds)
    return Outcome(
        "cancelled" if session["error_code"] == "cancelled" else "failed",
        error=session["error"],
        error_code=session["error_code"],
        activity=deeds,
    )


async def _session(tx: Transaction, team: TeamRow) -> Session | None:
    if team.session_id is None:
        return None
    return await sessions.lock(tx, team.tenant_id, team.session_id)


async def _begin(
    tx: Transaction, team: TeamRow, message: asyncpg.Record, config: SessionConfig, now: datetime
) -> UUID:
    """Makes the conversation, with its first message."""
    session_id = uuid7()
    principal = (message["principal_kind"], message["principal_id"], message["author"])
    await sessions.insert(
        tx,
        team.tenant_id,
        session_id,
        state=State.QUEUED,
        title=team.name,
        config=config.model_dump(mode="json"),
        priority=0,
        team_id=team.id,
        principal=principal,
        now=now,
        steps=[said(config.prompt, now), state_step(State.CREATED, State.QUEUED, now)],
        events=[
            SessionCreated(session_id=session_id, config=_shown(config)),
            SessionQueued(session_id=session_id),
        ],
    )
    await audit.write(
        tx,
        tenant_id=team.tenant_id,
        at=now,
        actor=principal,
        action="session.created",
        target=("session", str(session_id)),
        before=None,
        after={"state": State.QUEUED, "team_id": str(team.id)},
        request_id=None,
    )
    await tx.execute(
        "update teams set session_id = $3 where tenant_id = $1 and id = $2",
        team.tenant_id,
        team.id,
        session_id,
    )
    return session_id


async def _go_on(
    tx: Transaction, session: Session, prompt: str, config: SessionConfig, now: datetime
) -> None:
    """Goes on with the conversation, by what the team is now."""
    # Calls that it did not come to need no step: the model is told that they were not made.
    told = cut_off(session.id, session.doing, now)
    await sessions.change(
        tx,
        session,
        now,
        state=State.QUEUED,
        steps=[*told.steps, said(prompt, now), queued_again(session, session.state, now)],
        events=[*told.events, SessionQueued(session_id=session.id)],
        queue=True,
        pause_requested=False,
        snapshot_id=session.snapshot_id,
        config=config.model_dump(mode="json"),
    )
    await history.begin_anew(tx, session)


def _shown(config: SessionConfig) -> dict[str, Any]:
    shown = config.model_dump(mode="json", exclude={"files", "agents", "instructions"})
    return {**shown, "prompt": config.prompt[:_SHOWN]}
