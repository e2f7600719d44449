"""Claude Code reads CLAUDE.md, agents and skills in `.claude`, when it starts."""

from __future__ import annotations

from typing import Any

from agentos.execution.crews.layouts.layout import Layout, Link
from agentos.execution.crews.layouts.texts import (
    SKILLS,
    leader_text,
    skill_files,
    summary,
    with_front_matter,
    worker_text,
)
from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut

_CALLING = (
    "Call them as sub-agents, by these names, with everything they need to know: they see nothing "
    "of this conversation. Tasks that do not need each other may go out together."
)


def render(team: Definition) -> Layout:
    files: dict[str, bytes | Link] = {".claude/CLAUDE.md": leader_text(team, _CALLING).encode()}
    for worker in team.workers:
        files[f".claude/agents/{worker.name}.md"] = with_front_matter(
            _head(worker), worker_text(team, worker)
        )
    files.update(skill_files(team.skills))
    for skill in team.skills:
        files[f".claude/skills/{skill.name}"] = Link(f"../../{SKILLS}/{skill.name}")
    return files


def _head(worker: AgentPut) -> dict[str, Any]:
    head = {"name": worker.name, "description": summary(worker)}
    if worker.permissions.tools is not None:
        head["tools"] = ", ".join(worker.permissions.tools)
    if worker.model is not None:
        head["model"] = worker.model
    return head
