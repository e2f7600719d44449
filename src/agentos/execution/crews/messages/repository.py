from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

# In the order of MessageRead's fields.
_READ = """id, team_id, position, source, run_id, author, text, attachments, state, attempt, answer,
    error, error_code, activity, input_tokens, output_tokens, cost_micros, session_id, created_at,
    started_at, finished_at"""
FIRST = 2**63 - 1
# What queue_message() gives: the message, and of its team what a `Handed` says.
QUEUE = f"""select {", ".join(f"(message).{name.strip()}" for name in _READ.split(","))},
        fence, generation, version, answer_seconds
    from queue_message($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
        $18, $19)"""


async def page(
    tx: Transaction,
    tenant_id: UUID,
    team_id: UUID,
    *,
    state: str | None,
    words: str | None,
    before: int,
    limit: int,
) -> list[asyncpg.Record]:
    """The messages of a team below a position, newest first."""
    return await tx.fetch(
        f"""select {_READ} from team_messages
            where tenant_id = $1 and team_id = $2 and position < $3
              and ($4::text is null or state = $4)
              and ($5::text is null or position(lower($5) in lower(text)) > 0
                or position(lower($5) in lower(coalesce(answer, ''))) > 0)
            order by position desc limit $6""",
        tenant_id,
        team_id,
        before,
        state,
        words,
        limit,
    )


async def find(
    tx: Transaction, tenant_id: UUID, team_id: UUID, message_id: UUID
) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_READ} from team_messages
            where tenant_id = $1 and team_id = $2 and id = $3""",
        tenant_id,
        team_id,
        message_id,
    )


async def open_of(tx: Transaction, tenant_id: UUID, team_id: UUID) -> list[asyncpg.Record]:
    """The messages that are being answered or wait, in their order."""
    return await tx.fetch(
        """select id, state, position from team_messages
           where tenant_id = $1 and team_id = $2 and state in ('queued', 'running')
           order by position""",
        tenant_id,
        team_id,
    )


async def request_cancel(tx: Transaction, tenant_id: UUID, message_id: UUID) -> None:
    await tx.execute(
        "update team_messages set cancel_requested = true where tenant_id = $1 and id = $2",
        tenant_id,
        message_id,
    )


async def object_sizes(
    tx: Transaction, tenant_id: UUID, object_ids: Sequence[UUID]
) -> dict[UUID, int]:
    """The sizes of those that are objects of the tenant."""
    rows = await tx.fetch(
        "select id, size from objects where tenant_id = $1 and id = any($2)",
        tenant_id,
        list(object_ids),
    )
    return {row["id"]: row["size"] for row in rows}


# Being answered --------------------------------------------------------------------------------


async def running(tx: Transaction, tenant_id: UUID, team_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        """select id, session_id, started_at from team_messages
           where tenant_id = $1 and team_id = $2 and state = 'running'
           order by position limit 1""",
        tenant_id,
        team_id,
    )


async def next_queued(tx: Transaction, tenant_id: UUID, team_id: UUID) -> asyncpg.Record | None:
    """The message of a locked team that is to be answered next."""
    return await tx.row(
        """select id, text, attachments, author, principal_kind, principal_id, attempt
           from team_messages where tenant_id = $1 and team_id = $2 and state = 'queued'
           order by position limit 1""",
        tenant_id,
        team_id,
    )


async def start(
    tx: Transaction, tenant_id: UUID, message_id: UUID, session_id: UUID | None, now: datetime
) -> int:
    """Notes that a queued message is being answered; returns which attempt this is."""
    attempt: int = await tx.value(
        """update team_messages set state = 'running', attempt = attempt + 1, session_id = $3,
               started_at = coalesce(started_at, $4)
           where tenant_id = $1 and id = $2 and state = 'queued' returning attempt""",
        tenant_id,
        message_id,
        session_id,
        now,
    )
    return attempt


async def finish(
    tx: Transaction,
    tenant_id: UUID,
    team_id: UUID,
    message_id: UUID,
    before: str,
    *,
    state: str,
    answer: str | None,
    error: str | None,
    error_code: str | None,
    activity: Sequence[dict[str, Any]],
    usage: tuple[int, int, int],
    now: datetime,
) -> asyncpg.Record | None:
    """Ends a message that is in the state `before`; None if it is not, and nothing is changed."""
    return await tx.row(
        """update team_messages set state = $5, answer = $6, error = $7, error_code = $8,
               activity = $9, input_tokens = $10, output_tokens = $11, cost_micros = $12,
               finished_at = $13
           where tenant_id = $1 and team_id = $2 and id = $3 and state = $4 returning run_id""",
        tenant_id,
        team_id,
        message_id,
        before,
        state,
        answer,
        error,
        error_code,
        list(activity),
        *usage,
        now,
    )
