from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse.approvals.decisions import Decision
from agentos.execution.pulse.approvals.schemas import ApprovalFilter
from agentos.kernel.database import Transaction

# $2 is the present: what nobody decided in time is expired, also before its session has noticed.
_READ = """
select a.id, a.kind, a.subject, a.details,
    case when a.state = 'waiting' and a.expires_at <= $2 then 'expired' else a.state end as state,
    a.session_id, s.title as session_title, t.id as team_id, t.name as team_name, a.message_id,
    a.on_expiry, a.answer, a.reason, a.decided_by, a.decided_at, a.created_at, a.expires_at
from approvals a
left join sessions s on s.tenant_id = a.tenant_id and s.id = a.session_id
left join teams t on t.tenant_id = a.tenant_id and t.id = coalesce(a.team_id, s.team_id)
where a.tenant_id = $1"""

# Written out for each state, so that the list of what waits is read from its own index.
_IN_STATE = {
    None: "",
    "waiting": " and a.state = 'waiting' and a.expires_at > $2",
    "expired": " and (a.state = 'expired' or (a.state = 'waiting' and a.expires_at <= $2))",
    "approved": " and a.state = 'approved'",
    "rejected": " and a.state = 'rejected'",
    "withdrawn": " and a.state = 'withdrawn'",
}


async def page(
    tx: Transaction,
    tenant_id: UUID,
    wanted: ApprovalFilter,
    now: datetime,
    after: UUID,
    limit: int,
) -> list[asyncpg.Record]:
    args: list[Any] = [tenant_id, now, after, limit]
    where = _IN_STATE[wanted.state]
    if wanted.session_id is not None:
        args.append(wanted.session_id)
        where += " and a.session_id = $5"
    if wanted.team_id is not None:
        args.append(wanted.team_id)
        where += f" and coalesce(a.team_id, s.team_id) = ${len(args)}"
    return await tx.fetch(f"{_READ}{where} and a.id > $3 order by a.id limit $4", *args)


async def find(
    tx: Transaction, tenant_id: UUID, approval_id: UUID, now: datetime
) -> asyncpg.Record | None:
    return await tx.row(f"{_READ} and a.id = $3", tenant_id, now, approval_id)


_ROW = "id, kind, key, subject, state, decided_by, expires_at"


async def lock(tx: Transaction, tenant_id: UUID, approval_id: UUID) -> asyncpg.Record | None:
    """One approval. Whoever decides holds its session's lock before."""
    return await tx.row(
        f"select {_ROW} from approvals where tenant_id = $1 and id = $2 for update",
        tenant_id,
        approval_id,
    )


async def note_always(tx: Transaction, tenant_id: UUID, approval_id: UUID) -> None:
    """Notes that a tool is approved for as long as its team runs."""
    await tx.execute(
        """update approvals set details = details || '{"always": true}'
           where tenant_id = $1 and id = $2""",
        tenant_id,
        approval_id,
    )


async def others_of_team(
    tx: Transaction, tenant_id: UUID, message_id: UUID, tool: str, but: UUID, now: datetime
) -> list[asyncpg.Record]:
    """What else waits for a word about the same tool while a team answers a message."""
    return await tx.fetch(
        f"""select {_ROW} from approvals
            where tenant_id = $1 and message_id = $2 and subject = $3
              and id <> $4 and state = 'waiting' and expires_at > $5
            order by id for update""",
        tenant_id,
        message_id,
        tool,
        but,
        now,
    )


async def others_of_tool(
    tx: Transaction, tenant_id: UUID, session_id: UUID, tool: str, but: UUID, now: datetime
) -> list[asyncpg.Record]:
    """What else waits for a word about the same tool of a session."""
    return await tx.fetch(
        f"""select {_ROW} from approvals
            where tenant_id = $1 and session_id = $2 and kind = 'tool' and subject = $3
              and id <> $4 and state = 'waiting' and expires_at > $5
            order by id for update""",
        tenant_id,
        session_id,
        tool,
        but,
        now,
    )


async def decide(
    tx: Transaction, tenant_id: UUID, approval_id: UUID, decision: Decision, now: datetime
) -> bool:
    """Writes a decision. False: it waits no more."""
    touched = await tx.execute(
        """update approvals set state = $3, decided_by = $4, answer = $5, reason = $6, decided_at = $7
           where tenant_id = $1 and id = $2 and state = 'waiting'""",
        tenant_id,
        approval_id,
        decision.state,
        decision.by,
        decision.answer,
        decision.reason,
        now,
    )
    return touched == 1


async def is_waiting(tx: Transaction, tenant_id: UUID, session_id: UUID) -> bool:
    """Whether a session still waits for somebody."""
    waiting: bool = await tx.value(
        """select exists (select from approvals
           where tenant_id = $1 and session_id = $2 and state = 'waiting')""",
        tenant_id,
        session_id,
    )
    return waiting


async def allow_tool(tx: Transaction, tenant_id: UUID, session_id: UUID, tool: str) -> None:
    """Notes that a tool is approved for good in a session, which is locked."""
    await tx.execute(
        """update sessions set allowed_tools = allowed_tools || $3::text
           where tenant_id = $1 and id = $2 and not $3 = any(allowed_tools)""",
        tenant_id,
        session_id,
        tool,
    )


async def requeue_if_decided(tx: Transaction, tenant_id: UUID, session_id: UUID) -> None:
    """Queues a session that has just paused for approvals if all are decided by now.

    Whoever decided while it was still running could not wake it.
    """
    await tx.execute(
        """update sessions s set queued_at = clock_timestamp()
           where tenant_id = $1 and id = $2 and state = 'PAUSED' and not pause_requested
             and not exists (select from approvals a where a.tenant_id = $1 and a.session_id = $2
                 and a.state = 'waiting')""",
        tenant_id,
        session_id,
    )


async def find_by_key(
    tx: Transaction, tenant_id: UUID, session_id: UUID, key: str
) -> asyncpg.Record | None:
    return await tx.row(
        """select id, kind, key, subject, state, on_expiry, answer, reason, decided_by, expires_at
           from approvals where tenant_id = $1 and session_id = $2 and key = $3""",
        tenant_id,
        session_id,
        key,
    )


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    session_id: UUID,
    approval_id: UUID,
    *,
    kind: str,
    key: str,
    subject: str,
    details: dict[str, Any],
    on_expiry: str,
    now: datetime,
    expires_at: datetime,
) -> UUID:
    """A new request; or one that was withdrawn with its session's end, open again. Returns its id."""
    stored: UUID = await tx.value(
        """insert into approvals (tenant_id, id, session_id, kind, key, subject, details, on_expiry,
               created_at, expires_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
           on conflict (tenant_id, session_id, key) do update set
               state = 'waiting', details = excluded.details, on_expiry = excluded.on_expiry,
               created_at = excluded.created_at, expires_at = excluded.expires_at,
               answer = null, reason = null, decided_by = null, decided_at = null
           returning id""",
        tenant_id,
        approval_id,
        session_id,
        kind,
        key,
        subject,
        details,
        on_expiry,
        now,
        expires_at,
    )
    return stored
