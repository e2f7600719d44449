"""Tool calls of a team's agent that a person decides about: approvals, in the one list of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from agentos.contracts.crew import PermissionAsked
from agentos.contracts.events import ApprovalDecided, ApprovalRequested, Event
from agentos.execution.crews.keeping.claims import Claim
from agentos.execution.pulse.approvals.asking import shortened
from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.kernel.texts import storable

_LIFE = timedelta(hours=1)
_LONGEST_KEY = 200
_LONGEST_SUBJECT = 1_000


class Decision(msgspec.Struct, frozen=True):
    allow: bool
    reason: str
    # Of the tool, for as long as the team runs.
    always: bool = False


def key_of(request_id: str) -> str:
    """What a request is known by here: as much of its id as a row can hold."""
    return storable(request_id[:_LONGEST_KEY])


async def ask(tx: Transaction, claim: Claim, asked: PermissionAsked, now: datetime) -> list[Event]:
    """Makes an approval of a request that is new; returns what to announce."""
    subject = shortened(asked.tool)[:_LONGEST_SUBJECT]
    approval_id: UUID | None = await tx.value(
        """insert into approvals (tenant_id, id, team_id, message_id, kind, key, subject, details,
               on_expiry, created_at, expires_at)
           select $1, $2, $3, $4, 'tool', $5, $6, $7, 'reject', $8, $9
           where exists (select from team_messages
               where tenant_id = $1 and id = $4 and team_id = $3 and state = 'running')
           on conflict (tenant_id, message_id, key) where message_id is not null do nothing
           returning id""",
        claim.tenant_id,
        uuid7(),
        claim.team_id,
        asked.message_id,
        key_of(asked.request_id),
        subject,
        {"arguments": shortened(asked.arguments), "agent": shortened(asked.agent)},
        now,
        now + _LIFE,
    )
    if approval_id is None:
        return []
    return [
        ApprovalRequested(
            approval_id=approval_id,
            session_id=None,
            kind="tool",
            subject=subject,
            expires_at=now + _LIFE,
            team_id=claim.team_id,
            message_id=asked.message_id,
        )
    ]


async def decisions(
    tx: Transaction, claim: Claim, message_id: UUID, now: datetime
) -> tuple[dict[str, Decision], list[Event]]:
    """What is decided about a message's requests, by their keys; and what to announce of those that
    nobody decided in time."""
    expired = await tx.fetch(
        """update approvals set state = 'expired', decided_at = $3,
               reason = 'Nobody decided in time.'
           where tenant_id = $1 and message_id = $2 and state = 'waiting' and expires_at <= $3
           returning id""",
        claim.tenant_id,
        message_id,
        now,
    )
    rows = await tx.fetch(
        """select key, state, reason, decided_by, details ? 'always' as always from approvals
           where tenant_id = $1 and message_id = $2 and state <> 'waiting'""",
        claim.tenant_id,
        message_id,
    )
    found = {
        row["key"]: Decision(
            row["state"] == "approved",
            row["reason"] or (f"{row['decided_by']} said no." if row["decided_by"] else ""),
            row["always"],
        )
        for row in rows
    }
    return found, [_ended(claim, message_id, row["id"], "expired") for row in expired]


async def withdraw(
    tx: Transaction, claim: Claim, message_id: UUID, now: datetime, key: str | None = None
) -> list[Event]:
    """Closes what still waits for somebody about a message, or one request of it."""
    rows = await tx.fetch(
        """update approvals set state = 'withdrawn', decided_at = $3
           where tenant_id = $1 and message_id = $2 and state = 'waiting'
             and ($4::text is null or key = $4) returning id""",
        claim.tenant_id,
        message_id,
        now,
        key,
    )
    return [_ended(claim, message_id, row["id"], "withdrawn") for row in rows]


def _ended(claim: Claim, message_id: UUID, approval_id: UUID, state: str) -> Event:
    return ApprovalDecided(
        approval_id=approval_id,
        session_id=None,
        state=state,
        decided_by=None,
        team_id=claim.team_id,
        message_id=message_id,
    )
