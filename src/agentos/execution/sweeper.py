"""The sweeper: does what time brings. Removes what has had its time, ends months, samples storage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from agentos.execution.retention import sweep_sessions
from agentos.integrations.objects import service as objects
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.tenancy.budgets import service as budgets
from agentos.tenancy.ledger import meters
from agentos.tenancy.ledger.recovery import release_expired_holds

log = get_logger(__name__)

_EVERY_SECONDS = 60.0
_BATCH = 1000
_TICKET_GRACE = timedelta(minutes=5)
_LOGIN_GRACE = timedelta(days=7)
_BUCKET_IDLE = timedelta(hours=1)
# Longer than any upload or download takes.
_OBJECT_GRACE = timedelta(hours=6)


@dataclass(frozen=True)
class Retention:
    events: timedelta
    idempotency_keys: timedelta
    sessions: timedelta
    runs: timedelta


class Sweeper:
    def __init__(
        self,
        platform_db: Database,
        store: ObjectStore,
        outbox: Outbox,
        clock: Clock,
        retention: Retention,
    ):
        self._db = platform_db
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._retention = retention
        # The last hour in which what is due every hour was done.
        self._hour: datetime | None = None

    async def run(self) -> None:
        """Sweeps until cancelled."""
        while True:
            try:
                await self.sweep()
            except (AgentOSError, asyncpg.PostgresError, OSError) as error:
                log.warning("sweep interrupted, trying again later", error=repr(error))
            await asyncio.sleep(_EVERY_SECONDS)

    async def sweep(self) -> None:
        """One round. Two at once do the work once: each row is for whoever comes first."""
        await self._delete_expired()
        await objects.sweep(self._db, self._store, older_than=_OBJECT_GRACE)
        await release_expired_holds(self._db)
        await budgets.resume_in_new_month(self._db, self._outbox, self._clock)
        await self._every_hour()

    async def _delete_expired(self) -> None:
        now = self._clock.now()
        for table, key, condition, before in (
            # Never what the bus has not heard yet.
            (
                "events",
                "tenant_id, seq",
                "at < $1 and position <= (select published from relay_cursor)",
                now - self._retention.events,
            ),
            (
                "idempotency_keys",
                "tenant_id, key",
                "created_at < $1",
                now - self._retention.idempotency_keys,
            ),
            ("socket_tickets", "tenant_id, token_hash", "expires_at < $1", now - _TICKET_GRACE),
            ("invitations", "tenant_id, id", "expires_at < $1", now - _LOGIN_GRACE),
            ("logins", "user_id, id", "expires_at < $1 or revoked_at < $1", now - _LOGIN_GRACE),
            ("rate_buckets", "key", "at < $1", now - _BUCKET_IDLE),
            ("runs", "tenant_id, id", "finished_at < $1", now - self._retention.runs),
        ):
            await self._delete(table, key, condition, before)

    async def _every_hour(self) -> None:
        hour = self._clock.now().replace(minute=0, second=0, microsecond=0)
        if hour == self._hour:
            return
        await meters.sample_storage(self._db, self._clock)
        await sweep_sessions(self._db, self._clock, self._retention.sessions)
        self._hour = hour

    async def _delete(self, table: str, key: str, condition: str, before: object) -> None:
        statement = (
            f"delete from {table} where ({key}) in "  # noqa: S608 - the names stand above
            f"(select {key} from {table} where {condition} order by {key} limit {_BATCH})"
        )
        while True:
            async with self._db.transaction() as tx:
                if await tx.execute(statement, before) < _BATCH:
                    return
