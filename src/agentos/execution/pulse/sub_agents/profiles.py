"""Sub-agents that a session knows by name."""

from __future__ import annotations

from typing import Any

from agentos.execution.pulse.engine_tools.names import ENGINE_TOOLS
from agentos.execution.pulse.schemas import AgentProfile, SessionConfig
from agentos.execution.pulse.sub_agents.errors import SpawnRefused
from agentos.integrations.tools.built_in import built_in_tools

_ITS_OWN = ("model", "instructions", "tools")


def named(config: SessionConfig, task: dict[str, Any]) -> AgentProfile | None:
    """The agent that a task is for; None if it names none. Raises SpawnRefused."""
    name = task.get("agent")
    if name is None:
        return None
    profile = next((agent for agent in config.agents if agent.name == name), None)
    if profile is None:
        known = ", ".join(agent.name for agent in config.agents)
        raise SpawnRefused(
            f"There is no agent {name[:100]!r}.",
            hint=f"You can call: {known}." if known else "Leave agent out: you know none by name.",
        )
    if given := [field for field in _ITS_OWN if field in task]:
        raise SpawnRefused(f"{name} has its own {' and '.join(given)}: leave that out.")
    return profile


def as_config(own: SessionConfig, profile: AgentProfile) -> dict[str, Any]:
    """What a session is that works as this agent. It calls no others: its caller does that."""
    return {
        "model": profile.model or own.model,
        "instructions": profile.instructions,
        "tools": allowed_tools(profile.permissions.tools),
        "permissions": profile.permissions,
        "agents": [],
        "sub_agents": False,
    }


def allowed_tools(names: list[str] | None) -> list[str] | None:
    """Those of an allow-list that a session names; others, such as of MCP servers, are checked
    when they are called.
    """
    if names is None:
        return None
    return [name for name in (*built_in_tools(), *ENGINE_TOOLS) if name in names]
