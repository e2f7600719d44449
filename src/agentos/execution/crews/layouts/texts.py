"""The words that agents are told who they are with, for the layouts of all providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut, Skill

SKILLS = ".agents/skills"

_PLACES = """## Where things are

- `attachments/`: files that people have sent with their messages.
- `MEMORY.md`: your notes. Read it when a conversation begins, and write down there what should
  still be known after it: decisions, preferences, where things are. Keep it short and true.
- `.agentos/`, `.agents/`, and the file that you are reading are kept by AgentOS, which writes them
  anew whenever the team is changed. Do not edit them.
- Everything else here is yours to work in.
"""


def with_front_matter(fields: Mapping[str, Any], body: str) -> bytes:
    """A Markdown file that begins with YAML."""
    head = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True, width=1_000_000)
    return f"---\n{head}---\n\n{body}".encode()


def leader_text(team: Definition, calling: str) -> str:
    """All that the leader is told. `calling` says how workers are called, if there are any."""
    parts = [
        f"# {team.name}",
        team.description.strip(),
        _person(team.leader, f"You lead this team, as {team.leader.name}"),
        team.leader.instructions.strip(),
        _roster(team.workers, calling),
        _skills(team, team.leader),
        _PLACES,
    ]
    return _joined(parts)


def worker_text(team: Definition, worker: AgentPut) -> str:
    """All that a worker is told."""
    parts = [
        _person(worker, f"You are {worker.name} of the team {team.name}"),
        worker.instructions.strip(),
        f"You work for {team.leader.name}, who leads the team and sees nothing of your work but "
        "your last message. Let that say what you found or did, where the files are, and what "
        "is left open.",
        _skills(team, worker),
    ]
    return _joined(parts)


def summary(worker: AgentPut) -> str:
    """What others know of a worker: when to call it."""
    return worker.role or f"{worker.name}, a worker of the team"


def skill_files(skills: Iterable[Skill]) -> dict[str, bytes]:
    """A folder for each skill, where all agent CLIs look for them."""
    files: dict[str, bytes] = {}
    for skill in skills:
        folder = f"{SKILLS}/{skill.name}"
        head = {"name": skill.name, "description": _one_line(skill.description)}
        files[f"{folder}/SKILL.md"] = with_front_matter(head, skill.instructions)
        for path, text in skill.files.items():
            files[f"{folder}/{path}"] = text.encode()
    return files


def _person(agent: AgentPut, words: str) -> str:
    return f"{words}: {agent.role.rstrip('.')}." if agent.role else f"{words}."


def _roster(workers: Iterable[AgentPut], calling: str) -> str:
    lines = [f"- `{worker.name}`: {summary(worker)}" for worker in workers]
    return "\n".join(["## Your workers", "", calling, "", *lines]) if lines else ""


def _skills(team: Definition, agent: AgentPut) -> str:
    lines = [
        f"- `{skill.name}`: {_one_line(skill.description)} (`{SKILLS}/{skill.name}/SKILL.md`)"
        for skill in team.skills
        if skill.name in agent.skills
    ]
    head = ["## Your skills", "", "Read a skill's file before you do what it is about.", ""]
    return "\n".join([*head, *lines]) if lines else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
