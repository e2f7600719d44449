"""Keeps the teams of CLI providers: claims those that nobody keeps, and has a keeper for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from agentos.execution.crews.hints import CHANGED_SUBJECT
from agentos.execution.crews.keeping import claims
from agentos.execution.crews.keeping.keeper import Keeper
from agentos.execution.crews.keeping.life import PASSING
from agentos.execution.crews.keeping.pace import Pace
from agentos.execution.crews.parts import CrewParts
from agentos.execution.pulse.live import JOINED_SUBJECT
from agentos.kernel.bus import Message
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

_MOST_TEAMS = 200


class CrewEngine:
    """One for each worker process. `worker` says under which id the process is alive now."""

    def __init__(self, parts: CrewParts, worker: Callable[[], UUID], pace: Pace | None = None):
        self._parts = parts
        self._worker = worker
        self._pace = pace or Pace()
        self._keepers: dict[UUID, tuple[Keeper, asyncio.Task[None]]] = {}
        # Whether a keeper has ended in an error: its team is still ours, by the database.
        self._fallen = False
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Works until cancelled; then stops its teams, and lets others keep them."""
        bus = self._parts.bus
        subscriptions = [
            await bus.subscribe(CHANGED_SUBJECT, self._changed),
            await bus.subscribe(JOINED_SUBJECT, self._joined),
        ]
        try:
            while True:
                self._woken.clear()
                try:
                    await self._round()
                except PASSING as error:
                    log.warning("teams cannot be looked after right now", error=repr(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.poll):
                        await self._woken.wait()
        finally:
            await self._leave()
            await self._parts.runtimes.close()
            for subscription in subscriptions:
                with suppress(AgentOSError):
                    await subscription.unsubscribe()

    async def _changed(self, message: Message) -> None:
        with suppress(ValueError):
            team_id = UUID(bytes=message.data)
            if (kept := self._keepers.get(team_id)) is not None:
                kept[0].look()
            else:
                self._woken.set()

    async def _joined(self, message: Message) -> None:
        """Also told of sessions, and of teams that others keep."""
        with suppress(ValueError):
            if (kept := self._keepers.get(UUID(bytes=message.data))) is not None:
                kept[0].joined()

    async def _round(self) -> None:
        owner = self._worker()
        for keeper, _ in self._keepers.values():
            if keeper.claim.owner != owner:
                # The worker was cut off for so long that it has taken itself for dead.
                keeper.lose()
        await self._look_at_ours(owner)
        room = _MOST_TEAMS - len(self._keepers)
        if room > 0:
            for claim in await claims.claim(self._parts.platform_db, owner, room):
                self._keep(Keeper(self._parts, claim, self._pace))

    async def _look_at_ours(self, owner: UUID) -> None:
        """Tells keepers what has changed, and lets go of teams whose keeper has ended in an error."""
        if not self._keepers and not self._fallen:
            return
        ours = await claims.glance(self._parts.platform_db, owner)
        for team_id, (keeper, _) in self._keepers.items():
            now = ours.pop(team_id, None)
            if now is None or now.fence != keeper.claim.fence:
                keeper.lose()
            elif keeper.glance != now:
                keeper.glance = now
                keeper.look()
        if ours:
            left = [(team_id, now.fence) for team_id, now in ours.items()]
            await claims.disown(self._parts.platform_db, owner, left)
        self._fallen = False

    def _keep(self, keeper: Keeper) -> None:
        team_id = keeper.claim.team_id
        before = self._keepers.get(team_id)

        async def run() -> None:
            if before is not None:
                # Its place must be gone before another one is started.
                await asyncio.wait({before[1]})
            await keeper.run()

        task = asyncio.create_task(run())
        self._keepers[team_id] = (keeper, task)
        task.add_done_callback(lambda _: self._ended(team_id, task))

    def _ended(self, team_id: UUID, task: asyncio.Task[None]) -> None:
        kept = self._keepers.get(team_id)
        if kept is not None and kept[1] is task:
            del self._keepers[team_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a keeper ended in an error", team=str(team_id), exc_info=error)
            self._fallen = True

    async def _leave(self) -> None:
        kept = list(self._keepers.values())
        for keeper, _ in kept:
            keeper.leave()
        tasks = [task for _, task in kept]
        if tasks:
            await asyncio.wait(tasks, timeout=self._parts.settings.drain_seconds)
        while pending := [task for task in tasks if not task.done()]:
            # More than once: clients may swallow a cancellation while they flush.
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=5)
