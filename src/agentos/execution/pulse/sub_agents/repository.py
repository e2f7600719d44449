from __future__ import annotations

from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_CHILD = "id, title, state, result, error, snapshot_id"


async def of_call(
    tx: Transaction, tenant_id: UUID, parent_id: UUID, call: str
) -> list[asyncpg.Record]:
    """The sub-agents that one call has started, in its order."""
    return await tx.fetch(
        f"""select {_CHILD} from sessions
            where tenant_id = $1 and parent_id = $2 and parent_call = $3 order by id""",
        tenant_id,
        parent_id,
        call,
    )


async def child(
    tx: Transaction, tenant_id: UUID, parent_id: UUID, child_id: UUID
) -> asyncpg.Record | None:
    return await tx.row(
        f"select {_CHILD} from sessions where tenant_id = $1 and parent_id = $2 and id = $3",
        tenant_id,
        parent_id,
        child_id,
    )


async def seed(tx: Transaction, tenant_id: UUID, child_id: UUID) -> UUID | None:
    """The files that a sub-agent was given to start with."""
    found: UUID | None = await tx.value(
        """select snapshot_id from steps
           where tenant_id = $1 and session_id = $2 and kind = 'checkpoint' and name = 'start'
           order by seq limit 1""",
        tenant_id,
        child_id,
    )
    return found


async def origin(tx: Transaction, tenant_id: UUID, session_id: UUID) -> tuple[UUID, int]:
    """The first of a session's ancestors, and how many of them there are."""
    row = await tx.row(
        """with recursive up(id, parent_id, depth) as (
               select id, parent_id, 0 from sessions where tenant_id = $1 and id = $2
               union all
               select s.id, s.parent_id, up.depth + 1 from up
               join sessions s on s.tenant_id = $1 and s.id = up.parent_id
           )
           select id, depth from up order by depth desc limit 1""",
        tenant_id,
        session_id,
    )
    assert row is not None, "a session is its own origin, or has one"
    return row["id"], row["depth"]


async def descendants(tx: Transaction, tenant_id: UUID, session_id: UUID) -> int:
    """How many sessions a session has led to, ended ones included."""
    count: int = await tx.value(
        """with recursive down(id) as (
               select id from sessions where tenant_id = $1 and parent_id = $2
               union all
               select s.id from down join sessions s on s.tenant_id = $1 and s.parent_id = down.id
           )
           select count(*) from down""",
        tenant_id,
        session_id,
    )
    return count


async def hold_family(tx: Transaction, tenant_id: UUID, origin_id: UUID) -> None:
    """Makes others of the same family that want to grow wait until the transaction ends."""
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{tenant_id}:family:{origin_id}"
    )


async def manners(tx: Transaction, tenant_id: UUID, session_id: UUID) -> asyncpg.Record:
    """What sub-agents take over that a run does not know of its session."""
    row = await tx.row(
        "select priority, created_by from sessions where tenant_id = $1 and id = $2",
        tenant_id,
        session_id,
    )
    assert row is not None, "it is being worked on"
    return row


async def insert_checkpoint(
    tx: Transaction,
    tenant_id: UUID,
    checkpoint_id: UUID,
    session_id: UUID,
    *,
    seq: int,
    name: str,
    snapshot_id: UUID,
) -> None:
    await tx.execute(
        """insert into checkpoints (tenant_id, id, session_id, seq, name, snapshot_id, created_at)
           select $1, $2, $3, $4, $5, $6, created_at from sessions where tenant_id = $1 and id = $3""",
        tenant_id,
        checkpoint_id,
        session_id,
        seq,
        name,
        snapshot_id,
    )


async def requeue_if_ended(
    tx: Transaction, tenant_id: UUID, parent_id: UUID, call: str, ended: list[str]
) -> None:
    """Queues a session that has just paused for its sub-agents if all have ended by now."""
    await tx.execute(
        """update sessions p set queued_at = clock_timestamp()
           where tenant_id = $1 and id = $2 and state = 'PAUSED' and not pause_requested
             and not exists (select from sessions c where c.tenant_id = $1 and c.parent_id = $2
                 and c.parent_call = $3 and c.state <> all($4::text[]))""",
        tenant_id,
        parent_id,
        call,
        ended,
    )
