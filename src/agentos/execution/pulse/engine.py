"""The engine: takes sessions from the queue and works on them, as many at once as it has room for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from agentos.execution.pulse import agent, dispatch
from agentos.execution.pulse.dispatch import Claimed
from agentos.execution.pulse.joins import Joins
from agentos.execution.pulse.live import JOINED_SUBJECT, TOLD_SUBJECT, WATCHED_SUBJECT
from agentos.execution.pulse.parts import SIGNAL_SUBJECT, WAKE_SUBJECT, PulseParts
from agentos.execution.pulse.run import Orders, Run
from agentos.kernel.bus import Message
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import uuid7
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# What the rest of a stopping worker may take longer than its sessions.
_LAST_SECONDS = 10.0

# A hint that got lost delays a session by this much at most; dead workers are looked for as often.
_TICK_SECONDS = 0.5
# With every other tick we say that we live, which is a write.
_BEAT_SECONDS = 0.9
# Whether a budget has room again is looked up this often, as long as somebody waits for one.
_BUDGET_SECONDS = 5.0
# What the next round may find gone: a database that is away or busy with a deadlock of its own.
_PASSING = (AgentOSError, asyncpg.PostgresError)


@dataclass
class _Working:
    run: Run
    task: asyncio.Task[None]


class Engine:
    """One for each worker process."""

    def __init__(
        self,
        parts: PulseParts,
        *,
        capacity: int,
        drain_seconds: float,
        last: asyncio.Event | None = None,
    ):
        """`last` is set when nothing else of this worker needs it to be alive any more."""
        self._parts = parts
        self._last = last
        self._capacity = capacity
        self._drain_seconds = drain_seconds
        self._worker = dispatch.identify(uuid7())
        self._working: dict[UUID, _Working] = {}
        self._joins = Joins(parts, lambda: [w.run.session for w in self._working.values()])
        # There may be something in the queue.
        self._woken = asyncio.Event()
        # A worker may be dead, or a session's time to go on have come.
        self._called = asyncio.Event()
        self._draining = False
        self._last_beat = 0.0
        self._budget_at = 0.0

    @property
    def worker_id(self) -> UUID:
        """Under which this process is alive now: another one after it was taken for dead."""
        return self._worker.id

    async def run(self) -> None:
        """Works until cancelled; then finishes the steps it is at, and gives back the rest."""
        async with self._listening():
            await self._join()
            loops = [
                asyncio.create_task(loop)
                for loop in (self._tick_loop(), self._claim_loop(), self._watch_loop())
            ]
            try:
                await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
                for loop in loops:
                    if loop.done():
                        loop.result()
            finally:
                await self._leave(loops)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        bus = self._parts.bus
        subscriptions = [
            await bus.subscribe(WAKE_SUBJECT, self._wake),
            await bus.subscribe(SIGNAL_SUBJECT, self._signal),
            await bus.subscribe(WATCHED_SUBJECT, self._watched),
            await bus.subscribe(JOINED_SUBJECT, self._joined),
            await bus.subscribe(TOLD_SUBJECT, self._told),
        ]
        try:
            yield
        finally:
            for subscription in subscriptions:
                with suppress(AgentOSError):
                    await subscription.unsubscribe()
            await self._joins.close()

    async def _wake(self, _: Message) -> None:
        self._woken.set()

    async def _signal(self, message: Message) -> None:
        """Somebody has changed a session: if it is one of ours, look what they want."""
        with suppress(ValueError):
            if UUID(bytes=message.data) in self._working:
                await self._look_at_ours()

    async def _watched(self, message: Message) -> None:
        with suppress(ValueError):
            self._parts.audience.seen(UUID(bytes=message.data))

    async def _joined(self, message: Message) -> None:
        with suppress(ValueError):
            self._joins.joined(UUID(bytes=message.data))

    async def _told(self, message: Message) -> None:
        with suppress(ValueError):
            await self._joins.told(UUID(bytes=message.data))

    async def _join(self) -> None:
        """Becomes a worker under a new name: what the old one owned is not ours any more."""
        while True:
            self._worker = dispatch.identify(uuid7())
            try:
                await dispatch.register(self._parts.platform_db, self._worker, self._capacity)
            except _PASSING as error:
                log.warning("the worker cannot register yet", error=repr(error))
                await asyncio.sleep(_TICK_SECONDS)
            else:
                self._last_beat = asyncio.get_running_loop().time()
                return

    async def _claim_loop(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            room = self._capacity - len(self._working)
            if room > 0 and not self._draining:
                try:
                    await self._claim(room)
                except _PASSING as error:
                    log.warning("nothing can be claimed right now", error=repr(error))

    async def _claim(self, room: int) -> None:
        claimed = await dispatch.claim(
            self._parts.platform_db, self._worker, room, self._parts.clock.now()
        )
        for each in claimed:
            self._start(each)

    def _start(self, claimed: Claimed) -> None:
        if not claimed.has_budget:
            # Its first call need not ask.
            self._parts.router.escrow.no_budget(claimed.session.tenant_id, claimed.session.id)
        run = Run.of(self._parts, claimed, Orders())
        task = asyncio.create_task(agent.work(run, claimed.seconds_left))
        self._working[claimed.session.id] = _Working(run, task)
        task.add_done_callback(lambda _: self._ended(claimed.session.id, task))

    def _ended(self, session_id: UUID, task: asyncio.Task[None]) -> None:
        working = self._working.get(session_id)
        if working is not None and working.task is task:
            del self._working[session_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a run ended in an error", session=str(session_id), error=repr(error))
        self._woken.set()

    async def _tick_loop(self) -> None:
        """Says that we live, and stops everything when we cannot say it for too long."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async with asyncio.timeout(dispatch.SELF_FENCE_SECONDS):
                    alive = await self._tick(clock())
            except (*_PASSING, TimeoutError) as error:
                alive = clock() - self._last_beat < dispatch.SELF_FENCE_SECONDS
                log.warning("the worker cannot say that it lives", error=repr(error))
            if not alive:
                log.warning("this worker was taken for dead; it starts anew")
                await self._drop_everything()
                await self._join()
            await asyncio.sleep(_TICK_SECONDS)

    async def _tick(self, now: float) -> bool:
        """Calls those who have something to do. False: we were taken for dead."""
        parts, says = self._parts, now - self._last_beat >= _BEAT_SECONDS
        glance = await dispatch.beat(
            parts.platform_db,
            self._worker,
            parts.clock.now(),
            says=says,
            draining=self._draining,
        )
        if glance.queued:
            self._woken.set()
        if glance.lost or glance.due or (glance.broke and now >= self._budget_at):
            self._called.set()
        if says and glance.alive:
            self._last_beat = now
            if self._working:
                await self._look_at_ours()
        return glance.alive

    async def _look_at_ours(self) -> None:
        """Stops the runs of sessions that were taken away, and tells the others what is asked."""
        before = dict(self._working)
        rows = {row.id: row for row in await dispatch.owned(self._parts.platform_db, self._worker)}
        for session_id, working in before.items():
            row = rows.get(session_id)
            if row is None or row.fence != working.run.session.fence:
                working.task.cancel()
            elif row.pause_requested:
                working.run.session.pause_requested = True

    async def _watch_loop(self) -> None:
        """Sees to dead workers, and to sessions whose time to go on has come."""
        parts, clock = self._parts, asyncio.get_running_loop().time
        while True:
            await self._called.wait()
            self._called.clear()
            now = parts.clock.now()
            try:
                woken = await dispatch.reap(parts.platform_db, self._worker, now)
                woken += await dispatch.wake_due(parts.platform_db, now)
                if clock() >= self._budget_at:
                    woken += await dispatch.wake_with_budget(parts.platform_db, now)
                    self._budget_at = clock() + _BUDGET_SECONDS
            except _PASSING as error:
                log.warning("the queue cannot be looked after right now", error=repr(error))
            else:
                if woken:
                    self._woken.set()
                    await parts.wake()

    async def _drop_everything(self) -> None:
        tasks = [working.task for working in self._working.values()]
        await _cancelled(tasks)

    async def _leave(self, loops: list[asyncio.Task[None]]) -> None:
        """Finishes the steps at hand, gives the sessions back, and says goodbye."""
        self._draining = True
        for working in self._working.values():
            working.run.orders.drain = True
        tasks = [working.task for working in self._working.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._drain_seconds)
        await self._drop_everything()
        if self._last is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain_seconds + _LAST_SECONDS):
                    await self._last.wait()
        await _cancelled(loops)
        with suppress(AgentOSError):
            await dispatch.unregister(self._parts.platform_db, self._worker)
            # What had to be cut off is taken up by others at once.
            await self._parts.wake()


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """More than once: clients may swallow a cancellation while they flush."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=1)
