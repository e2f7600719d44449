from __future__ import annotations

import os
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator

from agentos.integrations.tools.schemas import Argument, McpServer
from agentos.integrations.workspaces.errors import BadPath
from agentos.integrations.workspaces.workspace import checked_path
from agentos.tenancy.schemas import Body, Name

ProviderName = Literal["native", "claude-code", "opencode", "acp"]
RuntimeName = Literal["local", "docker"]
TeamStatus = Literal[
    "stopped", "starting", "running", "degraded", "crash_loop", "repairing", "error"
]

# The name of a file, of a sub-agent and of a folder: what every agent CLI takes there.
Handle = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")]
# Not stripped: Markdown may begin with spaces.
Markdown = Annotated[
    str, StringConstraints(max_length=200_000, strip_whitespace=False, pattern=r"^[^\x00]*$")
]
Glob = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Line = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


def _check_path(path: str) -> None:
    try:
        plain = os.fsdecode(checked_path(path))
    except BadPath:
        plain = ""
    if not path or plain != path or path == "." or not path.isprintable():
        raise ValueError("each must be a plain path within the skill, such as notes/style.md")
    if path.lower() == "skill.md":
        raise ValueError("SKILL.md is made of the instructions")


class Permissions(Body):
    """What an agent may do, checked before each tool call and in this order. Null does not restrict."""

    tools: Annotated[list[ToolName], Field(max_length=200)] | None = Field(
        None, description="The tools it may use, by the provider's names for them."
    )
    denied_commands: Annotated[list[Glob], Field(max_length=200)] = Field(
        default_factory=list, description="Shell commands it must not run.", examples=[["rm *"]]
    )
    allowed_commands: Annotated[list[Glob], Field(max_length=200)] | None = Field(
        None, description="The only shell commands it may run.", examples=[["git *", "pytest*"]]
    )
    files: Annotated[list[Glob], Field(max_length=200)] | None = Field(
        None,
        description="Paths below the workspace that it may read and write.",
        examples=[["src/**"]],
    )
    ask: Annotated[list[ToolName], Field(max_length=200)] = Field(
        default_factory=list,
        description="Tools that a person is asked about each time; `*` for all.",
    )


class Skill(Body):
    """Something that agents know how to do: a folder with a SKILL.md."""

    name: Handle
    description: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    instructions: Markdown
    files: dict[str, Markdown] = Field(
        default_factory=dict, max_length=50, description="More text files, by their path within it."
    )

    @field_validator("files")
    @classmethod
    def _paths(cls, files: dict[str, str]) -> dict[str, str]:
        for path in files:
            _check_path(path)
            above = [path[:n] for n, letter in enumerate(path) if letter == "/"]
            if any(directory in files for directory in above):
                raise ValueError("one path leads through a file")
        return files


class AgentPut(Body):
    """The leader of a team, or one of its workers."""

    name: Handle
    role: Line = ""
    instructions: Markdown = ""
    model: ModelName | None = Field(None, description="Null: that of the team.")
    skills: Annotated[list[Handle], Field(max_length=100)] = Field(
        default_factory=list, description="Names of the team's skills that it is told of."
    )
    permissions: Permissions = Field(default_factory=Permissions)


class TeamDefinition(Body):
    """A team as one document: what is created, exported, imported, and a template is."""

    name: Name
    description: Annotated[str, StringConstraints(max_length=2000)] = ""
    provider: ProviderName = "native"
    runtime: RuntimeName | None = Field(
        None, description="Where a CLI provider runs. Null: `local`. A native team needs none."
    )
    model: ModelName = "auto"
    command: Annotated[list[Argument], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Of the provider acp: what starts the agent."
    )
    leader: AgentPut
    workers: Annotated[list[AgentPut], Field(max_length=50)] = Field(default_factory=list)
    skills: Annotated[list[Skill], Field(max_length=100)] = Field(default_factory=list)
    mcp_servers: Annotated[list[McpServer], Field(max_length=20)] = Field(default_factory=list)
    allowed_hosts: Annotated[list[str], Field(max_length=100)] = Field(
        default_factory=list,
        description="Hosts that its tools may reach, such as `api.example.com` or `*.example.com`.",
    )
    answer_seconds: int = Field(
        1800, ge=5, le=86_400, description="The longest an answer may take."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> TeamDefinition:
        names = [agent.name for agent in (self.leader, *self.workers)]
        if len(set(names)) < len(names):
            raise ValueError("two agents have the same name")
        skills = [skill.name for skill in self.skills]
        if len(set(skills)) < len(skills):
            raise ValueError("two skills have the same name")
        servers = [server.name for server in self.mcp_servers]
        if len(set(servers)) < len(servers):
            raise ValueError("two MCP servers have the same name")
        for agent in (self.leader, *self.workers):
            if set(agent.skills) - set(skills):
                raise ValueError(f"{agent.name} has skills the team has not")
        if (self.provider == "acp") != (self.command is not None):
            raise ValueError("a command is for the provider acp, and needed there")
        if self.provider == "native" and self.runtime is not None:
            raise ValueError("a native team runs in the worker, and has no runtime")
        return self


class TeamCreate(TeamDefinition):
    deploy: bool = Field(False, description="Also start it.")


class TeamUpdate(Body):
    """What is given is changed. Workers, skills and servers are replaced as a whole."""

    name: Name | None = None
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    runtime: RuntimeName | None = Field(None, description="Only while the team is stopped.")
    model: ModelName | None = None
    command: Annotated[list[Argument], Field(min_length=1, max_length=100)] | None = None
    leader: AgentPut | None = None
    workers: Annotated[list[AgentPut], Field(max_length=50)] | None = None
    skills: Annotated[list[Skill], Field(max_length=100)] | None = None
    mcp_servers: Annotated[list[McpServer], Field(max_length=20)] | None = None
    allowed_hosts: Annotated[list[str], Field(max_length=100)] | None = None
    answer_seconds: int | None = Field(None, ge=5, le=86_400)

    @model_validator(mode="before")
    @classmethod
    def _same_provider(cls, given: Any) -> Any:
        if isinstance(given, dict) and "provider" in given:
            raise ValueError("the provider of a team cannot be changed; make another team")
        return given

    @property
    def given(self) -> dict[str, Any]:
        """What is to be changed; null is as good as not given."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: value for name, value in values.items() if value is not None}


class TeamRead(BaseModel):
    """A team as lists show it."""

    id: UUID
    name: str
    description: str
    provider: ProviderName
    runtime: RuntimeName | None
    model: str
    agents: int = Field(description="The leader and its workers.")
    deployed: bool
    status: TeamStatus
    reason: str | None = Field(description="Why it has this status, for people.")
    status_at: datetime
    version: int
    applied_version: int = Field(description="The version that the running agent works by.")
    waiting: int = Field(description="Messages that are queued or being answered.")
    created_by: str
    created_at: datetime
    updated_at: datetime


class AgentRead(BaseModel):
    name: str
    leader: bool
    role: str
    instructions: str
    model: str | None
    skills: list[str]
    permissions: dict[str, Any]


class TeamDetails(TeamRead):
    leader: AgentRead
    workers: list[AgentRead]
    skills: list[dict[str, Any]]
    mcp_servers: list[dict[str, Any]] = Field(description="Secrets are named, never shown.")
    mcp_status: dict[str, Any] = Field(description="How each is, of a running team.")
    command: list[str] | None
    allowed_hosts: list[str]
    answer_seconds: int
    session_id: UUID | None = Field(description="Of a native team: its conversation.")


class TemplateRead(BaseModel):
    """A team to start from."""

    id: str
    name: str
    description: str
    provider: ProviderName
    agents: list[str]
    definition: dict[str, Any]


class TemplateUse(Body):
    """What is to be different in a team made of a template."""

    name: Name | None = Field(None, description="Null: the template's.")
    provider: ProviderName | None = None
    runtime: RuntimeName | None = None
    command: Annotated[list[Argument], Field(min_length=1, max_length=100)] | None = None
    model: ModelName | None = None
    deploy: bool = Field(False, description="Also start it.")
