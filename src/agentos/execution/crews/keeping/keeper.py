"""A keeper: keeps one team of a CLI provider as people want it, from its claim to its release.

A life is one start of the team's place, from `starting` to its end. When one ends by itself, the
keeper begins another; when too many do, it repairs what it can, and then asks for people.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agentos.contracts.crew import Repeat
from agentos.execution.crews.keeping import claims
from agentos.execution.crews.keeping.claims import Claim, Glance, Lost, Wanted
from agentos.execution.crews.keeping.homes import at_home
from agentos.execution.crews.keeping.life import PASSING, End, Life, Orders
from agentos.execution.crews.keeping.mail import Progress
from agentos.execution.crews.keeping.pace import Pace
from agentos.execution.crews.keeping.repeating import Repeating
from agentos.execution.crews.keeping.standing import Standing
from agentos.execution.crews.keeping.talking import Talk
from agentos.execution.crews.keeping.words import reason_of
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.runtimes.base import RuntimeMissing
from agentos.kernel.errors import AgentOSError, Kind, Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)


class Keeper:
    """Keeps one team. `run` ends when the team is stopped or lost, or the keeper was told to leave."""

    def __init__(self, parts: CrewParts, claim: Claim, pace: Pace):
        self.claim = claim
        # What the engine saw last; it tells if that changes.
        self.glance: Glance | None = None
        self._parts = parts
        self._pace = pace
        self._standing = Standing(parts, claim)
        self._orders = Orders()
        self._progress = Progress()
        # Of the life at hand.
        self._talk: Talk | None = None
        self._repeating = Repeating(self._repeat)
        # The next life begins with nothing but the files.
        self._anew = False

    def look(self) -> None:
        """To be called when the team or one of its messages has changed."""
        self._orders.look()

    def joined(self) -> None:
        """To be called when somebody has begun to watch the chat. Waits for nothing else."""
        self._repeating.ask()

    def leave(self) -> None:
        """Ends `run` soon: the team is stopped, and another worker may keep it."""
        self._orders.leaving = True
        self._orders.look()

    def lose(self) -> None:
        """Ends `run` soon: the team is another worker's."""
        self._orders.lost = True
        self._orders.look()

    async def run(self) -> None:
        try:
            while not await self._done():
                await asyncio.sleep(self._pace.again)
                if self._orders.leaving:
                    return
        finally:
            await self._repeating.close()

    async def _done(self) -> bool:
        """Keeps the team; False if that cannot be done right now."""
        try:
            await self._keep()
        except Lost:
            log.info("the team is not ours any more", team=str(self.claim.team_id))
            await self._clear_up()
        except PASSING as error:
            # Its row still says that it is ours: nobody else would take it.
            log.warning("a team cannot be kept right now", error=repr(error))
            return False
        return True

    async def _keep(self) -> None:
        while True:
            self._orders.check()
            self._orders.changed = False
            want = await self._standing.wanted()
            if not want.deployed:
                if await self._standing.stopped():
                    return
            elif self._orders.leaving:
                await self._standing.given_over()
                return
            else:
                await self._after(await self._live(want), want)

    async def _live(self, want: Wanted) -> End:
        await self._standing.status("starting", "It is being started.")
        anew, self._anew = self._anew, False
        try:
            async with at_home(self._parts, self.claim, want, anew=anew) as home:
                talk = self._talk = Talk(
                    self._parts, self.claim, home.workspace, want.answer_seconds, self._progress
                )
                life = Life(self._orders, self._standing, home, talk, want, self._pace)
                return await life.run()
        except Unavailable:
            raise
        except AgentOSError as error:
            told = reason_of(f"{error.message} {error.advice or ''}".strip())
            if error.kind is Kind.TRANSIENT:
                return End("crashed", told)
            # Nothing has run, and nothing will: a runtime, a secret, a file is missing.
            return End("failed", told)
        finally:
            self._talk = None

    async def _repeat(self) -> None:
        """Has the agent show what it has said so far; before it has a message, that is nothing."""
        if self._talk is not None and self._talk.busy:
            await self._talk.send(Repeat())

    async def _after(self, end: End, want: Wanted) -> None:
        """What comes between two lives."""
        if end.how == "failed":
            await self._fail(end.reason, want)
        elif end.how == "crashed":
            await self._after_crash(end, want)

    async def _after_crash(self, end: End, want: Wanted) -> None:
        """Tries again, repairs, or gives up until people have changed something."""
        log.warning("a team's place ended", team=str(self.claim.team_id), reason=end.reason)
        step, crashes = await self._standing.crashed(end.reason, counted=end.counted)
        if step == "give_up":
            await self._fail(f"It could not be repaired: {end.reason}", want)
        elif step == "again":
            await self._pause(self._pace.again * crashes / 2)
        else:
            await self._pause(self._pace.back_off * (2 if step == "renew" else 1))
            await self._standing.repairing(step, end.reason)
            self._anew = step == "renew"

    async def _fail(self, told: str, before: Wanted) -> None:
        """Waits until people have changed something, or a runtime that was missing is there."""
        await self._standing.failed(told)
        missing = await self._runtime_missing(before)
        since = asyncio.get_running_loop().time()
        while not self._orders.leaving:
            await self._pause(self._pace.missing)
            self._orders.check()
            want = await self._standing.wanted()
            if (want.deployed, want.generation, want.version) != (
                before.deployed,
                before.generation,
                before.version,
            ):
                return
            now = asyncio.get_running_loop().time()
            if missing and now - since >= self._pace.missing:
                since = now
                if not await self._runtime_missing(before):
                    return

    async def _runtime_missing(self, want: Wanted) -> bool:
        try:
            runtime = await self._parts.runtimes.get(
                want.runtime, lambda: claims.kept_elsewhere(self._parts.platform_db)
            )
            await runtime.check()
        except RuntimeMissing:
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        """Waits, unless somebody changes the team."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not self._orders.changed and (left := until - clock()) > 0:
            await self._orders.wait(left)
        self._orders.changed = False

    async def _clear_up(self) -> None:
        """The files of a team that was deleted go with it."""
        with suppress(*PASSING):
            if await claims.is_deleted(self._parts.platform_db, self.claim):
                await self._parts.workspaces.discard(self.claim.tenant_id, self.claim.team_id)
