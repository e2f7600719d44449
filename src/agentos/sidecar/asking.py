"""One message, asked until it is answered: over crashes, up to its deadline, or until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from uuid import uuid4

from agentos.contracts.crew import Answer, AnswerState, Deed, FromAgent, Started, UserMessage
from agentos.contracts.permissions.judging import Allow, Ask, Deny, judge, permissions_of
from agentos.sidecar.agent import Agent, Patience
from agentos.sidecar.answers import Answers
from agentos.sidecar.people import People
from agentos.sidecar.providers.base import (
    Permission,
    Provider,
    ProviderDied,
    ProviderError,
    Question,
    Reply,
    Verdict,
)
from agentos.sidecar.stopwatch import Stopwatch
from agentos.sidecar.tasks import end
from agentos.sidecar.texts import clean, shortened
from agentos.sidecar.voice import Voice

# In all, over restarts of the sidecar too: a message that kills the agent must not do so for ever.
MOST_ASKED = 3
_MOST_CHARACTERS = 8 * 1024 * 1024
_MOST_ERROR = 4000

_NOTE = (
    "[A note from AgentOS: your process was restarted while you were working on the message below, "
    "so it is sent to you again. Some of it may be done already. Check what is done first, and do "
    "not repeat it.]"
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Outcome:
    state: AnswerState
    text: str = ""
    error: str = ""
    error_code: str = ""


class Asking:
    """The answering of one message."""

    def __init__(
        self,
        message: UserMessage,
        agent: Agent,
        *,
        answers: Answers,
        people: People,
        voice: Voice,
        workspace: Path,
        tell: Callable[[FromAgent], None],
        patience: Patience,
    ) -> None:
        self.message = message
        self._agent = agent
        self._answers = answers
        self._people = people
        self._voice = voice
        self._workspace = workspace
        self._tell = tell
        self._patience = patience
        self._watch = Stopwatch()
        # Why it has to end before its time.
        self._why: Literal["interrupt", "deadline"] | None = None
        self._reason = ""
        self._ending = asyncio.Event()

    def interrupt(self, reason: str) -> None:
        """Makes it end soon, as cancelled."""
        self._end("interrupt", reason)

    def repeat(self) -> None:
        """Shows again what was said and done so far."""
        self._voice.repeat()

    async def run(self) -> Answer:
        """How it ended, whatever happens. Cancelling it leaves the message unanswered."""
        begun = time.monotonic()
        deadline = asyncio.create_task(self._deadline())
        try:
            with self._agent.asked():
                outcome = await self._outcome()
        finally:
            await end(deadline)
            self._voice.end()
        return Answer(
            message_id=self.message.message_id,
            state=outcome.state,
            text=shortened(clean(outcome.text), _MOST_CHARACTERS),
            error=shortened(clean(outcome.error), _MOST_ERROR),
            error_code=clean(outcome.error_code),
            activity=self._voice.deeds,
            seconds=round(time.monotonic() - begun, 3),
        )

    async def _deadline(self) -> None:
        await self._watch.reached(self.message.seconds)
        self._end("deadline", "")

    def _end(self, why: Literal["interrupt", "deadline"], reason: str) -> None:
        if self._why is None:
            self._why = why
            self._reason = reason
            self._ending.set()

    async def _outcome(self) -> _Outcome:
        tries = 0
        died = "The agent's process ended while it worked on this message."
        while self._answers.asked(self.message.message_id) < MOST_ASKED:
            try:
                provider = self._agent.up or await self._unless_ending(self._agent.ready())
                if provider is None or self._ending.is_set():
                    return self._ended(None)
                reply = await self._ask(provider, tries)
            except ProviderDied as error:
                died = error.message
                if self._why is not None:
                    return self._ended(None)
                tries += 1
                continue
            except ProviderError as error:
                return _Outcome("failed", error=error.message, error_code=error.code)
            if self._why is not None:
                return self._ended(reply)
            assert reply is not None, "only what was told to end ends without a reply"
            return _Outcome(reply.state, reply.text, reply.error, reply.error_code)
        return _Outcome(
            "uncertain",
            error=f"The agent was asked {MOST_ASKED} times and ended each time. Some of the work may be "
            f"done. The last time: {died}",
            error_code="agent_crashed",
        )

    def _ended(self, reply: Reply | None) -> _Outcome:
        """What becomes of a message that had to end before its time."""
        if reply is not None and reply.state == "answered":
            # It was faster than the word to stop.
            return _Outcome("answered", reply.text)
        text = reply.text if reply is not None else ""
        if self._why == "interrupt":
            return _Outcome("cancelled", text, error=self._reason)
        return _Outcome(
            "failed",
            text,
            error=f"There was no answer within {self.message.seconds:g} seconds.",
            error_code="answer_timeout",
        )

    async def _ask(self, provider: Provider, tries: int) -> Reply | None:
        """The reply; None if it had to be ended. Raises ProviderError."""
        message = self.message
        again = self._answers.asked(message.message_id) > 0
        self._answers.count_asked(message.message_id)
        if again:
            self._voice.void()
        self._tell(Started(message_id=message.message_id, attempt=message.attempt + tries))
        question = Question(id=str(uuid4()), text=_text_of(message, again=again))
        asking = asyncio.create_task(provider.ask(question, _Listening(self)))
        try:
            await self._until_done(provider, asking)
        finally:
            await end(asking)
        if asking.cancelled():
            self._agent.restart("It did not stop when it was told to.")
            if self._why is None:
                raise ProviderDied("The agent broke off without a reply.")
            return None
        error = asking.exception()
        if isinstance(error, ProviderDied):
            self._agent.died(provider, error)
        if error is not None:
            raise error
        self._agent.well()
        return asking.result()

    async def _until_done(self, provider: Provider, asking: asyncio.Task[Reply]) -> None:
        """Returns when it is done, or was told to end and had its time to do so."""
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(ending)
        if asking.done():
            return
        try:
            async with asyncio.timeout(self._patience.interrupt):
                await provider.interrupt()
                await asyncio.wait({asking})
        except (TimeoutError, ProviderError):
            return

    async def _unless_ending(self, waited: Awaitable[_T]) -> _T | None:
        """What is waited for; None if the message has to end first."""
        task = asyncio.ensure_future(waited)
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            ending.cancel()
            task.cancel()

    async def may(self, permission: Permission) -> Verdict:
        permissions = permissions_of(self._agent.spec, permission.agent)
        match judge(permissions, permission.tool, permission.arguments, self._workspace):
            case Allow():
                return Verdict(True)
            case Deny(reason):
                return Verdict(False, reason)
            case Ask():
                # The time that people take is not the agent's.
                with self._watch.stopped():
                    return await self._people.ask(self.message.message_id, permission)


class _Listening:
    """What a provider tells of one question."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._voice = asking._voice

    def words(self, text: str, agent: str | None = None) -> None:
        self._voice.words(text, agent)

    def again(self) -> None:
        self._voice.again()

    def did(self, deed: Deed) -> None:
        self._voice.did(deed)

    async def may(self, permission: Permission) -> Verdict:
        return await self._asking.may(permission)


def _text_of(message: UserMessage, *, again: bool) -> str:
    """What the agent reads."""
    parts = [_NOTE] if again else []
    parts.append(message.text)
    if message.attachments:
        parts.append("Attached files, in your workspace: " + ", ".join(message.attachments))
    return "\n\n".join(parts)
