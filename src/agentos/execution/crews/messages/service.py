"""Messages to teams: send, read, cancel. Each team answers its messages one at a time, in order."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from agentos.execution.crews import repository as teams
from agentos.execution.crews.errors import TeamNotFound
from agentos.execution.crews.front import CrewHints
from agentos.execution.crews.messages import repository
from agentos.execution.crews.messages.errors import (
    AttachmentMissing,
    AttachmentTooLarge,
    BadAttachment,
    MessageEnded,
    MessageNotFound,
)
from agentos.execution.crews.messages.finishing import Outcome, finish
from agentos.execution.crews.messages.queuing import Letter, Queued
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
from agentos.kernel.database import run_after_commit
from agentos.kernel.ids import TenantId
from agentos.kernel.texts import storable
from agentos.tenancy.edge import UnitOfWork
from agentos.tenancy.pages import BadCursor, PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Alone, Work

_OPEN = frozenset({"queued", "running"})


async def send_message(
    unit: UnitOfWork, front: PulseFront, team_id: UUID, body: MessageCreate
) -> MessageRead:
    """Puts a message at the end of the team's queue. A stopped team keeps it until it is deployed."""
    alone = unit.alone()
    if alone is not None and not body.attachments:
        message = await _send_at_once(alone, front, team_id, body.text)
        if message is not None:
            return message
    work = await unit.work()
    work.require(Scope.MESSAGES_WRITE)
    message = await enqueue(
        work, front.hints.bus, team_id, text=body.text, attachments=body.attachments
    )
    _expect_calls(front, work.tenant_id, message)
    return message


async def _send_at_once(
    alone: Alone, front: PulseFront, team_id: UUID, text: str
) -> MessageRead | None:
    """Sends a message to a team whose keeper has an agent for it; None if that is not so."""
    alone.principal.require(Scope.MESSAGES_WRITE)
    letter = Letter(team_id, storable(text), alone.principal, alone.clock.now(), alone.request_id)
    query, args = letter.statement(only_kept=True)
    row = await alone.row(query, *args)
    if row is None:
        return None
    queued = Queued.of(row)
    _expect_calls(front, alone.principal.tenant_id, queued.message)
    await run_after_commit((_telling(front.hints.bus, team_id, queued), alone.outbox.wake))
    return queued.message


def _expect_calls(front: PulseFront, tenant_id: TenantId, message: MessageRead) -> None:
    if message.state == "running" and message.session_id is None:
        # An agent CLI's first model call is near. Nobody has had the time to set a budget for it.
        front.no_budget(tenant_id, message.id)


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
    letter = Letter(
        team_id,
        storable(text),
        work.principal,
        work.now(),
        work.request_id,
        author=author,
        attachments=await _checked(work, attachments),
        source=source,
        run_id=run_id,
    )
    query, args = letter.statement(only_kept=False)
    row = await work.tx.row(query, *args)
    assert row is not None, "the team is locked"
    queued = Queued.of(row)
    # Before the relay is woken: the agent is what people wait for.
    work.tx.after_commit(Hints(bus).queued if team.is_native else _telling(bus, team_id, queued))
    work.tx.after_commit(work.outbox.wake)
    if not team.is_native:
        return queued.message
    started = await start_next(work.tx, team, letter.at)
    await work.outbox.announce(work.tx, work.tenant_id, letter.at, *started)
    return await _read(work, team_id, queued.message.id) if started else queued.message


def _telling(bus: Bus, team_id: UUID, queued: Queued) -> Callable[[], Awaitable[None]]:
    """Tells the keeper of a team, once it is committed."""
    hints, handed = CrewHints(bus), queued.handed
    if handed is None:
        return lambda: hints.changed(team_id)
    return lambda: hints.handed(team_id, handed)


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
