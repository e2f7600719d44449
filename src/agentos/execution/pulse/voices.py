"""Who says the words of one answer as they come: in a session, and in the chat of a team.

A voice has what it said of its answer until that is whole, so that it can say it again to somebody
who begins to watch.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from agentos.contracts.crew import Activity, Chat, Chunk, Deed, encode
from agentos.execution.pulse.live import Audience, LiveText, live_subject
from agentos.kernel.bus import Bus
from agentos.kernel.errors import AgentOSError

# Words come in small pieces: those of so many seconds go together.
_PIECE_SECONDS = 0.05
# A gateway passes on 64 KiB at once: so many characters fit, however they are written.
_MOST_CHARACTERS = 10_000


class Speaker(Protocol):
    """Passes on the words of one answer."""

    async def say(self, words: str) -> None: ...

    async def end(self) -> None: ...


class Together:
    """Several speakers as one."""

    def __init__(self, speakers: Sequence[Speaker]):
        self._speakers = speakers

    async def say(self, words: str) -> None:
        for speaker in self._speakers:
            await speaker.say(words)

    async def end(self) -> None:
        for speaker in self._speakers:
            await speaker.end()


class _Voice(ABC):
    """Sends words in their order, those that come close together at once."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._waiting = ""
        self._sent_at = 0.0
        # Words of the turn before, or of a call that broke off, are not part of this answer.
        self._reset = True
        # What is said again goes out whole before what comes next.
        self._turn = asyncio.Lock()

    @property
    def has_spoken(self) -> bool:
        return bool(self._sent or self._waiting)

    async def say(self, words: str) -> None:
        self._waiting += words
        if self._waiting and time.monotonic() - self._sent_at >= _PIECE_SECONDS:
            await self._send()

    async def again(self) -> None:
        """Says from the beginning what it has said so far."""
        self._waiting = "".join([*self._sent, self._waiting])
        self._sent.clear()
        self._reset = True
        await self._send()

    async def _send(self, *, done: bool = False) -> None:
        async with self._turn:
            words, reset = self._waiting, self._reset
            self._sent.append(words)
            self._waiting, self._sent_at, self._reset = "", time.monotonic(), False
            pieces = _pieces(words)
            for n, piece in enumerate(pieces, 1):
                await self._tell(piece, reset=reset and n == 1, done=done and n == len(pieces))

    @abstractmethod
    async def _tell(self, words: str, *, reset: bool, done: bool) -> None: ...


class Voice(_Voice):
    """Says the words of one answer to whoever is watching the session."""

    def __init__(self, bus: Bus, session_id: UUID, seq: int):
        super().__init__()
        self._bus = bus
        self._subject = live_subject(session_id)
        self._seq = seq

    async def end(self) -> None:
        await self._send(done=True)

    async def _tell(self, words: str, *, reset: bool, done: bool) -> None:
        said = LiveText(self._seq, words, done, reset)
        await publish(self._bus, self._subject, msgspec.json.encode(said))


class ChatVoice(_Voice):
    """Says the words of one answer, and what was done for it, in the chat of a team.

    `agent` is the team worker that speaks; None: the leader. What a worker says makes nothing void.
    """

    def __init__(
        self,
        bus: Bus,
        audience: Audience,
        subject: str,
        message_id: UUID,
        agent: str | None = None,
        *,
        goes_on: bool = False,
    ):
        """`goes_on`: it has said something before, from which this is set apart."""
        super().__init__()
        self.agent = agent
        self._bus = bus
        self._audience = audience
        self._subject = subject
        self._message_id = message_id
        self._gap = "\n\n" if goes_on else ""
        self._held = False

    async def say(self, words: str) -> None:
        if self._gap and words:
            words, self._gap = self._gap + words, ""
        if self._held:
            self._waiting += words
        else:
            await super().say(words)

    async def end(self) -> None:
        if self._held:
            await self.again()
        elif self._waiting:
            await self._send()

    def hold(self) -> None:
        """Says nothing for now: what it has said is about to be made void."""
        self._held = True

    def go_on(self) -> None:
        self._held = False

    async def again(self) -> None:
        self.go_on()
        await super().again()

    async def did(self, deed: Deed) -> None:
        n = self._audience.number(self._message_id)
        await self._show(Activity(message_id=self._message_id, n=n, deed=deed))

    async def _tell(self, words: str, *, reset: bool, done: bool) -> None:  # noqa: ARG002 - a message's end is an event
        await self._show(
            Chunk(
                message_id=self._message_id,
                n=self._audience.number(self._message_id),
                text=words,
                agent=self.agent,
                reset=reset and self.agent is None,
            )
        )

    async def _show(self, frame: Chat) -> None:
        for piece in encode(frame):
            await publish(self._bus, self._subject, piece)


def _pieces(words: str) -> list[str]:
    """One at least: that there are no words is told, too."""
    starts = range(0, max(1, len(words)), _MOST_CHARACTERS)
    return [words[at : at + _MOST_CHARACTERS] for at in starts]


async def publish(bus: Bus, subject: str, data: bytes) -> None:
    """Says something to whoever listens; if the bus is away, to nobody."""
    if bus.is_connected:
        try:
            await bus.publish(subject, data)
        except AgentOSError:
            return  # a watcher misses some words; the step has them all
