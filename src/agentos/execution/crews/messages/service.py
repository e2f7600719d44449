"""Messages to teams: send, read, cancel. Each team answers its messages one at a time, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from agentos.contracts.events import Event, MessageQueued, MessageStarted
from agentos.execution.crews import repository as teams
from agentos.execution.crews.errors import TeamNotFound
from agentos.execution.crews.front import CrewHints
from agentos.execution.crews.hints import Handed
from agentos.execution.crews.messages import repository
from agentos.execution.crews.messages.errors import (
    AttachmentMissing,
    AttachmentTooLarge,
    BadAttachment,
    MessageEnded,
    MessageNotFound,
)
from agentos.execution.crews.messages.finishing import Outcome, finish
from agentos.execution.crews.messages.schemas import (
    MOST_ATTACHMENT_BYTES,
    Attachment,
    MessageCreate,
    MessageRead,
    MessageSource,
    MessageState,
)
from agentos.execution.crews.native import start_next
from agentos.execution.crews.native_config import ATTACHMENTS_FOLDER
from agentos.execution.crews.native_crew import end_conversation
from agentos.execution.crews.repository import TeamRow
from agentos.execution.pulse.front import Hints, PulseFront
from agentos.integrations.workspaces.errors import BadPath
from agentos.integrations.workspaces.workspace import checked_path
from agentos.kernel.bus import Bus
from agentos.kernel.ids import uuid7
from agentos.kernel.texts import storable
from agentos.tenancy.pages import BadCursor, PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

# Of a text in an event; the message has all of it.
_SHOWN = 4_000
_OPEN = frozenset({"queued", "running"})


async def send_message(
    work: Work, front: PulseFront, team_id: UUID, body: MessageCreate
) -> MessageRead:
    """Puts a message at the end of the team's queue. A stopped team keeps it until it is deployed."""
    work.require(Scope.MESSAGES_WRITE)
    message = await enqueue(
        work, front.hints.bus, team_id, text=body.text, attachments=body.attachments
    )
    if message.state == "running" and message.session_id is None:
        # An agent CLI's first model call is near. Nobody has had the time to set a budget for it.
        front.no_budget(work.tenant_id, message.id)
    return message


async def enqueue(
    work: Work,
    bus: Bus,
    team_id: UUID,
    *,
    text: str,
    attachments: Sequence[Attachment] = (),
    source: MessageSource = "chat",
    run_id: UUID | None = None,
    author: str | None = None,
) -> MessageRead:
    """Queues a message in the name of the work's principal, whoever may: the caller has checked.

    Raises TeamNotFound, AttachmentMissing, AttachmentTooLarge, BadAttachment.
    """
    team = await teams.lock_after_session(work.tx, work.tenant_id, team_id)
    if team is None:
        raise TeamNotFound()
    files = await _checked(work, attachments)
    message_id, now, principal = uuid7(), work.now(), work.principal
    by = author or principal.name
    row = await repository.insert(
        work.tx,
        work.tenant_id,
        team_id,
        message_id,
        text=storable(text),
        attachments=files,
        source=source,
        run_id=run_id,
        principal=(principal.kind, principal.id, by),
        kept=team.is_kept,
        now=now,
    )
    message = MessageRead(**row)
    events: list[Event] = [
        MessageQueued(
            message_id=message_id,
            team_id=team_id,
            position=message.position,
            source=source,
            author=by,
            text=message.text[:_SHOWN],
        )
    ]
    if message.state == "running":
        events.append(MessageStarted(message_id=message_id, team_id=team_id, attempt=1))
        # Before the relay is woken: the agent is what people wait for.
        work.tx.after_commit(lambda: CrewHints(bus).handed(team_id, _handed(team, message)))
    await work.record(
        "message.sent",
        *events,
        target=("message", message_id),
        after={"team_id": str(team_id), "position": message.position},
    )
    if message.state == "running":
        return message
    started = await start_next(work.tx, team, now)
    await work.outbox.announce(work.tx, work.tenant_id, now, *started)
    _hint(work, bus, team)
    return await _read(work, team_id, message_id) if started else message


async def list_messages(
    work: Work,
    team_id: UUID,
    page: PageRequest,
    *,
    state: MessageState | None = None,
    words: str | None = None,
    before: int | None = None,
) -> RowPage[MessageRead]:
    """The messages of a team, newest first."""
    work.require(Scope.MESSAGES_READ)
    if not await teams.exists(work.tx, work.tenant_id, team_id):
        raise TeamNotFound()
    rows = await repository.page(
        work.tx,
        work.tenant_id,
        team_id,
        state=state,
        words=words,
        before=min(_position(page.after), repository.FIRST if before is None else before),
        limit=page.limit + 1,
    )
    return page.of(MessageRead, rows, key="position")


async def read_message(work: Work, team_id: UUID, message_id: UUID) -> MessageRead:
    work.require(Scope.MESSAGES_READ)
    return await _read(work, team_id, message_id)


async def cancel_message(
    work: Work, front: PulseFront, team_id: UUID, message_id: UUID
) -> MessageRead:
    """Takes a message out of the queue, or stops the answer to it. What an agent of a CLI is at
    ends a moment later.

    Raises MessageEnded if there is nothing left to cancel.
    """
    work.require(Scope.MESSAGES_WRITE)
    team = await teams.lock_after_session(work.tx, work.tenant_id, team_id)
    if team is None:
        raise TeamNotFound()
    message = await _read(work, team_id, message_id)
    if message.state not in _OPEN:
        raise MessageEnded(f"The message has ended: it is {message.state}.", state=message.state)
    if message.state == "queued":
        await _cancel_queued(work, team_id, message_id)
    elif team.is_native:
        await end_conversation(work, front, team, f"{work.principal.name} cancelled it.")
    else:
        await repository.request_cancel(work.tx, work.tenant_id, message_id)
    await work.record(
        "message.cancelled", target=("message", message_id), before={"state": message.state}
    )
    _hint(work, front.hints.bus, team)
    return await _read(work, team_id, message_id)


async def _cancel_queued(work: Work, team_id: UUID, message_id: UUID) -> None:
    reason = f"{work.principal.name} cancelled it."
    outcome = Outcome("cancelled", error=reason, error_code="cancelled")
    now = work.now()
    events = await finish(
        work.tx, work.tenant_id, team_id, message_id, outcome, now, before="queued"
    )
    await work.outbox.announce(work.tx, work.tenant_id, now, *(events or ()))


def _hint(work: Work, bus: Bus, team: TeamRow) -> None:
    """Whoever has to act on it hears of it after the commit."""
    if team.is_native:
        work.tx.after_commit(Hints(bus).queued)
    else:
        work.tx.after_commit(lambda: CrewHints(bus).changed(team.id))


def _handed(team: TeamRow, message: MessageRead) -> Handed:
    return Handed(
        message_id=message.id,
        position=message.position,
        text=message.text,
        author=message.author,
        source=message.source,
        run_id=message.run_id,
        attachments=message.attachments,
        fence=team.fence,
        generation=team.generation,
        version=team.version,
        answer_seconds=team.answer_seconds,
    )


async def _checked(work: Work, attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    """The attachments as the message keeps them."""
    names = [_checked_name(each.name) for each in attachments]
    if len(set(names)) < len(names):
        raise BadAttachment("Two attachments have the same name.")
    ids = [each.object_id for each in attachments]
    sizes = await repository.object_sizes(work.tx, work.tenant_id, ids) if ids else {}
    for each in attachments:
        size = sizes.get(each.object_id)
        if size is None:
            raise AttachmentMissing(f"{each.name} is no object of this tenant.")
        if size > MOST_ATTACHMENT_BYTES:
            raise AttachmentTooLarge(
                f"{each.name} is larger than {MOST_ATTACHMENT_BYTES} bytes.",
                limit=MOST_ATTACHMENT_BYTES,
            )
    return [
        {"object_id": str(each.object_id), "name": each.name, "size": sizes[each.object_id]}
        for each in attachments
    ]


def _checked_name(name: str) -> bytes:
    try:
        path = checked_path(f"{ATTACHMENTS_FOLDER}/{name}")
    except BadPath:
        raise BadAttachment(f"{name[:100]!r} cannot be the name of a file.") from None
    if b"/" not in path:
        raise BadAttachment(f"{name[:100]!r} cannot be the name of a file.")
    return path


async def _read(work: Work, team_id: UUID, message_id: UUID) -> MessageRead:
    row = await repository.find(work.tx, work.tenant_id, team_id, message_id)
    if row is None:
        raise MessageNotFound()
    return MessageRead(**row)


def _position(cursor: str | None) -> int:
    if cursor is None:
        return repository.FIRST
    # 18 digits fit the database's bigint. No other way to write a number was handed out.
    if not re.fullmatch("[1-9][0-9]{0,17}", cursor):
        raise BadCursor()
    return int(cursor)
