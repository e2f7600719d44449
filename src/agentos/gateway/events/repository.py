from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.contracts.events import encode_envelope
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame
from agentos.kernel.database import Transaction


async def last_seq(tx: Transaction, tenant_id: UUID) -> int:
    """The newest sequence number; every event up to it is visible to the next statement."""
    seq: int | None = await tx.value(
        "select last_seq from event_counters where tenant_id = $1", tenant_id
    )
    return seq or 0


async def oldest_seq(tx: Transaction, tenant_id: UUID) -> int | None:
    oldest: int | None = await tx.value(
        "select min(seq) from events where tenant_id = $1", tenant_id
    )
    return oldest


async def events(
    tx: Transaction,
    tenant_id: UUID,
    *,
    after: int,
    upto: int,
    wanted: TypeFilter,
    limit: int,
    newest: bool = False,
) -> list[Frame]:
    """The oldest of the wanted events, or the newest of them; in order in either case.

    A walk along the primary key from one end: of a rare type, it may be a long one.
    """
    rows = await tx.fetch(
        f"""select seq, id, type, at, data::text as data from events
            where tenant_id = $1 and seq > $2 and seq <= $3
              and ($4 or type = any($5::text[])
                   or exists (select from unnest($6::text[]) as prefix
                              where starts_with(type, prefix)))
            order by seq {"desc" if newest else "asc"} limit $7""",
        tenant_id,
        after,
        upto,
        wanted.everything,
        sorted(wanted.exact),
        list(wanted.prefixes),
        limit,
    )
    return [_frame(tenant_id, row) for row in (reversed(rows) if newest else rows)]


def _frame(tenant_id: UUID, row: asyncpg.Record) -> Frame:
    data = encode_envelope(
        seq=row["seq"],
        event_id=row["id"],
        event_type=row["type"],
        tenant_id=tenant_id,
        at=row["at"],
        data=row["data"],
    )
    return Frame(row["seq"], row["type"], data)


async def insert_ticket(
    tx: Transaction, tenant_id: UUID, token_hash: bytes, sealed: bytes, expires_at: datetime
) -> None:
    await tx.execute(
        """insert into socket_tickets (tenant_id, token_hash, credential, expires_at)
           values ($1, $2, $3, $4)""",
        tenant_id,
        token_hash,
        sealed,
        expires_at,
    )


async def take_ticket(
    tx: Transaction, tenant_id: UUID, token_hash: bytes, now: datetime
) -> bytes | None:
    """Removes a ticket and returns what it holds: whoever comes second gets None."""
    sealed: bytes | None = await tx.value(
        """delete from socket_tickets where tenant_id = $1 and token_hash = $2 and expires_at > $3
           returning credential""",
        tenant_id,
        token_hash,
        now,
    )
    return sealed
