"""The one error base. Its kind decides what the edge, the worker and the CLI do with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar


class Kind(StrEnum):
    """What went wrong, seen from whoever has to react."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    LIMITED = "limited"
    PLAN = "plan"
    TRANSIENT = "transient"
    SETUP = "setup"
    INTERNAL = "internal"


class AgentOSError(Exception):
    """Something went wrong inside AgentOS."""

    code: ClassVar[str] = "internal"
    kind: ClassVar[Kind] = Kind.INTERNAL
    hint: ClassVar[str | None] = None

    def __init__(self, message: str | None = None, *, hint: str | None = None, **details: Any):
        """The class docstring is the message unless a more precise one is given.

        `details` are shown to the caller as extra members of the problem document, so they
        must never hold a secret.
        """
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.advice = hint or type(self).hint
        self.details = details
        super().__init__(self.message)


class Invalid(AgentOSError):
    """The request is not valid."""

    code = "invalid"
    kind = Kind.INVALID


class NotFound(AgentOSError):
    """There is no such thing here."""

    code = "not_found"
    kind = Kind.NOT_FOUND
    hint = "Check the id, and that you are signed in to the tenant it belongs to."


class Conflict(AgentOSError):
    """The request does not fit the present state."""

    code = "conflict"
    kind = Kind.CONFLICT


class Unavailable(AgentOSError):
    """A part AgentOS needs is not answering right now."""

    code = "unavailable"
    kind = Kind.TRANSIENT
    hint = "Try again in a few seconds; `agentos doctor` shows which part is down."


class SetupError(AgentOSError):
    """This installation is not set up correctly."""

    code = "setup"
    kind = Kind.SETUP
    hint = "Run `agentos doctor`."
