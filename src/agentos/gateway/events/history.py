"""Reads what happened, in short transactions of its own: a stream never keeps a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from agentos.gateway.events import repository
from agentos.gateway.events.filters import TypeFilter
from agentos.gateway.events.frames import Frame
from agentos.kernel.database import Database, Transaction

PAGE = 500


class History:
    """The history of one tenant, as that tenant may see it.

    `gate` is shared by all tenants: when thousands of clients come back at once, requests must
    still find a free connection.
    """

    def __init__(self, db: Database, tenant_id: UUID, gate: asyncio.Semaphore):
        self._db = db
        self._tenant_id = tenant_id
        self._gate = gate

    async def last_seq(self) -> int:
        async with self._reading() as tx:
            return await repository.last_seq(tx, self._tenant_id)

    async def bounds(self) -> tuple[int, int]:
        """The oldest event that is still kept, or the next one to come, and the newest."""
        async with self._reading() as tx:
            newest = await repository.last_seq(tx, self._tenant_id)
            oldest = await repository.oldest_seq(tx, self._tenant_id)
        return (newest + 1 if oldest is None else oldest), newest

    async def page(self, after: int, wanted: TypeFilter) -> tuple[list[Frame], int]:
        """Some of the wanted events after `after`, and the place up to which these are all."""
        async with self._reading() as tx:
            newest = await repository.last_seq(tx, self._tenant_id)
            if newest <= after:
                return [], after
            frames = await repository.events(
                tx, self._tenant_id, after=after, upto=newest, wanted=wanted, limit=PAGE
            )
        if len(frames) < PAGE:
            return frames, newest
        last = frames[-1].seq
        assert last is not None, "an event in history has a place"
        return frames, last

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Transaction]:
        async with self._gate, self._db.transaction(tenant_id=self._tenant_id) as tx:
            yield tx
