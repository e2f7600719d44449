"""The model's words as they come, for whoever is watching a session. Nothing here is kept.

A gateway with a watcher says so every few seconds; a worker that has heard of one streams its calls
for that session and passes the text on. What matters is in the journal once the step is.
"""

from __future__ import annotations

import time
from uuid import UUID

import msgspec

from agentos.kernel.bus import Bus
from agentos.kernel.errors import AgentOSError

WATCHED_SUBJECT = "platform.pulse.watched"
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
    """Which sessions are being watched."""

    def __init__(self) -> None:
        self._seen: dict[UUID, float] = {}

    def seen(self, session_id: UUID) -> None:
        now = time.monotonic()
        self._seen = {i: at for i, at in self._seen.items() if now - at < _BELIEVED_SECONDS}
        self._seen[session_id] = now

    def watches(self, session_id: UUID) -> bool:
        at = self._seen.get(session_id)
        return at is not None and time.monotonic() - at < _BELIEVED_SECONDS


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
        if self._bus.is_connected:
            try:
                await self._bus.publish(self._subject, msgspec.json.encode(message))
            except AgentOSError:
                return  # a watcher misses some words; the step has them all
