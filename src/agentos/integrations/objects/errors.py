from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Invalid, Kind, NotFound


class ObjectNotFound(NotFound):
    """There is no object under this key."""

    code = "object_not_found"
    hint = "GET /api/objects lists the keys of this tenant."


class ObjectTooLarge(AgentOSError):
    """The object is larger than this installation takes."""

    code = "object_too_large"
    kind = Kind.TOO_LARGE
    hint = "Split it, or have the operator raise AGENTOS_MAX_OBJECT_BYTES."


class BadContentType(Invalid):
    """The Content-Type is not a media type."""

    code = "bad_content_type"
    hint = "Send one like application/pdf, or none."


class UploadExpired(AgentOSError):
    """The upload took so long that its bytes were cleared away."""

    code = "upload_expired"
    kind = Kind.TRANSIENT
    hint = "Upload it again."


class ObjectLost(AgentOSError):
    """The bytes of this object are missing from the object store."""

    code = "object_lost"
    hint = "Upload it again, or restore the object store from its backup."
