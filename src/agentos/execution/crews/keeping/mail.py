"""The messages of a kept team, as its keeper reads and changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agentos.contracts.events import MessageStarted
from agentos.execution.crews.hints import Handed
from agentos.execution.crews.keeping.claims import Claim, Lost, hold
from agentos.kernel.database import Transaction
from agentos.kernel.outbox import Outbox

# A message that takes its agent down so often is not given to it again. The time after that the
# sidecar is only asked for what it knows: it counts by itself, and may have the answer.
MOST_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for the agent."""

    id: UUID
    attempt: int
    text: str
    author: str
    source: Any
    run_id: UUID | None
    attachments: list[dict[str, Any]]
    cancel_requested: bool
    position: int

    @classmethod
    def handed(cls, handed: Handed) -> Mail:
        """One that is running since it was queued."""
        return cls(
            id=handed.message_id,
            attempt=1,
            text=handed.text,
            author=handed.author,
            source=handed.source,
            run_id=handed.run_id,
            attachments=handed.attachments,
            cancel_requested=False,
            position=handed.position,
        )


@dataclass
class Progress:
    """How far a keeper is with its team's messages."""

    # Of the last one that an agent had from it; None if it has not looked for any yet. What is
    # running after that was handed over to it, and what is handed over before that comes too late.
    position: int | None = None

    def looked(self) -> None:
        self.position = self.position or 0

    def reached(self, position: int) -> None:
        self.position = max(self.position or 0, position)

    def awaits(self, position: int) -> bool:
        """Whether one that is handed over is new, and known to be given to nobody."""
        return self.position is not None and position > self.position


_COLUMNS = "id, attempt, text, author, source, run_id, attachments, cancel_requested, position"


async def next_mail(
    tx: Transaction, outbox: Outbox, claim: Claim, now: datetime, given: int | None = None
) -> Mail | None:
    """The message to give to the agent now, which is running from here on; None: there is none.

    One that was running already was given to an agent that is gone, unless its position is after
    the last that was `given`. Raises Lost.
    """
    await hold(tx, claim)
    row = await tx.row(
        # Materialized: a joined subquery may be asked for its one row again and again, and find
        # another one each time.
        f"""with n as materialized (
                select id, (state <> 'running' or position <= coalesce($4, position))::integer
                    as more
                from team_messages
                where tenant_id = $1 and team_id = $2 and state in ('queued', 'running')
                order by position limit 1 for update)
            update team_messages m set state = 'running', attempt = attempt + n.more,
                started_at = coalesce(started_at, $3)
            from n where m.tenant_id = $1 and m.id = n.id
            returning n.more, m.{_COLUMNS.replace(", ", ", m.")}""",  # noqa: S608 - names of ours
        claim.tenant_id,
        claim.team_id,
        now,
        given,
    )
    if row is None:
        return None
    more, *columns = row.values()
    mail = Mail(*columns)
    if more:
        event = MessageStarted(message_id=mail.id, team_id=claim.team_id, attempt=mail.attempt)
        await outbox.announce(tx, claim.tenant_id, now, event)
    return mail


async def put_back(tx: Transaction, claim: Claim) -> None:
    """A message that no agent works on waits again. Raises Lost."""
    await hold(tx, claim)
    await tx.execute(
        """update team_messages set state = 'queued'
           where tenant_id = $1 and team_id = $2 and state = 'running'""",
        claim.tenant_id,
        claim.team_id,
    )


async def take_up(tx: Transaction, claim: Claim, message_id: UUID) -> None:
    """A message that was put back is running again: its agent was faster with the answer."""
    await tx.execute(
        """update team_messages set state = 'running'
           where tenant_id = $1 and team_id = $2 and id = $3 and state = 'queued' and attempt > 0""",
        claim.tenant_id,
        claim.team_id,
        message_id,
    )


async def asked_again(
    tx: Transaction, outbox: Outbox, claim: Claim, message_id: UUID, attempt: int, now: datetime
) -> None:
    """Notes that a sidecar asks its agent once more, after a crash. Raises Lost."""
    await hold(tx, claim)
    changed = await tx.execute(
        """update team_messages set attempt = $4 where tenant_id = $1 and team_id = $2 and id = $3
             and state = 'running' and attempt < $4""",
        claim.tenant_id,
        claim.team_id,
        message_id,
        attempt,
    )
    if changed:
        event = MessageStarted(message_id=message_id, team_id=claim.team_id, attempt=attempt)
        await outbox.announce(tx, claim.tenant_id, now, event)


async def is_cancelled(tx: Transaction, claim: Claim, message_id: UUID) -> bool:
    """Whether somebody wants a running message to be stopped."""
    found: bool | None = await tx.value(
        """select cancel_requested from team_messages
           where tenant_id = $1 and id = $2 and state = 'running'""",
        claim.tenant_id,
        message_id,
    )
    return bool(found)


@dataclass(frozen=True, slots=True)
class Spent:
    """What the model calls for a message came to, as far as that is booked."""

    input_tokens: int
    output_tokens: int
    cost_micros: int


@dataclass(frozen=True, slots=True)
class Ending:
    """What there is to know of a message that is about to end."""

    spent: Spent
    # It was put back: its agent was faster with the answer.
    put_back: bool
    # People are asked about something in it.
    asked: bool
    # Others wait. One that is queued while this waits for the lock is not seen; its hint is heard.
    more: bool


async def hold_ending(tx: Transaction, claim: Claim, message_id: UUID) -> Ending:
    """Locks the team while it is ours. Raises Lost."""
    row = await tx.row(
        """select
               exists (select from team_messages m where m.tenant_id = $1 and m.team_id = $2
                   and m.id = $5 and m.state = 'queued') as put_back,
               exists (select from approvals a where a.tenant_id = $1 and a.message_id = $5
                   and a.state = 'waiting') as asked,
               exists (select from team_messages m where m.tenant_id = $1 and m.team_id = $2
                   and m.id <> $5 and m.state in ('queued', 'running')) as more,
               s.input_tokens, s.output_tokens, s.cost_micros
           from teams t, lateral (
               select coalesce(sum(input_tokens), 0)::bigint as input_tokens,
                   coalesce(sum(output_tokens), 0)::bigint as output_tokens,
                   coalesce(sum(cost_micros), 0)::bigint as cost_micros
               from model_calls c where c.tenant_id = $1 and c.session_id = $5) s
           where t.tenant_id = $1 and t.id = $2 and t.owner = $3 and t.fence = $4
           for update of t""",
        claim.tenant_id,
        claim.team_id,
        claim.owner,
        claim.fence,
        message_id,
    )
    if row is None:
        raise Lost
    put_back, asked, more, *spent = row.values()
    return Ending(Spent(*spent), put_back, asked, more)


async def book(tx: Transaction, claim: Claim, message_ids: Sequence[UUID]) -> None:
    """Notes what was booked after messages had ended. The token that an agent calls models with
    names its message."""
    await tx.execute(
        """update team_messages m set input_tokens = c.input_tokens,
               output_tokens = c.output_tokens, cost_micros = c.cost_micros
           from (select session_id, sum(input_tokens) as input_tokens,
                     sum(output_tokens) as output_tokens,
                     coalesce(sum(cost_micros), 0) as cost_micros
                 from model_calls where tenant_id = $1 and session_id = any($2)
                 group by session_id) c
           where m.tenant_id = $1 and m.id = c.session_id
             and (m.input_tokens, m.output_tokens, m.cost_micros)
                 is distinct from (c.input_tokens, c.output_tokens, c.cost_micros)""",
        claim.tenant_id,
        list(message_ids),
    )
