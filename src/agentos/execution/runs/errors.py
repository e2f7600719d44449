from __future__ import annotations

from agentos.kernel.errors import Invalid, NotFound


class RunNotFound(NotFound):
    """There is no such run."""

    code = "run_not_found"


class BadTarget(Invalid):
    """It needs one thing to start: a prompt for a team, or a session."""

    code = "bad_target"
    hint = "Give team_id and prompt, or session."
