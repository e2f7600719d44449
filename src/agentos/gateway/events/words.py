"""The words of sessions as they come, for the watchers of this gateway."""

from __future__ import annotations

from functools import cached_property
from uuid import UUID

import msgspec

from agentos.execution.pulse.live import LiveText, live_subject
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.rooms import Rooms
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database

_TYPE = "session.words"

_live = msgspec.json.Decoder(LiveText)


class Words:
    """Some words of an answer, as they go to watchers."""

    def __init__(self, session_id: UUID, said: LiveText):
        self._session_id = session_id
        self._said = said

    @cached_property
    def frame(self) -> Frame:
        """For the event socket, where `seq` is the place of an event: the step has another name."""
        said = self._said
        body = {
            "type": _TYPE,
            "session_id": self._session_id,
            "step": said.seq,
            "text": said.text,
            "done": said.done,
            "reset": said.reset,
        }
        return Frame(None, _TYPE, msgspec.json.encode(body))

    @cached_property
    def sse(self) -> bytes:
        """For the stream of one session."""
        return b"data: %b\n\n" % msgspec.json.encode(self._said)


SessionWords = Rooms[Words]


def session_words(db: Database, bus: Bus) -> SessionWords:
    """The words of sessions."""
    return Rooms(db, bus, "sessions", (lambda _, session_id: live_subject(session_id), _words))


def _words(session_id: UUID, data: bytes) -> Words | None:
    try:
        return Words(session_id, _live.decode(data))
    except msgspec.DecodeError:
        return None
