"""The poster: brings what is in the spool to Postgres, soon and in batches."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from uuid import UUID

import asyncpg

from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.posting import Entry, post_each
from agentos.tenancy.ledger.spool import Spool

log = get_logger(__name__)

# Entries of a thousand calls.
_BATCH = 2000
# Collecting for a moment makes one transaction of many calls.
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


class Poster:
    def __init__(
        self, db: Database, outbox: Outbox, clock: Clock, owner: UUID, spool: Spool
    ) -> None:
        self._db = db
        self._outbox = outbox
        self._clock = clock
        self._owner = owner
        self._spool = spool
        self._pending: deque[Entry] = deque()
        self._some = asyncio.Event()
        # Held while entries are being posted, and by whoever concludes from the rows of this
        # owner's holds what is free: what was posted of them must be known for that.
        self.desk = asyncio.Lock()

    def add(self, entry: Entry) -> None:
        self._pending.append(entry)
        self._some.set()

    async def run(self) -> None:
        """Posts until cancelled."""
        pause = _PAUSE_SECONDS
        while True:
            await self._some.wait()
            try:
                async with self.desk:
                    await self._post_batch()
            except (AgentOSError, asyncpg.PostgresError, OSError) as error:
                if pause == _PAUSE_SECONDS:
                    log.warning("the ledger cannot be posted, trying again", error=repr(error))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            else:
                if pause != _PAUSE_SECONDS:
                    log.info("the ledger is being posted again")
                pause = _PAUSE_SECONDS
            await asyncio.sleep(pause)

    async def flush(self) -> None:
        """Posts all that was pending when it was called."""
        async with self.desk:
            await self.post_pending()

    async def post_pending(self) -> None:
        """Posts all that is pending now. The caller has the desk."""
        left = len(self._pending)
        while left > 0:
            left -= await self._post_batch()

    async def _post_batch(self) -> int:
        """Posts the oldest entries. They stay pending until it is certain that they are there."""
        batch = list(islice(self._pending, _BATCH))
        if batch:
            now = self._clock.now()
            await post_each(self._db, self._owner, batch, self._outbox, now, self._reject)
        for entry in batch:
            self._pending.popleft()
            for pot, amount in entry.kept:
                pot.unposted -= amount
            if entry.segment is not None:
                self._spool.posted(entry.segment)
        if not self._pending:
            self._some.clear()
        return len(batch)

    def _reject(self, entry: Entry) -> None:
        self._spool.reject(entry.line())
        # Its part of the holds was not lowered: count anew what is left.
        for pot, _ in entry.kept:
            pot.hold.doubt()
