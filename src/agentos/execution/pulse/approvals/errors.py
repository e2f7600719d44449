from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class ApprovalNotFound(NotFound):
    """There is no such approval."""

    code = "approval_not_found"
    hint = "`agentos approvals list` shows what needs you."


class ApprovalDecided(Conflict):
    """This was decided before."""

    code = "approval_decided"
    hint = "`agentos approvals list` shows what still needs you."


class ApprovalExpired(AgentOSError):
    """Nobody decided in time."""

    code = "approval_expired"
    kind = Kind.CONFLICT


class BadDecision(Invalid):
    """This is not a decision about such a thing."""

    code = "bad_decision"
