from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse.chains.board import WHOLE, Board, Row
from agentos.execution.pulse.chains.plans import Plan
from agentos.execution.pulse.chains.schemas import ChainState
from agentos.execution.pulse.states import ENDED
from agentos.kernel.database import Database, Transaction, reporting_loss
from agentos.kernel.ids import TenantId

# Longer outputs are not shown with the chain; the session has them.
_SHOWN_OF_NODE = 64_000
_SHOWN_OF_ITEM = 2_000


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain as whoever has locked it knows it."""

    tenant_id: TenantId
    id: UUID
    name: str
    state: ChainState
    definition: dict[str, Any]
    inputs: dict[str, Any]
    created_by: str
    principal_kind: str
    principal_id: str
    plan: str
    finished_at: datetime | None


_COLUMNS = """c.tenant_id, c.id, c.name, c.state, c.definition, c.inputs, c.created_by,
    c.principal_kind, c.principal_id, t.plan, c.finished_at"""
_LOCKABLE = f"select {_COLUMNS} from chains c join tenants t on t.id = c.tenant_id"


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    chain_id: UUID,
    *,
    name: str,
    definition: dict[str, Any],
    inputs: dict[str, Any],
    nodes: Sequence[str],
    principal: tuple[str, str, str],
    run: bool,
    now: datetime,
) -> None:
    kind, principal_id, principal_name = principal
    await tx.execute(
        """with c as (
               insert into chains (tenant_id, id, name, definition, inputs, state, due_at,
                   created_by, principal_kind, principal_id, created_at, started_at, updated_at)
               values ($1, $2, $3, $4, $5, case when $10 then 'RUNNING' else 'CREATED' end,
                   case when $10 then $11::timestamptz end, $6, $7, $8, $11,
                   case when $10 then $11::timestamptz end, $11)
           )
           insert into chain_nodes (tenant_id, chain_id, node, item, state)
           select $1, $2, node, $12, 'PENDING' from unnest($9::text[]) as node""",
        tenant_id,
        chain_id,
        name,
        definition,
        inputs,
        principal_name,
        kind,
        principal_id,
        list(nodes),
        run,
        now,
        WHOLE,
    )


async def lock(tx: Transaction, tenant_id: UUID, chain_id: UUID) -> Chain | None:
    """The chain, which nobody else changes until the transaction ends."""
    row = await tx.row(
        f"{_LOCKABLE} where c.tenant_id = $1 and c.id = $2 for update of c", tenant_id, chain_id
    )
    return None if row is None else Chain(**row)


async def lock_due(tx: Transaction, tenant_id: UUID, chain_id: UUID, now: datetime) -> Chain | None:
    """The chain, if it is due and nobody else is at it."""
    row = await tx.row(
        f"""{_LOCKABLE} where c.tenant_id = $1 and c.id = $2 and c.due_at <= $3
            and c.state = 'RUNNING' for update of c skip locked""",
        tenant_id,
        chain_id,
        now,
    )
    return None if row is None else Chain(**row)


async def due(platform_db: Database, now: datetime, limit: int) -> list[tuple[UUID, UUID]]:
    """Tenants and ids of chains of all tenants that are to be advanced, the longest waiting first."""
    # One statement is a transaction, and every worker asks this all day long.
    async with platform_db.connection() as connection:
        with reporting_loss:
            rows = await connection.fetch(
                "select tenant_id, id from chains where due_at <= $1 order by due_at limit $2",
                now,
                limit,
            )
    return [(row["tenant_id"], row["id"]) for row in rows]


async def load_board(tx: Transaction, chain: Chain, plan: Plan, now: datetime) -> Board:
    """Where the nodes stand, and what their sessions say; without outputs, which may be large."""
    rows = await tx.fetch(
        """select n.node, n.item, n.state, n.tries, n.session_id, n.error, n.started_at,
               n.finished_at, s.state as session_state, s.error as session_error,
               s.error_code as session_code
           from chain_nodes n left join sessions s
               on s.tenant_id = n.tenant_id and s.id = n.session_id
           where n.tenant_id = $1 and n.chain_id = $2 and (n.item = $3 or n.state <> 'COMPLETE')
           order by n.node, n.item""",
        chain.tenant_id,
        chain.id,
        WHOLE,
    )
    complete = await tx.fetch(
        """select node, count(*) as count from chain_nodes
           where tenant_id = $1 and chain_id = $2 and item <> $3 and state = 'COMPLETE'
           group by node""",
        chain.tenant_id,
        chain.id,
        WHOLE,
    )
    board = Board(chain.id, plan, now)
    for row in rows:
        if row["item"] == WHOLE:
            board.rows[row["node"]] = Row(**row)
        else:
            board.items.setdefault(row["node"], []).append(Row(**row))
    board.complete_items = {row["node"]: row["count"] for row in complete}
    return board


async def save(tx: Transaction, chain: Chain, rows: Iterable[Row]) -> None:
    """Writes what has changed; outputs are copied from the sessions, which may go some day."""
    changed = [row for row in rows if row.changed]
    if not changed:
        return
    await tx.execute(
        """update chain_nodes n set state = r.state, tries = r.tries, session_id = r.session_id,
               error = r.error, started_at = r.started_at, finished_at = r.finished_at,
               output = case when r.takes_output then (
                   select jsonb_build_object('text', s.result -> 'text', 'output',
                       case when s.result -> 'output' = 'null' then s.result -> 'text'
                            else s.result -> 'output' end)
                   from sessions s where s.tenant_id = $1 and s.id = r.session_id) end
           from unnest($3::text[], $4::integer[], $5::text[], $6::smallint[], $7::uuid[],
                $8::text[], $9::timestamptz[], $10::timestamptz[], $11::boolean[])
               as r (node, item, state, tries, session_id, error, started_at, finished_at,
                   takes_output)
           where n.tenant_id = $1 and n.chain_id = $2 and n.node = r.node and n.item = r.item""",
        chain.tenant_id,
        chain.id,
        [row.node for row in changed],
        [row.item for row in changed],
        [row.state for row in changed],
        [row.tries for row in changed],
        [row.session_id for row in changed],
        [row.error for row in changed],
        [row.started_at for row in changed],
        [row.finished_at for row in changed],
        [row.takes_output for row in changed],
    )
    for row in changed:
        row.changed = row.takes_output = False


async def add_items(tx: Transaction, chain: Chain, node: str, items: Sequence[Any]) -> None:
    # Each in an object of its own: a null of the list is no null of the database.
    await tx.execute(
        """insert into chain_nodes (tenant_id, chain_id, node, item, state, input)
           select $1, $2, $3, i.nth - 1, 'PENDING', i.value
           from unnest($4::jsonb[]) with ordinality as i (value, nth)""",
        chain.tenant_id,
        chain.id,
        node,
        [{"item": item} for item in items],
    )


async def item_values(
    tx: Transaction, chain: Chain, node: str, items: Sequence[int]
) -> dict[int, Any]:
    rows = await tx.fetch(
        """select item, input -> 'item' as value from chain_nodes
           where tenant_id = $1 and chain_id = $2 and node = $3 and item = any($4::integer[])""",
        chain.tenant_id,
        chain.id,
        node,
        list(items),
    )
    return {row["item"]: row["value"] for row in rows}


async def outcomes(
    tx: Transaction, chain: Chain, nodes: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """What expressions see of these nodes."""
    rows = await tx.fetch(
        """select node, item, state, error, output from chain_nodes
           where tenant_id = $1 and chain_id = $2 and node = any($3::text[])
           order by node, item""",
        chain.tenant_id,
        chain.id,
        list(nodes),
    )
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        output = row["output"] or {"text": None, "output": None}
        seen = {"state": row["state"], "error": row["error"], **output}
        if row["item"] == WHOLE:
            found[row["node"]] = {**seen, "items": []}
        else:
            found[row["node"]]["items"].append(seen)
    return found


async def snapshot_of(tx: Transaction, tenant_id: UUID, session_id: UUID | None) -> UUID | None:
    """The files of a session as they are now."""
    snapshot: UUID | None = await tx.value(
        "select snapshot_id from sessions where tenant_id = $1 and id = $2", tenant_id, session_id
    )
    return snapshot


async def set_due(tx: Transaction, chain: Chain, due_at: datetime | None, now: datetime) -> None:
    await tx.execute(
        "update chains set due_at = $3, updated_at = $4 where tenant_id = $1 and id = $2",
        chain.tenant_id,
        chain.id,
        due_at,
        now,
    )


async def start(tx: Transaction, chain: Chain, now: datetime) -> None:
    """Makes the chain run, for the first time or again."""
    await tx.execute(
        """update chains set state = 'RUNNING', due_at = $3, started_at = coalesce(started_at, $3),
               finished_at = null, error = null, output = null, updated_at = $3
           where tenant_id = $1 and id = $2""",
        chain.tenant_id,
        chain.id,
        now,
    )


async def finish(
    tx: Transaction,
    chain: Chain,
    state: ChainState,
    now: datetime,
    *,
    output: Any = None,
    error: str | None = None,
) -> None:
    await tx.execute(
        """update chains set state = $3, due_at = null, finished_at = $4, updated_at = $4,
               output = $5, error = $6 where tenant_id = $1 and id = $2""",
        chain.tenant_id,
        chain.id,
        state,
        now,
        output,
        error,
    )


async def postpone(tx: Transaction, tenant_id: UUID, chain_id: UUID, until: datetime) -> None:
    await tx.execute(
        "update chains set due_at = $3 where tenant_id = $1 and id = $2 and due_at is not null",
        tenant_id,
        chain_id,
        until,
    )


async def cancel_nodes(tx: Transaction, chain: Chain, now: datetime) -> None:
    await tx.execute(
        """update chain_nodes set state = 'CANCELLED', finished_at = $3
           where tenant_id = $1 and chain_id = $2 and state in ('PENDING', 'RUNNING')""",
        chain.tenant_id,
        chain.id,
        now,
    )


async def reset_nodes(tx: Transaction, chain: Chain, nodes: Iterable[str]) -> None:
    """Makes nodes as they were before they ran; what lists they had is worked out again."""
    names = list(nodes)
    await tx.execute(
        """delete from chain_nodes
           where tenant_id = $1 and chain_id = $2 and node = any($3::text[]) and item <> $4""",
        chain.tenant_id,
        chain.id,
        names,
        WHOLE,
    )
    await tx.execute(
        f"""update chain_nodes set {_PENDING}
            where tenant_id = $1 and chain_id = $2 and node = any($3::text[])""",
        chain.tenant_id,
        chain.id,
        names,
    )


_PENDING = """state = 'PENDING', tries = 0, session_id = null, output = null, error = null,
    started_at = null, finished_at = null"""


async def reopen_items(tx: Transaction, chain: Chain, node: str) -> bool:
    """Lets those items of a node run again that have not completed. False: it has no items."""
    await tx.execute(
        f"""update chain_nodes set {_PENDING} where tenant_id = $1 and chain_id = $2
            and node = $3 and item <> $4 and state <> 'COMPLETE'""",
        chain.tenant_id,
        chain.id,
        node,
        WHOLE,
    )
    reopened = await tx.execute(
        """update chain_nodes n set state = 'RUNNING', error = null, finished_at = null
           where tenant_id = $1 and chain_id = $2 and node = $3 and item = $4
             and exists (select from chain_nodes i where i.tenant_id = $1 and i.chain_id = $2
                 and i.node = $3 and i.item <> $4)""",
        chain.tenant_id,
        chain.id,
        node,
        WHOLE,
    )
    return reopened == 1


async def open_sessions(tx: Transaction, tenant_id: UUID, chain_id: UUID) -> list[UUID]:
    rows = await tx.fetch(
        """select id from sessions where tenant_id = $1 and chain_id = $2
           and state <> all($3::text[]) order by id""",
        tenant_id,
        chain_id,
        sorted(ENDED),
    )
    return [row["id"] for row in rows]


_SHOWN = """c.id, c.name, c.state, n.total as nodes_total, n.ended as nodes_ended, c.error,
    c.created_by, c.created_at, c.started_at, c.finished_at, c.updated_at"""
_FROM = """from chains c cross join lateral (
    select count(*) as total, count(*) filter (where state not in ('PENDING', 'RUNNING')) as ended
    from chain_nodes where tenant_id = c.tenant_id and chain_id = c.id and item = -1) n"""


async def page(
    tx: Transaction, tenant_id: UUID, state: ChainState | None, before: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_SHOWN} {_FROM} where c.tenant_id = $1 and c.id < $2
            and ($3::text is null or c.state = $3) order by c.id desc limit $4""",
        tenant_id,
        before,
        state,
        limit,
    )


async def find(tx: Transaction, tenant_id: UUID, chain_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_SHOWN}, c.definition, c.inputs, c.output {_FROM}
            where c.tenant_id = $1 and c.id = $2""",
        tenant_id,
        chain_id,
    )


async def shown_nodes(tx: Transaction, tenant_id: UUID, chain_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select node, item, state, tries, session_id, error, started_at, finished_at,
               case when not long then output -> 'output' end as output,
               coalesce(long, false) as truncated
           from (select *, length(output::text) > case when item = -1 then $3::integer else $4::integer end as long
                 from chain_nodes where tenant_id = $1 and chain_id = $2) n
           order by node, item""",
        tenant_id,
        chain_id,
        _SHOWN_OF_NODE,
        _SHOWN_OF_ITEM,
    )
