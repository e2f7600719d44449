from __future__ import annotations

from dataclasses import dataclass

from agentos.kernel.errors import AgentOSError, Invalid, Kind, Unavailable
from agentos.tenancy.tokens import Unauthenticated


class BadTypeFilter(Invalid):
    """The type filter names no event."""

    code = "bad_type_filter"
    hint = "Give exact types or a trailing `.*`, separated by commas: `session.*,member.invited`."


class BadPosition(Invalid):
    """`after` is a sequence number: a whole number, 0 or more."""

    code = "bad_position"
    hint = "Use the `seq` of the last event you have, or leave it out to get only new ones."


class TicketInvalid(Unauthenticated):
    """The ticket is unknown, used or expired."""

    code = "ticket_invalid"
    hint = "Tickets work once and for 30 seconds. Get a new one from POST /api/events/ticket."


class TooManyStreams(AgentOSError):
    """This tenant has as many event streams open as one gateway serves."""

    code = "too_many_streams"
    kind = Kind.LIMITED
    hint = "Close some, or share one stream between the parts of your program."


class ShuttingDown(Unavailable):
    """This gateway is shutting down."""

    code = "shutting_down"
    hint = "Connect again; another gateway, or this one after its restart, goes on."


@dataclass(frozen=True, slots=True)
class Ending:
    """Why we end a stream: `code` closes a WebSocket, `reason` is what programs compare."""

    code: int
    reason: str
    message: str


TOO_SLOW = Ending(4008, "too_slow", "too slow")
RESTARTING = Ending(1012, "restart", "the gateway is restarting")
UNAVAILABLE = Ending(1013, "unavailable", "history is not available right now")
FORBIDDEN = Ending(4403, "forbidden", "the credential may no longer read events")


def credential_ended(error: AgentOSError) -> Ending:
    if error.kind is Kind.FORBIDDEN:
        return FORBIDDEN
    return Ending(4401, error.code, "the credential is no longer valid")
