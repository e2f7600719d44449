"""A keeper: keeps one team of a CLI provider as people want it, from its claim to its release.

A life is one start of the team's place, from `starting` to its end. When one ends by itself, the
keeper begins another; when too many do, it repairs what it can, and then asks for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import asyncpg

from agentos.contracts.crew import (
    BadFrame,
    Beat,
    Crashed,
    FromAgent,
    Joiner,
    Log,
    Reconfigure,
    Shutdown,
    Started,
    from_agent_subject,
)
from agentos.execution.crews.keeping import claims
from agentos.execution.crews.keeping.claims import LOOP_CRASHES, Claim, Lost, Wanted
from agentos.execution.crews.keeping.homes import Home, at_home
from agentos.execution.crews.keeping.talking import Talk
from agentos.execution.crews.parts import CrewParts
from agentos.execution.crews.schemas import TeamStatus
from agentos.integrations.runtimes.base import Ended, Running
from agentos.kernel.bus import Message
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# How often a keeper looks for what no hint has told it.
_LOOK_SECONDS = 5.0
_SILENT_SECONDS = 15.0
# A place that says nothing for so long is started again.
_GONE_SECONDS = 60.0
_READY_SECONDS = 120.0
_GRACE_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_REPAIRS = 2
_BACK_OFF_SECONDS = 5.0
# A team that has run for so long was repaired.
_SOUND_SECONDS = 300.0

# What the next try may find gone: a database or a bus that is away.
PASSING = (Unavailable, asyncpg.PostgresError, OSError)

End = Literal["stop", "restart", "moved", "crashed"]


@dataclass(frozen=True)
class _Changed:
    """Somebody has changed the team or one of its messages, or wants the keeper to leave."""


class Keeper:
    """Keeps one team. `run` ends when the team is stopped or lost, or the keeper was told to leave."""

    def __init__(self, parts: CrewParts, claim: Claim):
        self.claim = claim
        self._parts = parts
        self._inbox: asyncio.Queue[FromAgent | _Changed] = asyncio.Queue()
        self._crashes_seen: set[str] = set()
        self._leaving = False

    def look(self) -> None:
        """To be called when the team or one of its messages has changed."""
        self._inbox.put_nowait(_Changed())

    def leave(self) -> None:
        """Ends `run` soon: the team is stopped, and another worker may keep it."""
        self._leaving = True
        self.look()

    async def run(self) -> None:
        while True:
            try:
                await self._keep()
                async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
                    await claims.release(tx, self.claim)
            except Lost:
                log.info("another worker keeps the team", team=str(self.claim.team_id))
            except PASSING as error:
                # Its row still says that it is ours: nobody else would take it.
                log.warning("a team cannot be kept right now", error=repr(error))
                await asyncio.sleep(_AGAIN_SECONDS)
                if not self._leaving:
                    continue
            return

    async def _keep(self) -> None:
        while True:
            if self._leaving:
                await self._status("starting", "Its worker stops; another one takes it over.")
                return
            want = await self._wanted()
            if not want.deployed:
                await self._status("stopped", None, repairs=0, crashes=[])
                return
            try:
                end, reason = await self._live(want)
            except Unavailable:
                raise
            except AgentOSError as error:
                # Nothing has run: what is missing has to be mended by people, or comes back.
                end, reason = "crashed", f"{error.message} {error.advice or ''}".strip()
            if end == "crashed":
                await self._after_crash(want, reason)

    async def _live(self, want: Wanted) -> tuple[End, str]:
        await self._status("starting", "It is being started.")
        async with at_home(self._parts, self.claim, want) as home:
            talk = Talk(self._parts, self.claim, home.workspace, want.answer_seconds)
            async with self._listening():
                try:
                    return await self._serve(home, talk, want)
                finally:
                    await talk.close()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        joiner = Joiner()

        async def hear(message: Message) -> None:
            try:
                frame = joiner.from_agent(message.data)
            except BadFrame as error:
                log.warning("not a frame", team=str(self.claim.team_id), error=str(error)[:200])
                return
            if frame is not None:
                self._inbox.put_nowait(frame)

        subject = from_agent_subject(self.claim.tenant_id, self.claim.team_id)
        subscription = await self._parts.bus.subscribe(subject, hear)
        try:
            yield
        finally:
            with suppress(AgentOSError):
                await subscription.unsubscribe()

    async def _serve(self, home: Home, talk: Talk, want: Wanted) -> tuple[End, str]:
        """Works until the place ends, or people want something else."""
        ended: asyncio.Task[Ended] = asyncio.create_task(home.running.ended())
        watch = _Watch()
        try:
            while True:
                item = await self._next(ended)
                if ended.done():
                    return "crashed", f"Its process ended: {ended.result().reason}"
                try:
                    end, reason = await self._turn(home, talk, want, watch, item)
                except PASSING as error:
                    # The agent may go on meanwhile: what it said, it says again.
                    log.warning("a team has to wait", error=repr(error))
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if end in ("stop", "restart", "moved"):
                    await self._shut_down(home.running, talk, ended)
                if end is not None:
                    return end, reason
        finally:
            ended.cancel()

    async def _turn(
        self, home: Home, talk: Talk, want: Wanted, watch: _Watch, item: FromAgent | _Changed | None
    ) -> tuple[End | None, str]:
        """What is to be done about one thing that was heard; how the life ends, if it does."""
        if self._leaving:
            return "moved", ""
        if isinstance(item, _Changed) or watch.looks():
            changed = await self._look(home, talk, want)
            if changed is not None:
                return changed, ""
        if item is not None and not isinstance(item, _Changed):
            reason = await self._heard(item, talk, watch)
            if reason is not None:
                return "crashed", reason
        await talk.go_on()
        reason = await self._judge(watch)
        return (None, "") if reason is None else ("crashed", reason)

    async def _next(self, ended: asyncio.Task[Ended]) -> FromAgent | _Changed | None:
        """What comes next; None if nothing does within a second, or the place has ended."""
        get = asyncio.create_task(self._inbox.get())
        try:
            await asyncio.wait({get, ended}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            return get.result() if get.done() else None
        finally:
            get.cancel()

    async def _look(self, home: Home, talk: Talk, started: Wanted) -> End | None:
        want = await self._wanted()
        if not want.deployed:
            return "stop"
        if want.generation != started.generation:
            return "restart"
        talk.answer_seconds = want.answer_seconds
        if want.version != home.version:
            if not await home.refresh(want):
                return "restart"
            await talk.send(Reconfigure(version=want.version))
        await talk.look()
        return None

    async def _heard(self, frame: FromAgent, talk: Talk, watch: _Watch) -> str | None:
        """Why the place has to be started again; None: it has not."""
        match frame:
            case Beat():
                await talk.heard_beat(frame)
                return await self._beat(frame, watch)
            case Crashed():
                return await self._crashed(frame)
            case Started():
                return None
            case Log():
                log.info("agent", team=str(self.claim.team_id), lines=list(frame.lines[-20:]))
            case _:
                await talk.heard(frame)
        return None

    async def _beat(self, beat: Beat, watch: _Watch) -> str | None:
        now = self._parts.clock.now()
        news = watch.heard(beat)
        if beat.state == "failed":
            return beat.reason or "Its agent cannot be started."
        if not news:
            return None
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            await claims.applied(tx, self.claim, beat.version, beat.conversation)
            servers = {each.name: {"status": each.status, "error": each.error} for each in beat.mcp}
            await claims.set_mcp(tx, self._parts.outbox, self.claim, servers, now)
            if beat.state in ("idle", "busy"):
                await claims.set_status(
                    tx, self._parts.outbox, self.claim, "running", beat.reason or None, now
                )
        return None

    async def _crashed(self, crash: Crashed) -> str | None:
        """The sidecar starts its agent again by itself, until that has happened too often."""
        if crash.crash_id in self._crashes_seen:
            return None
        self._crashes_seen.add(crash.crash_id)
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            count = await claims.count_crash(tx, self.claim, self._parts.clock.now())
        if count >= LOOP_CRASHES:
            return crash.reason
        await self._status("degraded", f"Its agent crashed and is started again: {crash.reason}")
        return None

    async def _judge(self, watch: _Watch) -> str | None:
        """Why a silent place has to be started again; None: it has not."""
        silent = watch.silent_seconds()
        if watch.beaten and silent > _GONE_SECONDS:
            return "Its sidecar was silent for a minute."
        if not watch.beaten and silent > _READY_SECONDS:
            return "Its agent was not ready after two minutes."
        if watch.beaten and silent > _SILENT_SECONDS and not watch.degraded:
            watch.degraded = True
            await self._status("degraded", "Its sidecar has not been heard of for a while.")
        if watch.sound() and not watch.cleared:
            watch.cleared = True
            async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
                await tx.execute(
                    """update teams set repairs = 0, crashes = '{}'
                       where tenant_id = $1 and id = $2 and fence = $3""",
                    self.claim.tenant_id,
                    self.claim.team_id,
                    self.claim.fence,
                )
        return None

    async def _shut_down(self, running: Running, talk: Talk, ended: asyncio.Task[Ended]) -> None:
        """Lets the agent finish its answer, within reason."""
        await talk.send(Shutdown(seconds=_GRACE_SECONDS))
        deadline = asyncio.get_running_loop().time() + _GRACE_SECONDS + 2
        while not ended.done() and asyncio.get_running_loop().time() < deadline:
            item = await self._next(ended)
            if item is not None and not isinstance(item, _Changed | Beat | Crashed | Started | Log):
                await talk.heard(item)
        await running.stop(1.0)

    async def _after_crash(self, want: Wanted, reason: str) -> None:
        """Tries again, repairs, or gives up until people have changed something."""
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            count = await claims.count_crash(tx, self.claim, self._parts.clock.now())
        log.warning("a team's place ended", team=str(self.claim.team_id), reason=reason[:500])
        if count < LOOP_CRASHES:
            await self._status("degraded", f"It is started again. {reason}"[:2000])
            await self._pause(min(count, 4) * 0.5)
            return
        await self._status("crash_loop", f"It has crashed {count} times in five minutes. {reason}")
        repairs = want.repairs + 1
        if repairs > _REPAIRS:
            await self._give_up(reason)
            return
        await self._pause(_BACK_OFF_SECONDS * repairs)
        what = "It is started anew." if repairs < _REPAIRS else "Its agent begins anew, files kept."
        await self._status("repairing", f"{what} {reason}"[:2000], repairs=repairs, crashes=[])
        if repairs == _REPAIRS:
            await self._forget_conversation()

    async def _give_up(self, reason: str) -> None:
        told = f"It could not be repaired: {reason}"[:2000]
        now = self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            await claims.set_status(
                tx, self._parts.outbox, self.claim, "error", told, now, repairs=0, crashes=[]
            )
            await claims.alert(tx, self._parts.outbox, self.claim, told, now)
        before = await self._wanted()
        while True:
            await self._pause(_LOOK_SECONDS)
            want = await self._wanted()
            if (want.deployed, want.generation, want.version) != (
                before.deployed,
                before.generation,
                before.version,
            ):
                return

    async def _forget_conversation(self) -> None:
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            await claims.hold(tx, self.claim)
            await tx.execute(
                "update teams set conversation = null where tenant_id = $1 and id = $2",
                self.claim.tenant_id,
                self.claim.team_id,
            )

    async def _pause(self, seconds: float) -> None:
        """Waits, unless somebody changes the team."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not isinstance(await self._inbox.get(), _Changed):
                    pass

    async def _wanted(self) -> Wanted:
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            return await claims.wanted(tx, self.claim)

    async def _status(self, status: TeamStatus, reason: str | None, **also: object) -> None:
        async with self._parts.db.transaction(tenant_id=self.claim.tenant_id) as tx:
            await claims.set_status(
                tx,
                self._parts.outbox,
                self.claim,
                status,
                reason,
                self._parts.clock.now(),
                **also,
            )


class _Watch:
    """When a place was heard of, and what it said last."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._started = self._heard_at = self._clock()
        self._looked_at = 0.0
        self._said: Beat | None = None
        self.beaten = False
        self.degraded = False
        self.cleared = False

    def heard(self, beat: Beat) -> bool:
        """Whether a beat says something new."""
        self._heard_at = self._clock()
        news = self.degraded or _news(beat) != (self._said and _news(self._said))
        self.beaten, self.degraded, self._said = True, False, beat
        return news

    def looks(self) -> bool:
        """Whether it is time to look into the database."""
        now = self._clock()
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        return True

    def silent_seconds(self) -> float:
        return self._clock() - self._heard_at

    def sound(self) -> bool:
        return self.beaten and self._clock() - self._started > _SOUND_SECONDS


def _news(beat: Beat) -> tuple[object, ...]:
    ready = beat.state in ("idle", "busy")
    return beat.boot, ready or beat.state, beat.version, beat.conversation, beat.mcp, beat.reason
