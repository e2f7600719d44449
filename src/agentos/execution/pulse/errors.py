from __future__ import annotations

from agentos.kernel.errors import Conflict, Invalid, NotFound


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "session_not_found"


class StepNotFound(NotFound):
    """The session has no such step."""

    code = "step_not_found"
    hint = "`agentos sessions show ID` lists its steps."


class BadConfig(Invalid):
    """The configuration of the session is not valid."""

    code = "bad_session_config"


class SessionWaits(Conflict):
    """The session waits for something else than to be resumed."""

    code = "session_waits"
