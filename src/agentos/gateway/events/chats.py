"""What teams say while they answer, for the watchers of this gateway.

What comes over the bus may come from a sandbox: what is no piece of a chat is dropped, and nothing
is passed on as it came.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from agentos.contracts.crew import BadFrame, Chat, Chunk, chat_subject, decode_chat
from agentos.execution.crews.hints import ended_subject
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.rooms import Rooms
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database

# Of one piece; the rest of a longer one is in the answer.
_MOST_BYTES = 64 * 1024


class Piece:
    """Something that was said or done, as it goes to watchers."""

    # Of the event that it tells of; None: it tells of none.
    event_id: UUID | None = None

    def __init__(self, team_id: UUID, chat: Chat):
        kind = "chunk" if isinstance(chat, Chunk) else "activity"
        body = {**msgspec.to_builtins(chat), "team_id": str(team_id)}
        # Beside the events of a tenant it needs the same kind of name as they have.
        body["type"] = f"message.{kind}"
        self.frame = Frame(None, body["type"], msgspec.json.encode(body))
        self.sse = b"event: %b\ndata: %b\n\n" % (kind.encode(), self.frame.data)


class Early(Piece):
    """An event about a message, as its keeper tells it: before the relay, after the commit."""

    def __init__(self, data: bytes):
        """Raises msgspec.DecodeError."""
        head = _head.decode(data)
        self.event_id = head.id
        self.frame = Frame(None, head.type, data)
        self.sse = self.frame.sse


class _Head(msgspec.Struct):
    id: UUID
    type: str


_head = msgspec.json.Decoder(_Head)


Chats = Rooms[Piece]


def chats(db: Database, bus: Bus) -> Chats:
    """The chats of teams."""
    return Rooms(
        db,
        bus,
        "teams",
        (chat_subject, _piece),
        (lambda _, team_id: ended_subject(team_id), _early),
    )


def _piece(team_id: UUID, data: bytes) -> Piece | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        return Piece(team_id, decode_chat(data))
    except BadFrame:
        return None


def _early(_: UUID, data: bytes) -> Piece | None:
    try:
        return Early(data)
    except msgspec.DecodeError:
        return None
