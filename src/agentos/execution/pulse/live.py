"""The model's words as they come, for whoever is watching a session or a team's chat. Nothing here
is kept.

A gateway with a watcher says so every few seconds, by the id of the session or team; a worker that
has heard of one streams its calls for it and passes the text on. What matters is in the journal once
the step is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from agentos.contracts.crew import Activity, Chat, Chunk, Deed, encode
from agentos.kernel.bus import Bus
from agentos.kernel.errors import AgentOSError

WATCHED_SUBJECT = "platform.pulse.watched"
# Said once by each new watcher's gateway: what was said so far is to be said again.
JOINED_SUBJECT = "platform.pulse.joined"
# How often a gateway says that somebody watches, and how long workers believe it.
WATCHED_SECONDS = 4.0
_BELIEVED_SECONDS = 10.0
# Words come in small pieces: those of so many seconds go together.
_PIECE_SECONDS = 0.05


class LiveText(msgspec.Struct, frozen=True):
    """Some words of the answer that is to become step `seq`. `done`: they were the last of it."""

    seq: int
    text: str
    done: bool = False


def live_subject(session_id: UUID) -> str:
    return f"platform.pulse.live.{session_id}"


class Audience:
    """Which sessions and teams are being watched, and how much was said of which message."""

    _MOST_COUNTED = 1000

    def __init__(self) -> None:
        self._seen: dict[UUID, float] = {}
        self._said: dict[UUID, int] = {}

    def seen(self, session_id: UUID) -> None:
        now = time.monotonic()
        self._seen = {i: at for i, at in self._seen.items() if now - at < _BELIEVED_SECONDS}
        self._seen[session_id] = now

    def watches(self, session_id: UUID) -> bool:
        at = self._seen.get(session_id)
        return at is not None and time.monotonic() - at < _BELIEVED_SECONDS

    def number(self, message_id: UUID) -> int:
        """Counts what is said of a team's message, from 0."""
        n = self._said.pop(message_id, 0)
        self._said[message_id] = n + 1
        if len(self._said) > self._MOST_COUNTED:
            del self._said[next(iter(self._said))]
        return n


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


class Voice:
    """Says the words of one answer to whoever is watching."""

    def __init__(self, bus: Bus, session_id: UUID, seq: int):
        self._bus = bus
        self._subject = live_subject(session_id)
        self._seq = seq
        self._words = ""
        self._said_at = 0.0

    async def say(self, words: str) -> None:
        self._words += words
        if time.monotonic() - self._said_at >= _PIECE_SECONDS:
            await self._send()

    async def end(self) -> None:
        await self._send(done=True)

    async def _send(self, *, done: bool = False) -> None:
        message = LiveText(self._seq, self._words, done)
        self._words, self._said_at = "", time.monotonic()
        await _publish(self._bus, self._subject, msgspec.json.encode(message))


class ChatVoice:
    """Says the words of one answer, and what was done for it, in the chat of a team."""

    def __init__(self, bus: Bus, audience: Audience, subject: str, message_id: UUID):
        self._bus = bus
        self._audience = audience
        self._subject = subject
        self._message_id = message_id
        self._words = ""
        self._said_at = 0.0
        # Words of the turn before, or of a call that broke off, are not part of this answer.
        self._reset = True

    async def say(self, words: str) -> None:
        self._words += words
        if time.monotonic() - self._said_at >= _PIECE_SECONDS:
            await self._send()

    async def end(self) -> None:
        if self._words:
            await self._send()

    async def did(self, deed: Deed) -> None:
        n = self._audience.number(self._message_id)
        await self._tell(Activity(message_id=self._message_id, n=n, deed=deed))

    async def _send(self) -> None:
        n, words, reset = self._audience.number(self._message_id), self._words, self._reset
        self._words, self._said_at, self._reset = "", time.monotonic(), False
        await self._tell(Chunk(message_id=self._message_id, n=n, text=words, reset=reset))

    async def _tell(self, frame: Chat) -> None:
        for piece in encode(frame):
            await _publish(self._bus, self._subject, piece)


async def _publish(bus: Bus, subject: str, data: bytes) -> None:
    if bus.is_connected:
        try:
            await bus.publish(subject, data)
        except AgentOSError:
            return  # a watcher misses some words; the step has them all
