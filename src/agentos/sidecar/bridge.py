"""Between the keeper and the agent: takes messages, has them answered in order, gives answers back.

Frames may come twice or not at all, and either end may be killed at any time. What holds anyway:
a message is asked again only if its answer is not on disk, and an answer is sent until the keeper
says that it is in the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

from agentos.contracts.crew import (
    Accepted,
    Answer,
    AnswerStored,
    Beat,
    Crashed,
    Interrupt,
    PermissionAnswer,
    Reconfigure,
    Repeat,
    Shutdown,
    TeamSpec,
    ToAgent,
    UserMessage,
)
from agentos.sidecar.agent import Agent, Patience
from agentos.sidecar.answers import Answers
from agentos.sidecar.asking import Asking
from agentos.sidecar.people import People
from agentos.sidecar.places import BadFile
from agentos.sidecar.printed import Printed
from agentos.sidecar.providers.base import MakeProvider, Surroundings
from agentos.sidecar.tasks import end
from agentos.sidecar.voice import Voice
from agentos.sidecar.wire import Wire

_BEAT = 5.0
_RESEND = 2.0
# After the last answer, for the keeper to say that it has it.
_FAREWELL = 3.0

BeatState = Literal["starting", "idle", "busy", "stopping", "failed"]

_log = logging.getLogger(__name__)


class Bridge:
    """One team's sidecar, without the process around it."""

    def __init__(
        self,
        spec: TeamSpec,
        make: MakeProvider,
        surroundings: Surroundings,
        wire: Wire,
        *,
        state: Path,
        read_spec: Callable[[], TeamSpec],
        use_token: Callable[[str], None],
        patience: Patience | None = None,
    ) -> None:
        self._wire = wire
        self._workspace = surroundings.workspace
        self._read_spec = read_spec
        self._use_token = use_token
        self._patience = patience or Patience()
        self._answers = Answers(state)
        self._people = People(wire.tell)
        self._printed = Printed(wire.tell)
        self._agent = Agent(
            spec,
            make,
            replace(surroundings, printed=self._printed.add),
            self._answers,
            patience=self._patience,
            changed=self._beat,
            tell=self._tell_crash,
        )
        self._boot = uuid4().hex
        self._waiting: dict[UUID, UserMessage] = {}
        self._running: Asking | None = None
        self._reconfigured = False
        self._grace: float | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stored = asyncio.Event()

    def shutdown(self, seconds: float) -> None:
        """Makes `run` return: the answer at hand has so many seconds."""
        if self._grace is None:
            _log.info("ending within %g seconds", seconds)
            self._grace = seconds
            self._waiting.clear()
            self._stopping.set()
            self._wake.set()
            self._beat()

    def connected(self) -> None:
        """The bus is back: says how things are, and what may not have arrived."""
        self._beat()
        self._send_answers()

    async def run(self) -> None:
        """Answers messages until `shutdown`. Raises what ends a part of it that never should."""
        # Before the first beat: whoever hears one may send.
        await self._wire.listen(self._heard)
        work = asyncio.create_task(self._work())
        rest = [
            asyncio.create_task(part)
            for part in (self._wire.run(), self._agent.run(), self._beats(), self._resends())
        ]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            self.connected()
            await asyncio.wait({work, *rest, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._drain(work)
            for task in (work, *rest):
                if task.done():
                    task.result()
        finally:
            await end(work, stopping)
            await end(*rest)
            await self._agent.close()

    async def _drain(self, work: asyncio.Task[None]) -> None:
        await asyncio.wait({work}, timeout=self._grace)
        try:
            async with asyncio.timeout(_FAREWELL):
                while self._answers.waiting:
                    self._stored.clear()
                    await self._stored.wait()
        except TimeoutError:
            _log.info("an answer is not known to be stored; the next start sends it again")
        await self._wire.sent(_FAREWELL)

    # What the keeper says ---------------------------------------------------------------------

    def _heard(self, frame: ToAgent) -> None:
        match frame:
            case UserMessage():
                self._take(frame)
            case Interrupt(message_id=message_id, reason=reason):
                self._interrupt(message_id, reason)
            case PermissionAnswer():
                self._people.answered(frame)
            case AnswerStored(message_id=message_id):
                self._answers.stored(message_id)
                self._stored.set()
            case Reconfigure(version=version):
                missing = self._agent.state == "missing"
                self._reconfigured |= missing or version != self._agent.spec.version
                self._wake.set()
                self._beat()
            case Repeat():
                if self._running is not None:
                    self._running.repeat()
            case Shutdown(seconds=seconds):
                self.shutdown(seconds)

    def _take(self, message: UserMessage) -> None:
        if self._grace is not None:
            # Not accepted: the next start gets it.
            return
        message_id = message.message_id
        answer = self._answers.get(message_id)
        if answer is None and not self._is_running(message_id):
            self._waiting[message_id] = message
            self._wake.set()
        elif answer is None and message.model_token:
            # A copy may bring a fresher token for work that takes long.
            self._use_token(message.model_token)
        self._wire.tell(Accepted(message_id=message_id))
        if answer is not None:
            self._send(answer)
        if self._running is not None:
            # Otherwise it is begun now, which a beat tells as well.
            self._beat()

    def _interrupt(self, message_id: UUID, reason: str) -> None:
        if self._running is not None and self._is_running(message_id):
            self._running.interrupt(reason)
            return
        self._waiting.pop(message_id, None)
        answer = self._answers.get(message_id)
        if answer is None:
            # Also one that never arrived: should it come yet, it is not begun.
            answer = Answer(message_id=message_id, state="cancelled", error=reason)
            self._answers.put(answer)
        self._send(answer)
        self._beat()

    def _is_running(self, message_id: UUID) -> bool:
        return self._running is not None and self._running.message.message_id == message_id

    # Answering ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        """One message after another, in the order in which they came."""
        while self._grace is None:
            if self._reconfigured:
                self._reconfigure()
            elif self._waiting:
                message = self._waiting.pop(next(iter(self._waiting)))
                await self._answer(message)
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _answer(self, message: UserMessage) -> None:
        if message.model_token:
            self._use_token(message.model_token)
        self._running = Asking(
            message,
            self._agent,
            answers=self._answers,
            people=self._people,
            voice=Voice(message.message_id, self._wire.show),
            workspace=self._workspace,
            tell=self._wire.tell,
            patience=self._patience,
        )
        self._beat()
        try:
            answer = await self._running.run()
            self._answers.put(answer)
        finally:
            self._running = None
        self._send(answer)
        self._beat()

    def _reconfigure(self) -> None:
        self._reconfigured = False
        try:
            spec = self._read_spec()
        except BadFile as error:
            _log.warning("the new version cannot be read: %s", error)
            self._agent.reason = str(error)
            self._beat()
            return
        if spec != self._agent.spec or self._agent.state == "missing":
            self._agent.reconfigure(spec)

    # What the keeper hears ----------------------------------------------------------------------

    def _send(self, answer: Answer) -> None:
        # The same name each time: parts of one sending complete those of another.
        self._wire.tell(answer, frame_id=str(answer.message_id))

    def _send_answers(self) -> None:
        for message_id in self._answers.waiting:
            answer = self._answers.get(message_id)
            if answer is not None:
                self._send(answer)

    async def _resends(self) -> None:
        while True:
            await asyncio.sleep(_RESEND)
            if self._wire.is_quiet:
                self._send_answers()

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            if self._wire.is_connected:
                self._beat()

    def _tell_crash(self, crash: Crashed) -> None:
        self._printed.flush()
        self._wire.tell(crash)

    def _beat(self) -> None:
        # First, because what a beat says may be the end of this place.
        self._printed.flush()
        agent = self._agent
        provider = agent.provider
        running = self._running
        self._wire.tell(
            Beat(
                boot=self._boot,
                state=self._state(),
                version=agent.version,
                message_id=running.message.message_id if running is not None else None,
                waiting=tuple(self._waiting),
                conversation=agent.conversation,
                agent_version=provider.version if provider is not None else "",
                mcp=provider.mcp if provider is not None else (),
                reason=agent.reason,
            )
        )

    def _state(self) -> BeatState:
        if self._grace is not None:
            return "stopping"
        if self._agent.state == "missing":
            return "failed"
        if self._agent.state == "starting":
            return "starting"
        return "idle" if self._running is None else "busy"
