"""Clearing away snapshots that nothing leads to any more."""

from __future__ import annotations

from datetime import timedelta

from agentos.integrations.workspaces import repository
from agentos.kernel.database import Database

_BATCH = 500


async def collect_garbage(platform_db: Database, older_than: timedelta) -> int:
    """Removes snapshots that no step, checkpoint or session names; says how many.

    Their packs go to the sweeper of objects, unless another snapshot needs them. `older_than`
    spares what was just recorded. Safe to run twice, and beside another.
    """
    removed = 0
    while True:
        async with platform_db.transaction() as tx:
            batch = await repository.take_unnamed(tx, older_than, _BATCH)
            packs = {(tenant_id, pack) for tenant_id, _, needed in batch for pack in needed}
            await repository.discard_unnamed_packs(tx, sorted(packs))
        removed += len(batch)
        if len(batch) < _BATCH:
            return removed
