from __future__ import annotations

from agentos.kernel.errors import Invalid, NotFound


class SpawnRefused(Invalid):
    """These agents cannot be started."""

    code = "spawn_refused"


class AgentMissing(NotFound):
    """This session has started no such agent."""

    code = "agent_missing"
    hint = "Use an id from the result of spawn_agents."


class AgentStillRuns(Invalid):
    """The agent has not ended."""

    code = "agent_still_runs"


class NothingThere(NotFound):
    """The agent has no such files."""

    code = "nothing_there"
    hint = "The result of spawn_agents names the files that each agent has changed."
