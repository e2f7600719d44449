"""Checks what a team is told to be before anything is made of it."""

from __future__ import annotations

import msgspec

from agentos.execution.crews.errors import BadTeam, TeamTooLarge
from agentos.execution.crews.front import CrewFront
from agentos.execution.crews.schemas import AgentPut, TeamDefinition
from agentos.execution.pulse.configs import SecretMissing, check_storable
from agentos.execution.pulse.engine_tools.names import ENGINE_TOOLS
from agentos.execution.pulse.errors import BadConfig
from agentos.integrations.models.directory import TenantModels
from agentos.integrations.models.routing import ModelNotFound, targets
from agentos.integrations.tools.allowed_hosts import AllowedHosts
from agentos.integrations.tools.built_in import built_in_tools
from agentos.integrations.tools.errors import UnknownTool
from agentos.integrations.tools.toolbox import unknown_tool
from agentos.tenancy.vault import service as vault
from agentos.tenancy.work import Work

# Of a whole team, as JSON.
_MOST_BYTES = 1_000_000
_DEFAULT_RUNTIME = "local"


async def checked(work: Work, front: CrewFront, given: TeamDefinition) -> TeamDefinition:
    """The definition alone, if a team can work by it; a runtime is chosen where one is needed.

    Raises TeamTooLarge, ModelNotFound, UnknownTool, BadAllowedHost, SecretMissing, and BadTeam for
    the rest.
    """
    team = TeamDefinition(**{name: getattr(given, name) for name in TeamDefinition.model_fields})
    _check_storable(team)
    if team.provider != "native" and team.runtime is None:
        team = team.model_copy(update={"runtime": _DEFAULT_RUNTIME})
    models = await front.directory.within(work.tx, work.tenant_id)
    targets(models, team.model)
    for agent in (team.leader, *team.workers):
        _check_model(agent, models)
        if team.provider == "native":
            _check_tools(agent)
    AllowedHosts.parse(team.allowed_hosts, front.hosts)
    await _check_secrets(work, team)
    return team


def _check_storable(team: TeamDefinition) -> None:
    shown = team.model_dump(mode="python")
    try:
        check_storable(shown)
    except BadConfig as error:
        raise BadTeam(error.message) from error
    size = len(msgspec.json.encode(shown))
    if size > _MOST_BYTES:
        raise TeamTooLarge(f"The team has {size:,} bytes in all; {_MOST_BYTES:,} is the most.")


def _check_model(agent: AgentPut, models: TenantModels) -> None:
    try:
        if agent.model is not None:
            targets(models, agent.model)
    except ModelNotFound as error:
        raise ModelNotFound(f"{agent.name}: {error.message}") from error


def _check_tools(agent: AgentPut) -> None:
    """Those of a CLI are its own affair; a native team has ours, and those of MCP servers."""
    known = [*built_in_tools(), *ENGINE_TOOLS]
    for name in [*(agent.permissions.tools or []), *agent.permissions.ask]:
        if name not in known and name != "*" and not name.startswith("mcp__"):
            fault = unknown_tool(name, known)
            raise UnknownTool(f"{agent.name}: {fault.message}", hint=fault.advice)


async def _check_secrets(work: Work, team: TeamDefinition) -> None:
    for server in team.mcp_servers:
        for name in sorted(server.secrets):
            if not await vault.exists(work, name):
                raise SecretMissing(f"The MCP server {server.name} needs the secret {name}.")
