from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Invalid, Kind, NotFound


class WebhookNotFound(NotFound):
    """There is no such webhook."""

    code = "webhook_not_found"


class WebhookNameTaken(AgentOSError):
    """Another webhook has this name."""

    code = "webhook_name_taken"
    kind = Kind.CONFLICT
    hint = "Choose another name."


class WebhookBusy(AgentOSError):
    """The webhook has as many runs at once as it may."""

    code = "webhook_busy"
    kind = Kind.LIMITED
    hint = "Send it again after the time in Retry-After."


class NotAWebhook(AgentOSError):
    """Only the token of a webhook fires it."""

    code = "not_a_webhook"
    kind = Kind.FORBIDDEN


class BadPayload(Invalid):
    """What was sent cannot be read."""

    code = "bad_payload"
    hint = "Send JSON with Content-Type: application/json, or plain text."
