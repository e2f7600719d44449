from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class MessageNotFound(NotFound):
    """The team has no such message."""

    code = "message_not_found"


class MessageEnded(Conflict):
    """The message has ended."""

    code = "message_ended"


class AttachmentMissing(Invalid):
    """An attachment is no object of this tenant."""

    code = "attachment_missing"
    hint = "Store it first with PUT /api/objects/KEY, and use the id in the answer."


class AttachmentTooLarge(AgentOSError):
    """An attachment is too large."""

    code = "attachment_too_large"
    kind = Kind.TOO_LARGE


class BadAttachment(Invalid):
    """An attachment cannot be a file in the workspace."""

    code = "bad_attachment"
    hint = "Give each attachment a name of its own, without slashes and at most 255 bytes long."
