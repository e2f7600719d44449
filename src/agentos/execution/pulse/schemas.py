from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator

from agentos.execution.crews.schemas import Handle, Permissions
from agentos.execution.pulse.gates.schemas import Gate
from agentos.execution.pulse.states import State
from agentos.integrations.tools.schemas import McpServer
from agentos.tenancy.schemas import Body, Name

WaitingFor = Literal["pause", "approval", "children", "budget", "retry"]
StepKind = Literal[
    "message",
    "state",
    "model",
    "tool",
    "checkpoint",
    "gate",
    "rollback",
    "compaction",
    "approval",
]
StepStatus = Literal["done", "failed", "uncertain"]

# A billion dollars, as for budgets.
_MOST_MICROS = 10**15
_MOST_FILE_TEXT = 1_000_000
_TITLE = 80

# Not stripped: spaces and line breaks may mean something to the model.
Whole = Annotated[str, StringConstraints(strip_whitespace=False)]
Prompt = Annotated[str, StringConstraints(min_length=1, max_length=400_000, strip_whitespace=False)]


class Guards(Body):
    """What ends a session that does not end by itself. All are on unless you raise them.

    They count anew each time the session is continued.
    """

    max_turns: int = Field(50, ge=1, le=1000, description="Model calls in all.")
    max_tokens: int | None = Field(
        1_000_000, ge=1, description="Tokens in and out in all. Null: as many as the plan allows."
    )
    max_seconds: int | None = Field(
        None, ge=1, description="Running time; waiting does not count. Null: what the plan allows."
    )
    max_repeats: int = Field(
        3, ge=1, le=100, description="The same tool call with the same answer, nothing new between."
    )


class ApprovalRules(Body):
    """What becomes of an approval that nobody decides."""

    expires_seconds: int = Field(604_800, ge=1, le=31_536_000)
    on_expiry: Literal["reject", "approve", "fail"] = "reject"


class AgentProfile(Body):
    """An agent that a session can call by its name: as whom, with what, and within which limits."""

    name: Handle
    description: str = Field("", max_length=2000, description="What it is for: the caller is told.")
    instructions: Whole | None = Field(None, max_length=400_000)
    model: str | None = Field(
        None, min_length=1, max_length=200, description="Null: that of the session."
    )
    permissions: Permissions = Field(default_factory=Permissions)


class SessionConfig(Body):
    """What a session shall do, with what, and within which limits."""

    prompt: Prompt = Field(examples=["Write a haiku generator in Python and test it"])
    instructions: Whole | None = Field(
        None, max_length=400_000, description="The system prompt. Null: a plain one for the tools."
    )
    model: str = Field("auto", min_length=1, max_length=200, examples=["auto", "demo"])
    max_output_tokens: int = Field(8192, ge=1, le=1_000_000, description="Of one model call.")
    temperature: float | None = Field(None, ge=0, le=2)
    tools: list[str] | None = Field(
        None,
        max_length=200,
        description="By name. Null: the usual ones. A list names those of the engine, too, such as "
        "update_plan, ask_human and spawn_agents.",
    )
    mcp_servers: list[McpServer] = Field(default_factory=list, max_length=20)
    allowed_hosts: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Hosts that tools may reach, such as `api.example.com` or `*.example.com`.",
    )
    output_schema: dict[str, Any] | None = Field(
        None, description="JSON Schema that the result has to satisfy."
    )
    files: dict[str, Whole] = Field(
        default_factory=dict, description="Text files to start with, by their path."
    )
    gates: list[Gate] = Field(default_factory=list, max_length=20)
    guards: Guards = Field(default_factory=Guards)
    approvals: ApprovalRules = Field(default_factory=ApprovalRules)
    budget_micros: int | None = Field(
        None, ge=0, le=_MOST_MICROS, description="A hard cap on what its model calls may cost."
    )
    sub_agents: bool = Field(True, description="Whether it may start sessions of its own.")
    agents: list[AgentProfile] = Field(
        default_factory=list,
        max_length=50,
        description="Sub-agents that it can call by name with spawn_agents.",
    )
    permissions: Permissions | None = Field(
        None,
        description="What its tools may do, besides what the tools policy of the tenant allows.",
    )

    @field_validator("files")
    @classmethod
    def _small(cls, files: dict[str, str]) -> dict[str, str]:
        if sum(len(text) for text in files.values()) > _MOST_FILE_TEXT:
            raise ValueError(f"have more than {_MOST_FILE_TEXT:,} characters in all")
        return files

    @model_validator(mode="after")
    def _gates_have_names_of_their_own(self) -> SessionConfig:
        names = [gate.name for gate in self.gates]
        if len(set(names)) < len(names):
            raise ValueError("two gates have the same name")
        return self

    @model_validator(mode="after")
    def _agents_have_names_of_their_own(self) -> SessionConfig:
        names = [agent.name for agent in self.agents]
        if len(set(names)) < len(names):
            raise ValueError("two agents have the same name")
        return self


class SessionCreate(SessionConfig):
    title: Name | None = Field(None, description="Null: the beginning of the prompt.")
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first within the tenant.")
    team_id: UUID | None = None
    run: bool = Field(True, description="False: it stays CREATED until it is told to run.")


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which are meant; what is empty does not restrict."""

    states: Sequence[State] = ()
    team_id: UUID | None = None
    parent_id: UUID | None = None
    chain_id: UUID | None = None
    # All of them are in the title, in any order and in any case.
    words: Sequence[str] = ()


class SessionRead(BaseModel):
    """A session as lists show it."""

    id: UUID
    title: str
    state: State
    waiting_for: WaitingFor | None
    queued: bool = Field(description="It waits for its turn.")
    model: str
    priority: int
    team_id: UUID | None
    turns: int = Field(description="Model calls since it was made or last continued.")
    steps: int
    cost_micros: int = Field(description="What its model calls cost, as the ledger has it.")
    tokens: int
    ran_ms: int = Field(
        description="Running time since it was made or last continued; waiting does not count."
    )
    error: str | None
    error_code: str | None
    parent_id: UUID | None
    forked_from: UUID | None
    forked_seq: int | None
    chain_id: UUID | None
    chain_node: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime


class SessionDetails(SessionRead):
    config: dict[str, Any]
    result: SessionResult | None
    position: int | None = Field(description="1: the next of this tenant. Null: it is not queued.")
    allowed_tools: list[str] = Field(description="Approved for good in this session.")


class ChangedFile(BaseModel):
    path: str
    kind: Literal["added", "changed", "removed"]
    size_before: int | None
    size_after: int | None


class SessionResult(BaseModel):
    """What a session has come to."""

    text: str
    output: Any = Field(None, description="With an output_schema, the value that satisfies it.")
    files: list[ChangedFile]
    more_files: int = Field(0, description="Changed files beyond those listed.")


class StepRead(BaseModel):
    """One step of the journal."""

    seq: int
    parent: int = Field(description="The step before it on its path.")
    in_force: bool = Field(description="False: a rollback went back behind it.")
    kind: StepKind
    name: str
    status: StepStatus
    key: str | None
    input: Any
    output: Any
    truncated: bool = Field(description="Input or output is too large for a list: read the step.")
    has_files: bool = Field(description="The workspace was kept with it.")
    input_tokens: int
    output_tokens: int
    cost_micros: int | None
    duration_ms: int
    at: datetime


SessionDetails.model_rebuild()


def title_of(prompt: str) -> str:
    """The beginning of a prompt, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in prompt).split())
    return (line if len(line) <= _TITLE else line[: _TITLE - 1] + "…") or "Session"
