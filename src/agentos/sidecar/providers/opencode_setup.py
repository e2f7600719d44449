"""How OpenCode is started: its configuration, and the environment it sees.

Nothing in the workspace configures it, but the workers, the instructions and the skills of the
team: a project's own plugins and tools would run without a question to the permissions gate.
OpenCode has a switch for that, which half of it (1.18) does not know: its plugins are set aside.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from agentos.contracts.crew import McpServerSpec, TeamSpec
from agentos.sidecar.providers.base import ProviderMissing, Surroundings

PROVIDER = "agentos"
_PROGRAMS = ("opencode-linux-x64", "opencode-linux-arm64")
_RIPGREPS = ("@vscode/ripgrep-linux-x64", "@vscode/ripgrep-linux-arm64")
_SWITCHES = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
}
# Nobody sits at a terminal to answer these.
_WITHOUT = {"question": "deny", "plan_enter": "deny", "plan_exit": "deny"}
# OpenCode wants to know. A model that takes less says so, and OpenCode then shortens the history.
_CONTEXT_TOKENS = 200_000
_OUTPUT_TOKENS = 32_000


def program(agents: Path) -> Path:
    """Where OpenCode is installed. Raises ProviderMissing."""
    for package in _PROGRAMS:
        path = agents / "node_modules" / package / "bin" / "opencode"
        if path.is_file():
            return path
    raise ProviderMissing(
        "OpenCode is not installed for this team. `agentos agents install opencode` does it."
    )


def environment(surroundings: Surroundings) -> dict[str, str]:
    """The program's environment; that of this process may hold secrets and is not passed on."""
    path = surroundings.env.get("PATH", os.environ.get("PATH", os.defpath))
    tools = [surroundings.agents / "node_modules" / name / "bin" for name in _RIPGREPS]
    home = _directory(surroundings)
    return {
        "LANG": "C.UTF-8",
        **surroundings.env,
        "PATH": os.pathsep.join([path, *(str(tool) for tool in tools if tool.is_dir())]),
        "HOME": str(home),
        **{f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in XDG},
        **_SWITCHES,
    }


XDG = ("config", "data", "cache", "state")


def write(surroundings: Surroundings, config: dict[str, Any], plugin: str = "") -> None:
    """Puts the configuration where OpenCode reads it, in place of all that was there."""
    _set_aside_plugins(surroundings.workspace)
    directory = _configuration(surroundings)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if plugin:
        plugin_file(surroundings).write_text(plugin)
    # As if it had been installed: nothing of ours needs it, and without network OpenCode would wait
    # minutes for it before it answers anything.
    (directory / "node_modules").mkdir()
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (directory / "package-lock.json").write_bytes(msgspec.json.encode(lock))
    (directory / "agent").symlink_to(surroundings.workspace / ".opencode" / "agent")
    # It holds secrets of MCP servers: not even for a moment may others read it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(directory / "opencode.json", flags, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(config))


def _set_aside_plugins(workspace: Path) -> None:
    for place in (workspace, workspace / ".opencode"):
        for name in ("opencode.json", "opencode.jsonc"):
            if _names_plugins(place / name):
                _set_aside(place / name)
    for name in ("plugin", "plugins"):
        _set_aside(workspace / ".opencode" / name)


def _names_plugins(path: Path) -> bool:
    try:
        text = path.read_bytes()
    except OSError:
        return False
    # With an escape, a name can be written in many ways.
    return b"plugin" in text or b"\\u" in text


def _set_aside(path: Path) -> None:
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.off-{uuid4().hex[:8]}"))


def plugin_file(surroundings: Surroundings) -> Path:
    return _configuration(surroundings) / "gate.js"


def config(
    spec: TeamSpec, surroundings: Surroundings, *, permission: str, plugins: tuple[Path, ...] = ()
) -> dict[str, Any]:
    """The configuration for a team. `permission` is what OpenCode itself does about tools."""
    return {
        "$schema": "https://opencode.ai/config.json",
        "model": f"{PROVIDER}/{spec.model}",
        "small_model": f"{PROVIDER}/{spec.model}",
        "enabled_providers": [PROVIDER],
        "provider": {PROVIDER: _provider(spec, surroundings)},
        "instructions": [str(surroundings.workspace / "AGENTS.md")],
        "permission": {"*": permission, **_WITHOUT, **_allowances(permission)},
        "plugin": [path.as_uri() for path in plugins],
        "agent": _agents(spec),
        "mcp": {server.name: _mcp(server) for server in spec.mcp_servers},
        "autoupdate": False,
        "share": "disabled",
        # Undoing is the workspace's business.
        "snapshot": False,
    }


def _allowances(permission: str) -> dict[str, str]:
    """The call itself is asked about in any case; these questions come on top of it, and are only
    passed on where there is no gate."""
    return {"doom_loop": "allow", "external_directory": permission}


def _provider(spec: TeamSpec, surroundings: Surroundings) -> dict[str, Any]:
    names = {spec.model, *(agent.model for agent in spec.agents)} - {""}
    limit = {"context": _CONTEXT_TOKENS, "output": _OUTPUT_TOKENS}
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": "AgentOS",
        "options": {
            "baseURL": f"{surroundings.model_url.rstrip('/')}/openai/v1",
            # The forwarder adds the real one.
            "apiKey": "unused",
        },
        "models": {name: {"tool_call": True, "limit": limit} for name in sorted(names)},
    }


def _agents(spec: TeamSpec) -> dict[str, Any]:
    """The team's workers, and none of those that OpenCode brings."""
    workers = {
        agent.name: {"mode": "subagent", "model": f"{PROVIDER}/{agent.model or spec.model}"}
        for agent in spec.agents
        if not agent.leader
    }
    return {"general": {"disable": True}, "explore": {"disable": True}, **workers}


def _mcp(server: McpServerSpec) -> dict[str, Any]:
    if server.url is not None:
        # Signing in needs a browser: only what the headers bring counts.
        return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False}
    return {"type": "local", "command": list(server.command), "environment": server.env}


def _directory(surroundings: Surroundings) -> Path:
    return surroundings.home / "opencode"


def _configuration(surroundings: Surroundings) -> Path:
    return _directory(surroundings) / "config" / "opencode"
