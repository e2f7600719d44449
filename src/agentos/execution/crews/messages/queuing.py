"""How a message gets into its team's queue: one statement, with its events and its audit row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from agentos.contracts.events import MessageQueued, MessageStarted
from agentos.execution.crews.hints import Handed
from agentos.execution.crews.messages.repository import QUEUE
from agentos.execution.crews.messages.schemas import MessageRead, MessageSource
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Principal

# Of a text in an event; the message has all of it.
_SHOWN = 4_000


@dataclass(frozen=True, slots=True)
class Letter:
    """A message before it is in a queue, and whom the audit log names for it."""

    team_id: UUID
    text: str
    principal: Principal
    at: datetime
    request_id: str | None
    author: str | None = None
    attachments: Sequence[dict[str, Any]] = ()
    source: MessageSource = "chat"
    run_id: UUID | None = None

    def statement(self, *, only_kept: bool) -> tuple[str, Sequence[object]]:
        """What puts it into the queue, with its arguments; `Queued` reads what comes of it.

        `only_kept`: nothing happens and nothing comes of it unless a keeper has an agent for the
        team. The statement can be a transaction of its own then.
        """
        message_id, principal = uuid7(), self.principal
        author = self.author or principal.name
        queued = MessageQueued(
            message_id=message_id,
            team_id=self.team_id,
            position=0,  # filled in by the statement
            source=self.source,
            author=author,
            text=self.text[:_SHOWN],
        )
        started = MessageStarted(message_id=message_id, team_id=self.team_id, attempt=1)
        return QUEUE, (
            *(principal.tenant_id, self.team_id, only_kept),
            *(message_id, self.source, self.run_id, self.text, list(self.attachments), author),
            *(principal.kind, principal.id, principal.name, uuid7(), self.request_id),
            *(uuid7(), msgspec.to_builtins(queued), uuid7(), msgspec.to_builtins(started)),
            self.at,
        )


@dataclass(frozen=True, slots=True)
class Queued:
    """A message in its queue. `handed`: for its keeper, if it is running at once."""

    message: MessageRead
    handed: Handed | None

    @classmethod
    def of(cls, row: asyncpg.Record) -> Queued:
        *columns, fence, generation, version, answer_seconds = row.values()
        message = MessageRead(**dict(zip(row.keys(), columns, strict=False)))
        if message.state != "running":
            return cls(message, None)
        return cls(
            message,
            Handed(
                message_id=message.id,
                position=message.position,
                text=message.text,
                author=message.author,
                source=message.source,
                run_id=message.run_id,
                attachments=message.attachments,
                fence=fence,
                generation=generation,
                version=version,
                answer_seconds=answer_seconds,
            ),
        )
