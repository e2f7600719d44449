"""OpenCode reads AGENTS.md, agents in `.opencode/agent` and skills in `.agents/skills`."""

from __future__ import annotations

from agentos.execution.crews.layouts.layout import Layout, Link
from agentos.execution.crews.layouts.texts import (
    leader_text,
    skill_files,
    summary,
    with_front_matter,
    worker_text,
)
from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut

# What the sidecar calls AgentOS's models in OpenCode's configuration.
_PROVIDER = "agentos"
_CALLING = (
    "Call them with the task tool, by these names, with everything they need to know: they see "
    "nothing of this conversation. Tasks that do not need each other may go out together."
)


def render(team: Definition) -> Layout:
    files: dict[str, bytes | Link] = {"AGENTS.md": leader_text(team, _CALLING).encode()}
    for worker in team.workers:
        files[f".opencode/agent/{worker.name}.md"] = with_front_matter(
            _head(worker), worker_text(team, worker)
        )
    files.update(skill_files(team.skills))
    return files


def _head(worker: AgentPut) -> dict[str, str]:
    # No `tools`: the sidecar asks before each call, and OpenCode refuses what others write there.
    head = {"description": summary(worker), "mode": "subagent"}
    if worker.model is not None:
        head["model"] = f"{_PROVIDER}/{worker.model}"
    return head
