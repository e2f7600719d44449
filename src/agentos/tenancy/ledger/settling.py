"""Settling: one call into all books in one statement, for callers with a transaction of their own.

The statement is the function settle_call of the schema, which others of its functions call, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from operator import attrgetter
from typing import Any
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.holds import lower, recount
from agentos.tenancy.ledger.periods import Account
from agentos.tenancy.ledger.posting import CALL_COLUMNS, Entry, moves_of, warn
from agentos.tenancy.ledger.rating import rated

_columns_of_call = attrgetter(*(name for name, _ in CALL_COLUMNS))


def settled_call(owner: UUID, entry: Entry) -> tuple[Any, ...]:
    """A settlement as the type settled_call of the schema, for settle_call to write."""
    call, spender = entry.call, entry.spender
    assert call is not None, "a settled call is known"
    return (
        entry.call_id,
        spender.team_id,
        spender.session_id,
        entry.period,
        entry.at,
        entry.held_micros,
        entry.held_tokens,
        uuid7(),
        call.at.astimezone(UTC).date(),
        rated(call.cost_micros),
        *_columns_of_call(call),
        owner,
        *_kept(entry),
    )


async def settle_one(tx: Transaction, owner: UUID, entry: Entry, outbox: Outbox) -> None:
    """Writes a settlement and all it moves; one that is there already moves nothing again."""
    rows = await tx.fetch(
        "select * from settle_call($1, $2)", entry.spender.tenant_id, settled_call(owner, entry)
    )
    if rows:
        await _set_right(tx, owner, entry, [row for row in rows if row["cap_micros"] is None])
        await warn(tx, [row for row in rows if row["cap_micros"] is not None], outbox, entry.at)


async def _set_right(
    tx: Transaction, owner: UUID, entry: Entry, astray: Sequence[asyncpg.Record]
) -> None:
    """Counts anew what is held of accounts, locked by now, of which others took this owner's hold."""
    if not astray:
        return
    accounts = [Account(*row[:4]) for row in astray]
    await recount(tx, accounts)
    moves = moves_of(entry.kept)
    await lower(tx, owner, [move for move in moves if move.account in accounts])


def _kept(entry: Entry) -> tuple[int, int, int, int]:
    """What goes off the holds: of the tenant's money and tokens, the team's and session's money."""
    kept = {move.account.scope: move for move in moves_of(entry.kept)}
    tenant, team, session = kept.get("tenant"), kept.get("team"), kept.get("session")
    return (
        tenant.micros if tenant else 0,
        tenant.tokens if tenant else 0,
        team.micros if team else 0,
        session.micros if session else 0,
    )
