from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class TeamNotFound(NotFound):
    """There is no such team."""

    code = "team_not_found"


class WorkerNotFound(NotFound):
    """The team has no worker of this name."""

    code = "worker_not_found"
    hint = "The team's details list its workers."


class TemplateNotFound(NotFound):
    """There is no such template."""

    code = "template_not_found"
    hint = "GET /api/team-templates lists what there is."


class TeamNameTaken(Conflict):
    """Another team has this name."""

    code = "team_name_taken"
    hint = "Choose another; upper and lower case count as the same."


class TeamDeployed(Conflict):
    """The team is deployed."""

    code = "team_deployed"
    hint = "Stop it first, and wait until its status is `stopped`."


class TeamNotDeployed(Conflict):
    """The team is not deployed."""

    code = "team_not_deployed"
    hint = "Deploy it."


class BadTeam(Invalid):
    """The team is not valid."""

    code = "bad_team"


class UnreadableTeam(Invalid):
    """The team cannot be read as YAML or JSON."""

    code = "unreadable_team"


class TeamTooLarge(AgentOSError):
    """The team is too large."""

    code = "team_too_large"
    kind = Kind.TOO_LARGE
