from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

if TYPE_CHECKING:
    from agentos.integrations.workspaces.snapshots import Snapshot


async def find(tx: Transaction, tenant_id: UUID, snapshot_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        """select id, workspace_id, manifest, manifest_offset, digest, packs, files, bytes
           from workspace_snapshots where tenant_id = $1 and id = $2""",
        tenant_id,
        snapshot_id,
    )


async def insert(tx: Transaction, snapshot: Snapshot, now: datetime) -> bool:
    """Records a snapshot unless it is on record; False if a pack that it needs is gone.

    Its new packs are taken back from the sweeper and counted; those it shares with others are held
    until the transaction ends, so that nobody clears them away.
    """
    assert snapshot.manifest is not None
    shared = [pack for pack in snapshot.packs if pack not in snapshot.added]
    row = await tx.row(
        """with known as (
               insert into workspace_snapshots (tenant_id, id, workspace_id, manifest,
                   manifest_offset, digest, packs, files, bytes, created_at)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $13)
               on conflict (tenant_id, id) do nothing returning id),
           held as (
               select id from workspace_packs where tenant_id = $1 and id = any($10::uuid[])
               order by id for key share),
           adopted as (
               delete from discarded_objects
               where tenant_id = $1 and id = any($11::uuid[]) and exists (select from known)
               returning id),
           listed as (
               insert into workspace_packs (tenant_id, id, bytes)
               select $1, p.id, p.bytes from unnest($11::uuid[], $12::bigint[]) p (id, bytes)
               where exists (select from known)),
           counted as (
               insert into storage_usage as u (tenant_id, bytes, objects)
               select $1, sum(b), 0 from unnest($12::bigint[]) b
               where exists (select from known)
               having count(*) > 0
               on conflict (tenant_id) do update set bytes = u.bytes + excluded.bytes)
           select exists (select from known) as fresh, (select count(*) from held) as held,
               (select count(*) from adopted) as adopted""",
        snapshot.tenant_id,
        snapshot.id,
        snapshot.workspace_id,
        snapshot.manifest.blob,
        snapshot.manifest.offset,
        snapshot.digest,
        list(snapshot.packs),
        snapshot.files,
        snapshot.size,
        shared,
        list(snapshot.added),
        list(snapshot.added.values()),
        now,
    )
    assert row is not None
    if not row["fresh"]:
        return True
    return (row["held"], row["adopted"]) == (len(shared), len(snapshot.added))


async def announce(tx: Transaction, tenant_id: UUID, packs: list[UUID]) -> asyncpg.Record:
    """Lists blobs as discarded before there are any; the tenant's plan, and the bytes it has."""
    row = await tx.row(
        """with listed as (
               insert into discarded_objects (tenant_id, id) select $1, unnest($2::uuid[]))
           select t.plan, t.limits, coalesce(u.bytes, 0) as used
           from tenants t left join storage_usage u on u.tenant_id = t.id where t.id = $1""",
        tenant_id,
        packs,
    )
    assert row is not None, "a workspace's tenant exists"
    return row


async def take_unnamed(
    tx: Transaction, older_than: timedelta, limit: int
) -> list[tuple[UUID, UUID, list[UUID]]]:
    """Removes a batch of snapshots that nothing names any more: tenants, ids, packs."""
    rows = await tx.fetch(
        """with unnamed as (
               select tenant_id, id from workspace_snapshots s
               where created_at <= now() - $1::interval
                 and not exists (select from steps n
                     where n.tenant_id = s.tenant_id and n.snapshot_id = s.id)
                 and not exists (select from checkpoints n
                     where n.tenant_id = s.tenant_id and n.snapshot_id = s.id)
                 and not exists (select from sessions n
                     where n.tenant_id = s.tenant_id and n.snapshot_id = s.id)
                 and not exists (select from teams n
                     where n.tenant_id = s.tenant_id and n.snapshot_id = s.id)
               order by created_at limit $2 for update skip locked)
           delete from workspace_snapshots s using unnamed u
           where s.tenant_id = u.tenant_id and s.id = u.id
           returning s.tenant_id, s.id, s.packs""",
        older_than,
        limit,
    )
    return [(row["tenant_id"], row["id"], row["packs"]) for row in rows]


async def discard_unnamed_packs(tx: Transaction, packs: list[tuple[UUID, UUID]]) -> None:
    """Leaves those of these packs to the sweeper that no snapshot names any more."""
    pairs = [tenant_id for tenant_id, _ in packs], [pack for _, pack in packs]
    # Locked in a statement of its own: the next one has to see what whoever held them recorded.
    await tx.execute(
        """select from workspace_packs p join unnest($1::uuid[], $2::uuid[]) as q (tenant_id, id)
               on p.tenant_id = q.tenant_id and p.id = q.id
           order by p.tenant_id, p.id for update of p""",
        *pairs,
    )
    await tx.execute(
        """with gone as (
               delete from workspace_packs p
               using unnest($1::uuid[], $2::uuid[]) as q (tenant_id, id)
               where p.tenant_id = q.tenant_id and p.id = q.id
                 and not exists (select from workspace_snapshots s
                     where s.tenant_id = p.tenant_id and s.packs @> array[p.id])
               returning p.tenant_id, p.id, p.bytes),
           listed as (
               insert into discarded_objects (tenant_id, id) select tenant_id, id from gone)
           update storage_usage u set bytes = u.bytes - g.bytes
           from (select tenant_id, sum(bytes)::bigint as bytes from gone group by tenant_id) g
           where u.tenant_id = g.tenant_id""",
        *pairs,
    )
