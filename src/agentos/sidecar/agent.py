"""The agent CLI, kept running: started, resumed, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from agentos.contracts.crew import Crashed, TeamSpec
from agentos.sidecar.answers import Answers
from agentos.sidecar.providers.base import (
    MakeProvider,
    Provider,
    ProviderDied,
    ProviderError,
    ProviderMissing,
    Surroundings,
)
from agentos.sidecar.tasks import end
from agentos.sidecar.texts import clean, shortened

_MOST_REASON = 2000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in seconds."""

    # Between a crash and the next start: doubled each time, up to the most.
    first_pause: float = 0.2
    longest_pause: float = 10.0
    start: float = 120.0
    # From an interruption to the end of the answer.
    interrupt: float = 10.0
    stop: float = 15.0


class Agent:
    """One agent CLI at a time; a dead or stopped one is followed by the next, which resumes."""

    def __init__(
        self,
        spec: TeamSpec,
        make: MakeProvider,
        surroundings: Surroundings,
        answers: Answers,
        *,
        patience: Patience,
        changed: Callable[[], None],
        tell: Callable[[Crashed], None],
    ) -> None:
        self.spec = spec
        # Of the team, as the running process knows it.
        self.version = spec.version
        self.state: Literal["starting", "up", "missing"] = "starting"
        # For people: why it is not up, or what was lost on the way.
        self.reason = ""
        self._make = make
        self._surroundings = surroundings
        self._answers = answers
        self._patience = patience
        self._changed = changed
        self._tell = tell
        self._provider: Provider | None = None
        # Up or missing: there is no use in waiting.
        self._settled = asyncio.Event()
        self._again = asyncio.Event()
        # Not being asked.
        self._free = asyncio.Event()
        self._free.set()
        self._crashed = False
        self._pause = patience.first_pause

    @property
    def provider(self) -> Provider | None:
        return self._provider

    @property
    def up(self) -> Provider | None:
        """The provider, if it is ready now."""
        return self._provider if self.state == "up" and self._settled.is_set() else None

    @property
    def conversation(self) -> str | None:
        """What the conversation is resumed by; None: there is none."""
        if self._provider is not None and self._provider.conversation:
            return self._provider.conversation
        kept = self._answers.conversation()
        return self.spec.conversation if kept is None else kept or None

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Meanwhile a question is asked, and tells itself if the process ends."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    async def ready(self) -> Provider:
        """The running provider, once there is one. Raises ProviderMissing."""
        while True:
            await self._settled.wait()
            if self.state == "missing":
                raise ProviderMissing(self.reason)
            if self._provider is not None:
                return self._provider

    def well(self) -> None:
        """It has answered: the next crash is a first one again, and what was wrong is over."""
        self._pause = self._patience.first_pause
        self._note_conversation()
        if self.reason and self.state == "up":
            self.reason = ""
            self._changed()

    def restart(self, reason: str) -> None:
        """Stops the process and starts it anew, with the conversation."""
        self._note_conversation()
        self._down("starting", reason)
        self._again.set()

    def died(self, provider: Provider, died: ProviderDied) -> None:
        """A process was found dead: another is started after a while. Harmless twice."""
        if provider is not self._provider or self._crashed:
            return
        self._crashed = True
        self._tell_crash(died)
        self.restart(died.message)

    def reconfigure(self, spec: TeamSpec) -> None:
        """Goes on with another version of the team."""
        self.spec = spec
        self._pause = self._patience.first_pause
        self.restart(f"Changing to version {spec.version}.")

    async def run(self) -> None:
        """Keeps the process running until it is cancelled; `close` has to follow."""
        while True:
            self._again.clear()
            self._crashed = False
            if await self._start():
                await self._over()
            await self.close()
            if self._crashed:
                await self._rest()

    async def _start(self) -> bool:
        """Whether it is settled, as up or as missing; False: it died at once."""
        try:
            await self._resume()
        except ProviderDied as died:
            self._crashed = True
            self._tell_crash(died)
            self._down("starting", died.message)
            return False
        except ProviderError as error:
            _log.warning("the agent cannot be started: %s", error.message)
            self._down("missing", error.message)
            self._settled.set()
            return True
        self.state = "up"
        self._settled.set()
        self._note_conversation()
        _log.info("the agent is up, with version %s of the team", self.version)
        self._changed()
        return True

    async def _resume(self) -> None:
        """Starts with the conversation; without it, if it cannot be resumed."""
        spec, conversation = self.spec, self.conversation
        try:
            await self._start_with(spec, conversation)
            self.reason = ""
        except ProviderDied as died:
            if conversation is None:
                raise
            # Not a crash: this happens once, and a new conversation mends it.
            _log.warning("the conversation cannot be resumed: %s", died.message)
            await self.close()
            await self._start_with(spec, None)
            self._answers.keep_conversation("")
            self.reason = (
                f"The conversation could not be resumed, a new one was begun: {died.message}"
            )
        self.version = spec.version

    async def _start_with(self, spec: TeamSpec, conversation: str | None) -> None:
        self._provider = self._make(spec, self._surroundings, conversation)
        try:
            async with asyncio.timeout(self._patience.start):
                await self._provider.start()
        except TimeoutError as error:
            seconds = round(self._patience.start)
            raise ProviderDied(f"The agent was not ready within {seconds} seconds.") from error

    async def _over(self) -> None:
        """Returns when the process has ended, or has to."""
        again = asyncio.create_task(self._again.wait())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({again, watch}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
                await asyncio.wait({again})
        finally:
            await end(again, watch)

    async def _watch(self) -> None:
        """Notices a death between two questions; within one, the question itself tells."""
        provider = self._provider
        if self.state == "missing" or provider is None:
            return
        died = await provider.ended()
        await self._free.wait()
        if not self._again.is_set():
            self.died(provider, died)

    async def _rest(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, self._patience.longest_pause)
        self._again.clear()
        again = asyncio.create_task(self._again.wait())
        try:
            await asyncio.wait({again}, timeout=pause)
        finally:
            await end(again)

    async def close(self) -> None:
        """Ends the process; harmless if there is none, and once `run` has ended."""
        if self._provider is None:
            return
        try:
            async with asyncio.timeout(self._patience.stop):
                await self._provider.stop()
        except TimeoutError:
            _log.warning("the agent's process does not end")
        self._provider = None

    def _note_conversation(self) -> None:
        if self._provider is not None and self._provider.conversation:
            self._answers.keep_conversation(self._provider.conversation)

    def _tell_crash(self, died: ProviderDied) -> None:
        reason = shortened(clean(died.message), _MOST_REASON)
        _log.warning("the agent's process has ended: %s", reason)
        self._tell(Crashed(crash_id=uuid4().hex, reason=reason, exit_code=died.exit_code))

    def _down(self, state: Literal["starting", "missing"], reason: str) -> None:
        self._settled.clear()
        self.state = state
        self.reason = shortened(clean(reason), _MOST_REASON)
        self._changed()
