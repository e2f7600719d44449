"""How the keepers of teams are told that something has changed."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

import msgspec

# A hint, not an order: its data is the id of a team that was changed, or one of its messages.
CHANGED_SUBJECT = "platform.crews.changed"
# A hint that credentials of a team are void from now on. It has no data.
REVOKED_SUBJECT = "platform.crews.revoked"


def handed_subject(team_id: UUID) -> str:
    """What the keeper of one team listens to, for a `Handed`."""
    return f"platform.crews.handed.{team_id}"


def ended_subject(team_id: UUID) -> str:
    """Where keepers tell, once that is committed, that a message of a team has ended: an
    `Unnumbered` event. No sandbox has rights on it."""
    return f"platform.crews.ended.{team_id}"


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is `running` since the transaction that queued it: its team had no other.

    With it, a keeper need not ask the database. One that is lost is found there, as after a crash.
    """

    message_id: UUID
    position: int
    text: str
    author: str
    source: Literal["chat", "schedule", "webhook"]
    run_id: UUID | None
    attachments: list[dict[str, Any]]
    # Of the team, at that moment. A keeper that knows it otherwise has to look.
    fence: int
    generation: int
    version: int
    answer_seconds: int


decode_handed = msgspec.json.Decoder(Handed).decode
