from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Kind


class AnswerBrokeOff(AgentOSError):
    """The model broke off in the middle of its answer."""

    code = "stream_broken"
    kind = Kind.TRANSIENT
    hint = "Ask again. It is not done by itself, because a part of the answer was delivered."


class NotCarried(Exception):
    """A conversation has no place for something in this request, which the vendor's own wire has."""
