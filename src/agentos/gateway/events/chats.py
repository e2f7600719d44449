"""What teams say while they answer, for the watchers of this gateway.

What comes over the bus may come from a sandbox: what is no piece of a chat is dropped, and nothing
is passed on as it came.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from agentos.contracts.crew import BadFrame, Chat, Chunk, chat_subject, decode_chat
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.rooms import Rooms
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database

# Of one piece; the rest of a longer one is in the answer.
_MOST_BYTES = 64 * 1024


class Piece:
    """Something that was said or done, as it goes to watchers."""

    def __init__(self, team_id: UUID, chat: Chat):
        self.kind = "chunk" if isinstance(chat, Chunk) else "activity"
        body = {**msgspec.to_builtins(chat), "team_id": str(team_id)}
        # Beside the events of a tenant it needs the same kind of name as they have.
        body["type"] = f"message.{self.kind}"
        self.frame = Frame(None, body["type"], msgspec.json.encode(body))
        self.sse = b"event: %b\ndata: %b\n\n" % (self.kind.encode(), self.frame.data)


Chats = Rooms[Piece]


def chats(db: Database, bus: Bus) -> Chats:
    """The chats of teams."""
    return Rooms(db, bus, "teams", chat_subject, _piece)


def _piece(team_id: UUID, data: bytes) -> Piece | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        return Piece(team_id, decode_chat(data))
    except BadFrame:
        return None
