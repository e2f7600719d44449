"""How an ACP agent is started: which program, and the environment it sees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.contracts.crew import McpServerSpec, TeamSpec
from agentos.sidecar.providers import opencode_setup
from agentos.sidecar.providers.base import ProviderMissing, Surroundings


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line, complete with its environment."""

    command: tuple[str, ...]
    env: Mapping[str, str]


def launch(spec: TeamSpec, surroundings: Surroundings) -> Launch:
    """How the team's agent is started. Raises ProviderMissing."""
    if not spec.command:
        raise ProviderMissing("The team does not say which ACP agent it is driven by.")
    name, *arguments = spec.command
    if name in _KNOWN:
        return _KNOWN[name](spec, surroundings, tuple(arguments))
    env = _environment(spec, surroundings)
    found = shutil.which(name, path=env["PATH"])
    if found is None:
        raise ProviderMissing(f"{name} is not installed where the team runs.")
    return Launch((found, *arguments), env)


def mcp_servers(
    servers: tuple[McpServerSpec, ...], *, http: bool
) -> tuple[list[dict[str, Any]], list[McpServerSpec]]:
    """The servers in the protocol's words, and those that the agent cannot use."""
    useless = [server for server in servers if server.url is not None and not http]
    return [_mcp_server(server) for server in servers if server not in useless], useless


def _mcp_server(server: McpServerSpec) -> dict[str, Any]:
    if server.url is not None:
        headers = _pairs(server.headers)
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    command, *arguments = server.command or ("",)
    return {
        "name": server.name,
        # The protocol wants to know where it is.
        "command": shutil.which(command) or command,
        "args": arguments,
        "env": _pairs(server.env),
    }


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _environment(spec: TeamSpec, surroundings: Surroundings) -> dict[str, str]:
    """A home of its own, and the model where most agents look for it."""
    home = surroundings.home / "acp"
    home.mkdir(parents=True, exist_ok=True)
    path = surroundings.env.get("PATH", os.environ.get("PATH", os.defpath))
    programs = surroundings.agents / "node_modules" / ".bin"
    url = surroundings.model_url.rstrip("/")
    return {
        "LANG": "C.UTF-8",
        **surroundings.env,
        "PATH": os.pathsep.join([str(programs), path]),
        "HOME": str(home),
        **{f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in opencode_setup.XDG},
        "ANTHROPIC_BASE_URL": f"{url}/anthropic",
        "ANTHROPIC_MODEL": spec.model,
        "OPENAI_BASE_URL": f"{url}/openai/v1",
        "OPENAI_MODEL": spec.model,
        # The forwarder adds the real ones; agents insist that there are some.
        "ANTHROPIC_API_KEY": "unused",
        "OPENAI_API_KEY": "unused",
    }


def _opencode(spec: TeamSpec, surroundings: Surroundings, arguments: tuple[str, ...]) -> Launch:
    program: Path = opencode_setup.program(surroundings.agents)
    # The MCP servers are said over the protocol.
    config = opencode_setup.config(spec, surroundings, permission="ask") | {"mcp": {}}
    # It does not pass on what its workers ask: their first tool call would wait for ever.
    config["permission"]["task"] = "deny"
    opencode_setup.write(surroundings, config)
    return Launch((str(program), *arguments), opencode_setup.environment(surroundings))


# Agents that need more than an environment to find the model.
_KNOWN: Mapping[str, Callable[[TeamSpec, Surroundings, tuple[str, ...]], Launch]] = {
    "opencode": _opencode,
}
