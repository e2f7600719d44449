"""What a sidecar is told of its team."""

from __future__ import annotations

from collections.abc import Mapping

from agentos.contracts.crew import AgentPermissions, AgentSpec, McpServerSpec, TeamSpec
from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut, Permissions
from agentos.execution.pulse.configs import SecretMissing
from agentos.integrations.tools.schemas import McpServer, SecretValue


def secrets_of(team: Definition) -> frozenset[str]:
    """The names of the secrets that its MCP servers need."""
    return frozenset().union(*(server.secrets for server in team.mcp_servers))


def spec_of(
    team: Definition, version: int, conversation: str | None, secrets: Mapping[str, str]
) -> TeamSpec:
    """The spec, with the values of secrets filled in. Raises SecretMissing."""
    assert team.provider != "native", "a native team has no sidecar"
    return TeamSpec(
        tenant_id=team.tenant_id,
        team_id=team.team_id,
        version=version,
        provider=team.provider,
        model=team.model,
        agents=tuple(_agent(team, agent) for agent in team.agents),
        command=team.command or (),
        mcp_servers=tuple(_server(server, secrets) for server in team.mcp_servers),
        conversation=conversation,
        allowed_hosts=team.allowed_hosts,
    )


def _agent(team: Definition, agent: AgentPut) -> AgentSpec:
    return AgentSpec(
        name=agent.name,
        leader=agent is team.leader,
        role=agent.role,
        model=agent.model or team.model,
        permissions=_permissions(agent.permissions),
    )


def _permissions(given: Permissions) -> AgentPermissions:
    return AgentPermissions(
        tools=None if given.tools is None else tuple(given.tools),
        denied_commands=tuple(given.denied_commands),
        allowed_commands=None if given.allowed_commands is None else tuple(given.allowed_commands),
        files=None if given.files is None else tuple(given.files),
        ask=tuple(given.ask),
    )


def _server(server: McpServer, secrets: Mapping[str, str]) -> McpServerSpec:
    def filled(values: Mapping[str, str | SecretValue]) -> dict[str, str]:
        return {name: _value(server, value, secrets) for name, value in values.items()}

    return McpServerSpec(
        name=server.name,
        url=server.url,
        headers=filled(server.headers),
        command=tuple(server.command or ()),
        env=filled(server.env),
    )


def _value(server: McpServer, value: str | SecretValue, secrets: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    if value.secret not in secrets:
        raise SecretMissing(f"The MCP server {server.name} needs the secret {value.secret}.")
    return secrets[value.secret]
