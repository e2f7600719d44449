from __future__ import annotations

from agentos.kernel.errors import Conflict, Invalid, NotFound


class AlreadyMember(Conflict):
    """This person is a member already."""

    code = "already_member"


class LastOwner(Conflict):
    """A tenant needs at least one owner."""

    code = "last_owner"
    hint = "Make somebody else an owner first."


class InvitationInvalid(NotFound):
    """This invitation does not exist, was used, withdrawn, or has expired."""

    code = "invitation_invalid"
    hint = "Ask for a new one."


class NameNeeded(Invalid):
    """You have no account yet, so say what to call you."""

    code = "name_needed"
    hint = "Send `name` along with the token and a password."
