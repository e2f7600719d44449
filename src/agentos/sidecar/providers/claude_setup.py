"""How Claude Code is started: its arguments, its environment and its settings.

Nothing in the workspace may loosen what is set here. A repository can bring a `.claude` directory
of its own, and agents can write one: its hooks, key helpers and shell lines in skills would run
without a question to the permissions gate, so that all of them are switched off.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from agentos.contracts.crew import McpServerSpec, TeamSpec
from agentos.sidecar.providers.base import ProviderMissing, Surroundings

_PROGRAMS = ("@anthropic-ai/claude-code-linux-x64", "@anthropic-ai/claude-code-linux-arm64")
_RIPGREPS = ("@vscode/ripgrep-linux-x64", "@vscode/ripgrep-linux-arm64")

# Tools that wait for a person at a terminal, or go on after the answer was given.
_WITHOUT = (
    "AskUserQuestion",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "Monitor",
    "ScheduleWakeup",
    "Workflow",
)
# A model may think for minutes before its first word.
_SILENCE_MS = "600000"
_SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Otherwise a worker's answer comes after the leader's, as a result that nobody asked for.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_WORKFLOWS": "1",
    # `@path` in a message would read the file without a question to the gate.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    # A team has the memory and the skills that it was given.
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    # The gateway has tried other providers before it reports a failure.
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "CLAUDE_ENABLE_STREAM_WATCHDOG": "1",
    "CLAUDE_ENABLE_BYTE_WATCHDOG": "1",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS": _SILENCE_MS,
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": _SILENCE_MS,
    "DISABLE_AUTOUPDATER": "1",
    # Without it, root may not use it in the way that a sandbox allows.
    "IS_SANDBOX": "1",
    # The forwarder adds the real one; the program insists that there is some.
    "ANTHROPIC_API_KEY": "unused",
}
_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
)


def program(agents: Path) -> Path:
    """The program. Raises ProviderMissing."""
    for name in _PROGRAMS:
        found = agents / "node_modules" / name / "claude"
        if found.is_file():
            return found
    raise ProviderMissing(
        "Claude Code is not installed for this team. `agentos agents install claude-code` does it."
    )


def config_directory(surroundings: Surroundings) -> Path:
    return surroundings.home / "claude"


def environment(spec: TeamSpec, surroundings: Surroundings) -> dict[str, str]:
    """The program's environment; that of this process may hold secrets and is not passed on."""
    path = surroundings.env.get("PATH", os.environ.get("PATH", os.defpath))
    basics = {"LANG": "C.UTF-8", "HOME": str(surroundings.home), **surroundings.env}
    return basics | {"PATH": _path(path, surroundings.agents)} | _own(spec, surroundings)


def arguments(
    spec: TeamSpec, surroundings: Surroundings, *, conversation: str, resume: bool
) -> list[str]:
    """What the program is called with; writes the file that names its MCP servers."""
    return [
        *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
        *("--include-partial-messages", "--forward-subagent-text"),
        *("--resume" if resume else "--session-id", conversation),
        *("--model", spec.model),
        *("--permission-prompt-tool", "stdio"),
        *("--disallowedTools", ",".join(_WITHOUT)),
        *("--settings", _settings(spec, surroundings)),
        *("--strict-mcp-config", "--mcp-config", str(_mcp_file(spec, surroundings))),
    ]


def transcript_exists(surroundings: Surroundings, conversation: str) -> bool:
    """Whether there is something to resume. A conversation without an answer has no transcript."""
    if not conversation or "/" in conversation or "*" in conversation:
        return False
    projects = config_directory(surroundings) / "projects"
    return any(projects.glob(f"*/{conversation}.jsonl"))


def _own(spec: TeamSpec, surroundings: Surroundings) -> dict[str, str]:
    return {
        **_SWITCHES,
        **dict.fromkeys(_MODELS, spec.model),
        "CLAUDE_CONFIG_DIR": str(config_directory(surroundings)),
        "ANTHROPIC_BASE_URL": f"{surroundings.model_url.rstrip('/')}/anthropic",
    }


def _settings(spec: TeamSpec, surroundings: Surroundings) -> str:
    """Settings of the command line: they outrank those of a project."""
    return msgspec.json.encode(
        {
            # Those that were registered over stdin stay in force.
            "disableAllHooks": True,
            "disableSkillShellExecution": True,
            "apiKeyHelper": "",
            "includeCoAuthoredBy": False,
            "env": _own(spec, surroundings),
        }
    ).decode()


def _mcp_file(spec: TeamSpec, surroundings: Surroundings) -> Path:
    path = surroundings.home / "claude-mcp.json"
    servers = {server.name: _mcp_server(server) for server in spec.mcp_servers}
    # It holds secrets: not even for a moment may others read it.
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode({"mcpServers": servers}))
    return path


def _mcp_server(server: McpServerSpec) -> dict[str, Any]:
    if server.url is not None:
        return {"type": "http", "url": server.url, "headers": server.headers}
    command, *rest = server.command or ("",)
    return {"type": "stdio", "command": command, "args": rest, "env": server.env}


def _path(path: str, agents: Path) -> str:
    tools = [agents / "node_modules" / name / "bin" for name in _RIPGREPS]
    return os.pathsep.join([path, *(str(tool) for tool in tools if tool.is_dir())])
