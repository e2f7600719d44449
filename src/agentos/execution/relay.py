"""The relay: takes events from the outbox into history, and announces them on the bus.

Two steps, so that a crash between them loses nothing: a committed move gives an event its sequence
number; a cursor says how far the bus has heard. Moving and publishing are done by one relay at a
time, the one that holds the advisory lock; others stand by.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg

from agentos.contracts.events import encode_envelope, subject, subject_roots
from agentos.kernel import metrics
from agentos.kernel.bus import Bus, Durable, MessageTooLarge
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.ids import uuid7
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

WAKE_SUBJECT = "platform.outbox.wake"
RELAY_LOCK = 0x72656C6179  # "relay"
_BATCH = 500
# Fewer are faster one by one: for each batch the server makes a place on its disk. Two take
# 9 ms together and 2 apart, 64 take 12 together and 26 apart.
_TOGETHER = 20
# A wake-up that got lost (NATS was down) delays an event by this much at most.
_POLL_SECONDS = 0.5
_STANDBY_SECONDS = 2.0
# A leader speaks to the database at least every three seconds. One that is stopped, or whose
# machine is gone, would hold the lock for as long as its connection looks alive.
_STUCK_SECONDS = 5.0
# A statement is given as long as the pool gives it: only its answer may have no reader any more.
_STUCK_STATEMENT_SECONDS = 30.0

# How long the bus may take to write a batch to its disk.
_ACK_SECONDS = 2.0

# What a lost connection looks like to whoever holds it; the pool's own calls say Unavailable.
_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

_END_STUCK_LEADER = """
select pg_terminate_backend(a.pid)
from pg_locks l
join pg_database d on d.oid = l.database
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and d.datname = current_database()
  and l.classid = ($1::bigint >> 32)::oid and l.objid = ($1 & 4294967295)::oid and l.objsubid = 1
  and a.state_change < clock_timestamp() - make_interval(
      secs => case when a.state = 'idle' then $2::float else $3::float end)
"""

_MOVE = """
with picked as (
    delete from outbox where position in (select position from outbox order by position limit $1)
    returning *
), counted as (
    select tenant_id, count(*) as n from picked group by tenant_id
), bumped as (
    insert into event_counters as c (tenant_id, last_seq) select tenant_id, n from counted
    on conflict (tenant_id) do update set last_seq = c.last_seq + excluded.last_seq
    returning tenant_id, last_seq
)
insert into events (tenant_id, seq, id, type, data, at)
select p.tenant_id,
       b.last_seq - c.n + row_number() over (partition by p.tenant_id order by p.position),
       p.id, p.type, p.data, p.at
from picked p join counted c using (tenant_id) join bumped b using (tenant_id)
order by p.position
returning position, tenant_id, seq, id, type, data::text as data, at
"""
_AFTER = """
select position, tenant_id, seq, id, type, data::text as data, at
from events where position > $1 order by position limit $2
"""


@dataclass
class _Progress:
    """How far the bus has heard. `behind`: of more than what is moved next, perhaps."""

    published: int
    behind: bool = True


class Relay:
    def __init__(self, platform_db: Database, bus: Bus):
        self._db = platform_db
        self._bus = bus
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Relays until cancelled; whatever fails is tried again."""
        subscription = await self._bus.subscribe(WAKE_SUBJECT, self._wake)
        try:
            while True:
                try:
                    await self._lead()
                except (AgentOSError, *_LOST) as error:
                    log.warning("relay interrupted, going on in a moment", error=repr(error))
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            with suppress(AgentOSError):
                await subscription.unsubscribe()

    async def _wake(self, _: object) -> None:
        self._woken.set()

    async def _lead(self) -> None:
        """Holds the lock on a connection of its own, and relays for as long as that lives."""
        async with self._db.connection() as connection:
            while not await connection.fetchval("select pg_try_advisory_lock($1)", RELAY_LOCK):
                await self._stand_by(connection)
            try:
                await self._relay_all(connection)
            finally:
                with suppress(*_LOST):  # a lost connection has let go of the lock by itself
                    await connection.execute("select pg_advisory_unlock($1)", RELAY_LOCK)

    async def _stand_by(self, connection: asyncpg.pool.PoolConnectionProxy[Any]) -> None:
        """Waits for a turn. Ending a session is safe: without it, its relay can change nothing."""
        ended = await connection.fetch(
            _END_STUCK_LEADER, RELAY_LOCK, _STUCK_SECONDS, _STUCK_STATEMENT_SECONDS
        )
        if ended:
            log.warning("the leading relay does not move; taking over")
            return
        await asyncio.sleep(_STANDBY_SECONDS)

    async def _relay_all(self, connection: asyncpg.pool.PoolConnectionProxy[Any]) -> None:
        progress = _Progress(await connection.fetchval("select published from relay_cursor"))
        while True:
            self._woken.clear()
            if not await self._relay_once(connection, progress):
                # Not wait_for: it loses a cancellation that comes together with the wake-up.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._woken.wait()

    async def _relay_once(
        self, connection: asyncpg.pool.PoolConnectionProxy[Any], progress: _Progress
    ) -> bool:
        """Whether there is more to do. What is committed meanwhile wakes us."""
        moved = await connection.fetch(_MOVE, _BATCH)
        if not self._bus.is_connected:
            # History goes on without the bus: clients read it, and the bus hears it later.
            progress.behind |= bool(moved)
            return len(moved) == _BATCH
        waiting = sorted(moved, key=_position)
        if progress.behind:
            waiting = await connection.fetch(_AFTER, progress.published, _BATCH)
        if not waiting:
            progress.behind = False
            metrics.outbox_oldest_seconds.set(0)
            return False
        progress.behind = True
        try:
            await self._publish(waiting)
        except Unavailable:
            # A bus that came back without its disk has no stream any more.
            await self._bus.ensure_events_stream(subject_roots())
            raise
        progress.published = _position(waiting[-1])
        await connection.execute("update relay_cursor set published = $1", progress.published)
        metrics.events_relayed.inc(len(waiting))
        metrics.outbox_oldest_seconds.set(max(0.0, time.time() - waiting[0]["at"].timestamp()))
        progress.behind = len(waiting) == _BATCH
        return progress.behind or len(moved) == _BATCH

    async def _publish(self, rows: list[asyncpg.Record]) -> None:
        messages = [_message(row) for row in rows]
        if await self._publish_together(messages):
            return
        # All in flight at once: the bus keeps the order in which they are sent, and one sync to
        # disk serves many. All are waited for: a straggler must not mix with the next attempt.
        outcomes = await asyncio.gather(
            *(
                self._bus.publish_durable(
                    each.subject, each.data, dedupe_id=each.dedupe_id, timeout=_ACK_SECONDS
                )
                for each in messages
            ),
            return_exceptions=True,
        )
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, MessageTooLarge):
                # Waiting would hold up every tenant for ever. Clients find it in history.
                log.error("an event is too large for the bus", type=row["type"], id=str(row["id"]))
            elif isinstance(outcome, BaseException):
                raise outcome

    async def _publish_together(self, messages: list[Durable]) -> bool:
        """The way for many; the other one is for few, what was published before, or is too large."""
        if len(messages) < _TOGETHER:
            return False
        with suppress(MessageTooLarge):
            return await self._bus.publish_together(
                messages, batch_id=uuid7().hex, timeout=_ACK_SECONDS
            )
        return False


def _position(row: asyncpg.Record) -> int:
    position: int = row["position"]
    return position


def _message(row: asyncpg.Record) -> Durable:
    tenant_id, seq = row["tenant_id"], row["seq"]
    data = encode_envelope(
        seq=seq,
        event_id=row["id"],
        event_type=row["type"],
        tenant_id=tenant_id,
        at=row["at"],
        data=row["data"],
    )
    return Durable(subject(tenant_id, row["type"]), data, f"{tenant_id}:{seq}")


def relay_waker(bus: Bus) -> Callable[[], Awaitable[None]]:
    """Tells the relay, wherever it runs, that the outbox has something. Only a hint: it polls, too."""

    async def wake() -> None:
        if bus.is_connected:
            await bus.publish(WAKE_SUBJECT, b"")

    return wake
