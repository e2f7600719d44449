"""A native team as the configuration of the session that is its conversation."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.execution.crews.layouts.texts import SKILLS
from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut, Skill
from agentos.execution.pulse.schemas import AgentProfile, Guards, SessionConfig
from agentos.execution.pulse.sub_agents.profiles import allowed_tools

ATTACHMENTS_FOLDER = "attachments"
MEMORY_FILE = "MEMORY.md"

# An answer is limited by its time and the budgets; these only end what goes round in circles.
_MOST_TURNS = 300

_HOW = """You work in a workspace of your own: a directory that lasts from message to message. Each \
message is a task; when it is done, answer with what came of it. What you want to remember beyond \
this conversation, write to {memory}: it is shown to you with every message."""
_ROSTER = """You lead a team. Hand parts of the work to its members with spawn_agents, naming each in \
`agent`; they do not see this conversation, and each starts with a copy of your files. What they \
changed comes back with collect_files. The members:"""
_SKILLS = "Read the file of a skill before you do what it is about:"


def config_of(team: Definition, prompt: str) -> SessionConfig:
    """What the leader works by, as the team is now."""
    leader = team.leader
    return SessionConfig(
        prompt=prompt,
        instructions=_leader_prompt(team),
        model=leader.model or team.model,
        tools=allowed_tools(leader.permissions.tools),
        mcp_servers=list(team.mcp_servers),
        allowed_hosts=list(team.allowed_hosts),
        guards=Guards(max_turns=_MOST_TURNS, max_tokens=None, max_seconds=team.answer_seconds),
        agents=[_profile(team, worker) for worker in team.workers],
        permissions=leader.permissions,
    )


def prompt_of(text: str, attachments: Sequence[str]) -> str:
    """A message as the leader is told it."""
    if not attachments:
        return text
    named = "\n".join(f"- {ATTACHMENTS_FOLDER}/{name}" for name in attachments)
    return f"{text}\n\nFiles that came with this message:\n{named}"


def _leader_prompt(team: Definition) -> str:
    leader = team.leader
    members = "\n".join(_member(worker) for worker in team.workers)
    parts = [
        _who(leader, team.name),
        leader.instructions,
        f"{_ROSTER}\n{members}" if members else "",
        _skills(team.skills, leader),
        _HOW.format(memory=MEMORY_FILE),
    ]
    return "\n\n".join(part for part in parts if part)


def _profile(team: Definition, worker: AgentPut) -> AgentProfile:
    parts = [_who(worker, team.name), worker.instructions, _skills(team.skills, worker)]
    return AgentProfile(
        name=worker.name,
        description=worker.role,
        instructions="\n\n".join(part for part in parts if part),
        model=worker.model or team.model,
        permissions=worker.permissions,
    )


def _who(agent: AgentPut, team: str) -> str:
    role = f" Your role: {agent.role}" if agent.role else ""
    return f'You are {agent.name}, of the team "{team}".{role}'


def _member(worker: AgentPut) -> str:
    return f"- {worker.name}: {worker.role}" if worker.role else f"- {worker.name}"


def _skills(skills: Sequence[Skill], agent: AgentPut) -> str:
    lines = [
        f"- {skill.name} ({SKILLS}/{skill.name}/SKILL.md): {skill.description}"
        for skill in skills
        if skill.name in agent.skills
    ]
    return "\n".join([_SKILLS, *lines]) if lines else ""
