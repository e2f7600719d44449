"""Retention: ended sessions have their time, then they go, with everything that was theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from agentos.execution.pulse.journal import decoded
from agentos.execution.pulse.states import ENDED
from agentos.integrations.workspaces.garbage import collect_garbage
from agentos.integrations.workspaces.threads import in_thread
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

_BATCH = 1000
_DISCARD_SECONDS = 3600.0
# What was recorded a moment ago may not be named yet by the step it belongs to.
_SNAPSHOT_GRACE = timedelta(hours=1)


async def sweep_sessions(platform_db: Database, clock: Clock, keep: timedelta) -> int:
    """Deletes what ended longer than `keep` ago, and the snapshots that nothing names any more.

    Returns how many sessions it deleted. Safe to run twice, and beside another.
    """
    before = clock.now() - keep
    deleted = await delete_ended_sessions(platform_db, before)
    await delete_ended_chains(platform_db, before)
    await collect_garbage(platform_db, older_than=_SNAPSHOT_GRACE)
    return deleted


async def delete_ended_sessions(platform_db: Database, before: datetime) -> int:
    """Deletes the sessions that ended before a time, sub-agents before those that started them.

    One stays as long as its parent or its chain has not ended, or a sub-agent of it is there.
    """
    deleted = 0
    while True:
        async with platform_db.transaction() as tx:
            batch = await _take_ended(tx, before)
            await _discard_objects(tx, batch)
            await _delete(tx, batch)
        if not batch:
            return deleted
        deleted += len(batch)


async def delete_ended_chains(platform_db: Database, before: datetime) -> int:
    """Deletes the chains that ended before a time, once their sessions are gone."""
    deleted = 0
    while True:
        async with platform_db.transaction() as tx:
            count = await tx.execute(_DELETE_CHAINS, before, _BATCH)
        deleted += count
        if count < _BATCH:
            return deleted


async def keep_discarding(platform_db: Database, workspaces: Workspaces) -> None:
    """Removes, every hour until cancelled, the directories that this machine needs no more."""
    while True:
        try:
            await discard_workspaces(platform_db, workspaces)
        except (AgentOSError, asyncpg.PostgresError, OSError) as error:
            log.warning("workspaces cannot be removed right now", error=repr(error))
        await asyncio.sleep(_DISCARD_SECONDS)


async def discard_workspaces(platform_db: Database, workspaces: Workspaces) -> int:
    """Removes the directories on this machine whose sessions are gone or ended an hour ago.

    Says how many. Nothing is lost: whoever goes on with a session has its files from its snapshot.
    """
    discarded = 0
    here = await in_thread(lambda: sorted(_directories(workspaces.directory)))
    for first in range(0, len(here), _BATCH):
        batch = here[first : first + _BATCH]
        for tenant_id, workspace_id in await _without_need(platform_db, batch):
            await workspaces.discard(tenant_id, workspace_id)
            discarded += 1
    return discarded


# Rows of `sessions` that are locked are being changed: they are looked at again next time.
_TAKE_ENDED = """
select s.tenant_id, s.id from sessions s
where s.finished_at < $1 and s.state = any($2::text[])
  and not exists (select from sessions c where c.tenant_id = s.tenant_id and c.parent_id = s.id)
  and not exists (select from sessions p where p.tenant_id = s.tenant_id and p.id = s.parent_id
      and p.finished_at is null)
  and not exists (select from chains n where n.tenant_id = s.tenant_id and n.id = s.chain_id
      and n.finished_at is null)
  and not exists (select from teams t where t.tenant_id = s.tenant_id and t.session_id = s.id)
order by s.finished_at limit $3 for update of s skip locked
"""
_DELETE_CHAINS = """
with old as (
    select c.tenant_id, c.id from chains c where c.finished_at < $1
      and not exists (select from sessions s where s.tenant_id = c.tenant_id and s.chain_id = c.id)
    order by c.finished_at limit $2 for update of c skip locked)
delete from chains c using old where c.tenant_id = old.tenant_id and c.id = old.id
"""
_OBJECTS = """
select n.tenant_id, o.id
from unnest($1::uuid[], $2::uuid[]) as b (tenant_id, id)
join steps n on n.tenant_id = b.tenant_id and n.session_id = b.id
cross join lateral (values (n.input_object), (n.output_object)) as o (id)
where o.id is not null
"""
# As text: a JSON operator fails on a NUL anywhere in the value, and outputs may hold one.
_WITH_WHOLE = """
select n.tenant_id, n.output::text as output
from unnest($1::uuid[], $2::uuid[]) as b (tenant_id, id)
join steps n on n.tenant_id = b.tenant_id and n.session_id = b.id
where n.kind = 'tool' and n.output::text like '%"whole":"%'
"""


async def _take_ended(tx: Transaction, before: datetime) -> list[tuple[UUID, UUID]]:
    rows = await tx.fetch(_TAKE_ENDED, before, sorted(ENDED), _BATCH)
    return [(row["tenant_id"], row["id"]) for row in rows]


async def _discard_objects(tx: Transaction, batch: list[tuple[UUID, UUID]]) -> None:
    """Leaves what lies outside of the rows to the sweeper of objects."""
    columns = [tenant_id for tenant_id, _ in batch], [session_id for _, session_id in batch]
    objects = {(row["tenant_id"], row["id"]) for row in await tx.fetch(_OBJECTS, *columns)}
    for row in await tx.fetch(_WITH_WHOLE, *columns):
        whole = decoded(row["output"]).get("whole")
        if whole is not None:
            objects.add((row["tenant_id"], UUID(whole)))
    await tx.execute(
        """insert into discarded_objects (tenant_id, id)
           select * from unnest($1::uuid[], $2::uuid[]) on conflict do nothing""",
        [tenant_id for tenant_id, _ in objects],
        [object_id for _, object_id in objects],
    )


async def _delete(tx: Transaction, batch: list[tuple[UUID, UUID]]) -> None:
    """Steps, checkpoints and approvals go with their sessions."""
    await tx.execute(
        """delete from sessions s using unnest($1::uuid[], $2::uuid[]) as b (tenant_id, id)
           where s.tenant_id = b.tenant_id and s.id = b.id""",
        [t for t, _ in batch],
        [s for _, s in batch],
    )


async def _without_need(
    platform_db: Database, batch: list[tuple[UUID, UUID]]
) -> list[tuple[TenantId, UUID]]:
    async with platform_db.transaction() as tx:
        rows = await tx.fetch(
            """select b.tenant_id, b.id from unnest($1::uuid[], $2::uuid[]) as b (tenant_id, id)
               where not exists (select from sessions s
                   where s.tenant_id = b.tenant_id and s.workspace_id = b.id
                     and (s.finished_at is null or s.finished_at > now() - interval '1 hour'))
                 and not exists (select from teams t
                     where t.tenant_id = b.tenant_id and t.id = b.id)""",
            [t for t, _ in batch],
            [w for _, w in batch],
        )
    return [(TenantId(row["tenant_id"]), row["id"]) for row in rows]


def _directories(directory: Path) -> Iterator[tuple[UUID, UUID]]:
    """The workspaces on this machine, as tenant and id."""
    if not directory.exists():
        return
    for tenant in directory.iterdir():
        tenant_id = _id_of(tenant)
        for workspace in tenant.iterdir() if tenant_id is not None else ():
            workspace_id = _id_of(workspace)
            if tenant_id is not None and workspace_id is not None:
                yield tenant_id, workspace_id


def _id_of(place: Path) -> UUID | None:
    try:
        return UUID(place.name)
    except ValueError:
        return None
