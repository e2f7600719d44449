"""The model's words as they come, for whoever is watching a session or a team's chat. Nothing here
outlives the call that it is about.

A gateway with a watcher says so every few seconds, by the id of the session or team; a worker that
has heard of one streams its calls for it and passes the text on. What matters is in the journal once
the step is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    from agentos.execution.pulse.voices import ChatVoice, Voice

WATCHED_SUBJECT = "platform.pulse.watched"
# Said once by each new watcher's gateway: what was said so far is to be said again.
JOINED_SUBJECT = "platform.pulse.joined"
# Said by a worker that has begun to tell a team's chat again: others say what theirs are saying.
TOLD_SUBJECT = "platform.pulse.told"
# How often a gateway says that somebody watches, and how long workers believe it.
WATCHED_SECONDS = 4.0
_BELIEVED_SECONDS = 10.0


class LiveText(msgspec.Struct, frozen=True):
    """Some words of the answer that is to become step `seq`. `done`: they were the last of it;
    `reset`: what came before for this step is void."""

    seq: int
    text: str
    done: bool = False
    reset: bool = False


def live_subject(session_id: UUID) -> str:
    return f"platform.pulse.live.{session_id}"


S = TypeVar("S")


class Speakers(Generic[S]):
    """Who is speaking right now, by the session or team that it is said in."""

    def __init__(self) -> None:
        self._of: dict[UUID, list[S]] = {}

    def of(self, thing_id: UUID) -> Sequence[S]:
        return tuple(self._of.get(thing_id, ()))

    @contextmanager
    def speaking(self, thing_id: UUID, voice: S) -> Iterator[None]:
        voices = self._of.setdefault(thing_id, [])
        voices.append(voice)
        try:
            yield
        finally:
            voices.remove(voice)
            if not voices:
                del self._of[thing_id]


class Audience:
    """Which sessions and teams are being watched, who speaks to them right now, and how much was said
    of which message."""

    _MOST_COUNTED = 1000

    def __init__(self) -> None:
        self.sessions: Speakers[Voice] = Speakers()
        self.chats: Speakers[ChatVoice] = Speakers()
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
