"""Any other agent CLI: AGENTS.md and skills, which most of them read.

The protocol knows no sub-agents. So the workers become roles that the leader takes on itself.
"""

from __future__ import annotations

from agentos.execution.crews.layouts.layout import Layout, Link
from agentos.execution.crews.layouts.texts import leader_text, skill_files, worker_text
from agentos.execution.crews.repository import Definition

_ROLES = ".agents/roles"
_CALLING = (
    "You cannot call them. When a task is for one of them, read its file in "
    f"`{_ROLES}/`, do the task as it says, and then go on as yourself."
)


def render(team: Definition) -> Layout:
    files: dict[str, bytes | Link] = {"AGENTS.md": leader_text(team, _CALLING).encode()}
    for worker in team.workers:
        files[f"{_ROLES}/{worker.name}.md"] = worker_text(team, worker).encode()
    files.update(skill_files(team.skills))
    return files
