"""What the end of a session means to others: its approvals, its parent, its chain, its team.

Whoever ends a session also changes its parent's row, and whoever cancels one ends its sub-agents.
So that no two wait for each other, rows of one family are locked from the ancestors down, always:
`lock_parent` or `lock_family` comes before the session's own lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.contracts.events import ApprovalDecided, Event
from agentos.execution.crews.native import conversation_ended
from agentos.execution.pulse.states import ENDED
from agentos.kernel.database import Transaction

_ENDED = sorted(ENDED)


async def lock_parent(tx: Transaction, tenant_id: UUID, parent_id: UUID | None) -> None:
    """To be called by a run before it ends its session."""
    if parent_id is not None:
        await tx.execute(
            "select from sessions where tenant_id = $1 and id = $2 for update", tenant_id, parent_id
        )


async def lock_family(tx: Transaction, tenant_id: UUID, session_id: UUID) -> None:
    """To be called before a session is ended from outside: locks its parent, it, and what it led to."""
    parent_id: UUID | None = await tx.value(
        "select parent_id from sessions where tenant_id = $1 and id = $2", tenant_id, session_id
    )
    await lock_parent(tx, tenant_id, parent_id)
    await tx.execute(
        "select from sessions where tenant_id = $1 and id = $2 for update", tenant_id, session_id
    )
    # A level at a time: nobody can have new sub-agents once it is locked.
    level = [session_id]
    while level:
        rows = await tx.fetch(
            """select id from sessions where tenant_id = $1 and parent_id = any($2)
               and state <> all($3::text[]) order by id for update""",
            tenant_id,
            level,
            _ENDED,
        )
        level = [row["id"] for row in rows]


async def session_ended(
    tx: Transaction,
    tenant_id: UUID,
    session_id: UUID,
    now: datetime,
    *,
    parent_id: UUID | None,
    chain_id: UUID | None,
    may_wait: bool = True,
    in_team: bool = True,
) -> Sequence[Event]:
    """Withdraws what it waited for, and lets go on what waited for it. Returns what to announce.

    `may_wait`: False if it is known that nobody was asked anything. `in_team`: False if it is known
    that it belongs to no team.
    """
    closed = await _close_approvals(tx, tenant_id, session_id, now) if may_wait else []
    if parent_id is not None:
        await _wake_parent(tx, tenant_id, parent_id)
    if chain_id is not None:
        await tx.execute(
            "update chains set due_at = $3 where tenant_id = $1 and id = $2 and finished_at is null",
            tenant_id,
            chain_id,
            now,
        )
    decided: list[Event] = [
        ApprovalDecided(
            approval_id=row["id"], session_id=session_id, state=row["state"], decided_by=None
        )
        for row in closed
    ]
    if in_team and parent_id is None:
        decided += await conversation_ended(tx, tenant_id, session_id, now)
    return decided


async def _wake_parent(tx: Transaction, tenant_id: UUID, parent_id: UUID) -> None:
    # Its lock puts siblings that end at once in a row: the last one sees that it is the last.
    await lock_parent(tx, tenant_id, parent_id)
    await tx.execute(
        """update sessions p set queued_at = clock_timestamp()
           where tenant_id = $1 and id = $2 and state = 'PAUSED' and waiting_for = 'children'
             and not pause_requested and queued_at is null
             and not exists (select from sessions c where c.tenant_id = $1 and c.parent_id = $2
                 and c.state <> all($3::text[]))""",
        tenant_id,
        parent_id,
        _ENDED,
    )


async def _close_approvals(
    tx: Transaction, tenant_id: UUID, session_id: UUID, now: datetime
) -> list[asyncpg.Record]:
    return await tx.fetch(
        """update approvals set decided_at = $3,
               state = case when expires_at <= $3 then 'expired' else 'withdrawn' end
           where tenant_id = $1 and session_id = $2 and state = 'waiting' returning id, state""",
        tenant_id,
        session_id,
        now,
    )
