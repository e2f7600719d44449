"""One life of a team: its place runs and its sidecar talks, until it ends or people want it to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import asyncpg
import msgspec

from agentos.contracts.crew import (
    BadFrame,
    Beat,
    Crashed,
    FromAgent,
    Joiner,
    Log,
    Reconfigure,
    Shutdown,
    from_agent_subject,
)
from agentos.execution.crews.hints import Handed, decode_handed, handed_subject
from agentos.execution.crews.keeping.claims import Lost, Wanted
from agentos.execution.crews.keeping.homes import Home
from agentos.execution.crews.keeping.pace import Pace
from agentos.execution.crews.keeping.printed import Printed
from agentos.execution.crews.keeping.standing import Standing
from agentos.execution.crews.keeping.talking import Talk
from agentos.execution.crews.keeping.watch import Watch
from agentos.execution.crews.keeping.words import reason_of
from agentos.integrations.runtimes.base import Ended
from agentos.kernel.bus import Message
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# What the next try may find gone: a database or a bus that is away.
PASSING = (Unavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
# Frames that wait to be heard. What is lost beyond is said again.
_MOST_UNHEARD = 200
_TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class End:
    """How a life ended. `failed`: trying again is of no use before people have changed something."""

    how: Literal["stop", "restart", "moved", "crashed", "failed"]
    reason: str = ""
    # Each crash of it is noted already.
    counted: bool = False


@dataclass
class Orders:
    """What a keeper is told from outside, while it waits for other things."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    # The team or one of its messages was changed.
    changed: bool = False
    leaving: bool = False
    lost: bool = False

    def look(self) -> None:
        self.changed = True
        self.woken.set()

    def check(self) -> None:
        """Raises Lost."""
        if self.lost:
            raise Lost

    async def wait(self, seconds: float) -> None:
        """Until somebody wakes us, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        self.woken.clear()


class Life:
    """Of one place, from its start to its end. What it hears from an earlier one does not count."""

    def __init__(
        self, orders: Orders, standing: Standing, home: Home, talk: Talk, want: Wanted, pace: Pace
    ):
        self._orders = orders
        self._standing = standing
        self._home = home
        self._talk = talk
        self._started = want
        self._pace = pace
        self._watch = Watch(pace)
        self._printed = Printed(home.parts, home.claim)
        self._unheard: deque[FromAgent] = deque()
        self._handed: Handed | None = None
        self._crashes: set[str] = set()

    async def run(self) -> End:
        """Serves the place until it ends, or has to; then it may still run. Raises Lost."""
        ended: asyncio.Task[Ended] = asyncio.create_task(self._home.running.ended())
        ended.add_done_callback(lambda _: self._orders.woken.set())
        try:
            async with self._listening():
                return await self._serve(ended)
        finally:
            ended.cancel()
            await self._talk.close()
            await self._printed.close()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        claim, bus = self._home.claim, self._home.parts.bus
        joiner = Joiner()

        async def hear(message: Message) -> None:
            try:
                frame = joiner.from_agent(message.data)
            except BadFrame as error:
                log.warning("not a frame", team=str(claim.team_id), error=str(error)[:200])
                return
            if frame is not None and len(self._unheard) < _MOST_UNHEARD:
                self._unheard.append(frame)
                self._orders.woken.set()

        async def take(message: Message) -> None:
            try:
                self._handed = decode_handed(message.data)
            except msgspec.DecodeError:
                # Of a gateway that is older or newer; the message is found by looking.
                self._orders.look()
            self._orders.woken.set()

        subject = from_agent_subject(claim.tenant_id, claim.team_id)
        subscriptions = [
            await bus.subscribe(subject, hear),
            await bus.subscribe(handed_subject(claim.team_id), take),
        ]
        try:
            yield
        finally:
            for subscription in subscriptions:
                with suppress(AgentOSError):
                    await subscription.unsubscribe()

    async def _serve(self, ended: asyncio.Task[Ended]) -> End:
        while True:
            frame = await self._next()
            if ended.done():
                self._printed.add(ended.result().output.splitlines())
                return End("crashed", reason_of(f"Its process ended: {ended.result().reason}"))
            try:
                end = await self._turn(frame)
            except PASSING as error:
                # The agent may go on meanwhile: what it said, it says again.
                log.warning("a team has to wait", error=repr(error))
                self._watch.unknown()
                await asyncio.sleep(self._pace.again)
                self._orders.look()
                continue
            if end is None:
                continue
            if end.how in ("stop", "restart", "moved"):
                await self._shut_down(ended)
            return end

    async def _next(self) -> FromAgent | None:
        """What was said next; None if nothing was, for a moment, or there is something else to do."""
        if not self._unheard:
            await self._orders.wait(_TICK_SECONDS)
        return self._unheard.popleft() if self._unheard else None

    async def _turn(self, frame: FromAgent | None) -> End | None:
        """What is to be done about one thing that was heard; how the life ends, if it does."""
        orders, talk, watch = self._orders, self._talk, self._watch
        orders.check()
        if orders.leaving:
            return End("moved")
        if (handed := self._handed) is not None:
            self._handed = None
            await self._take(handed)
        if orders.changed or (talk.busy and watch.looks()):
            orders.changed = False
            if (end := await self._look()) is not None:
                return end
        if frame is not None and (end := await self._heard(frame)) is not None:
            return end
        await talk.go_on()
        self._keep_files()
        return await self._judge()

    async def _take(self, handed: Handed) -> None:
        """Has a message answered that is handed over; at once, if all else is as its sender saw it."""
        orders, home = self._orders, self._home
        seen = (handed.fence, handed.generation, handed.version)
        same = seen == (home.claim.fence, self._started.generation, home.version)
        if not same:
            orders.changed = True
        if not orders.changed:
            self._talk.answer_seconds = handed.answer_seconds
        await self._talk.take(handed, now=not orders.changed)

    async def _look(self) -> End | None:
        want, home = await self._standing.wanted(), self._home
        if not want.deployed:
            return End("stop")
        if want.generation != self._started.generation:
            return End("restart")
        self._talk.answer_seconds = want.answer_seconds
        if want.version != home.version:
            if not await home.refresh(want):
                return End("restart")
            await self._talk.send(Reconfigure(version=home.version))
        await self._talk.look()
        return None

    async def _heard(self, frame: FromAgent) -> End | None:
        self._watch.heard()
        match frame:
            case Beat():
                return await self._beat(frame)
            case Crashed():
                return await self._crashed(frame)
            case Log():
                self._printed.add(frame.lines)
            case _:
                await self._talk.heard(frame)
        return None

    async def _beat(self, beat: Beat) -> End | None:
        self._talk.heard_beat(beat)
        if beat.state == "failed":
            return End("failed", reason_of(beat.reason) or "Its agent cannot be started.")
        if self._watch.news(beat):
            await self._standing.beat(beat, self._home.version)
            self._watch.known(beat)
        if beat.version < self._home.version:
            # It may not have heard of it. One that is about to change does not mind.
            await self._talk.send(Reconfigure(version=self._home.version))
        return None

    async def _crashed(self, crash: Crashed) -> End | None:
        """The sidecar starts its agent again by itself, until that has happened too often."""
        if crash.crash_id in self._crashes:
            return None
        reason = reason_of(crash.reason)
        step, _ = await self._standing.crashed(reason, counted=False)
        self._crashes.add(crash.crash_id)
        self._watch.unknown()
        return None if step == "again" else End("crashed", reason, counted=True)

    async def _judge(self) -> End | None:
        """What the silence of the place means."""
        watch = self._watch
        if not self._home.parts.bus.is_connected:
            watch.deaf()
            return None
        match watch.silence():
            case "dead":
                return End("crashed", "Its sidecar was silent for too long.")
            case "unborn":
                return End("crashed", "Its sidecar was not heard of after the start.")
            case "long" if not watch.degraded:
                told = "Its sidecar has not been heard of for a while."
                await self._standing.status("degraded", told)
                watch.degraded = True
            case _:
                pass
        if watch.sound() and not watch.cleared:
            await self._standing.sound()
            watch.cleared = True
        return None

    def _keep_files(self) -> None:
        """Keeps what the last answers left, once the team rests."""
        if self._talk.finished():
            self._watch.answered()
        if not self._talk.busy and self._watch.keeps_files():
            self._home.keep_files_soon()

    async def _shut_down(self, ended: asyncio.Task[Ended]) -> None:
        """Lets the agent finish its answer, within reason. Raises Lost."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._pace.grace
        await self._talk.send(Shutdown(seconds=self._pace.grace))
        while not ended.done() and clock() < until + self._pace.farewell:
            frame = await self._next()
            try:
                if frame is None:
                    await self._talk.send(Shutdown(seconds=max(0.0, until - clock())))
                elif isinstance(frame, Log):
                    self._printed.add(frame.lines)
                elif not isinstance(frame, Beat | Crashed):
                    await self._talk.heard(frame)
            except PASSING as error:
                # The answer is on the disk of the team: its next start sends it again.
                log.warning("an answer has to wait", error=repr(error))
