from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from agentos.execution.pulse.schemas import SessionConfig
from agentos.tenancy.schemas import Body, Name

# What JMESPath takes without quotes.
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
ExpressionText = Annotated[str, StringConstraints(min_length=1, max_length=2_100)]

ChainState = Literal["CREATED", "RUNNING", "COMPLETE", "FAILED", "CANCELLED"]
NodeState = Literal["PENDING", "RUNNING", "COMPLETE", "FAILED", "SKIPPED", "CANCELLED"]


class Input(Body):
    """Something the chain is given when it is run. Without a default it has to be."""

    default: Any = None
    json_schema: dict[str, Any] | None = Field(
        None, description="What its value has to satisfy.", examples=[{"type": "string"}]
    )
    description: str | None = Field(None, max_length=2_000)


class Retry(Body):
    """How often a session that fails is tried again. The next one is told why the last failed."""

    times: int = Field(0, ge=0, le=20)
    delay_seconds: float = Field(0, ge=0, le=86_400)


class Node(SessionConfig):
    """One session of a chain, or one for each item of a list. Prompt and instructions are templates."""

    needs: list[Identifier] = Field(
        default_factory=list,
        max_length=200,
        description="Nodes that come first. Those it names in templates need not be listed.",
    )
    join: Literal["all", "any"] = Field(
        "all", description="any: one of its needs is enough, once all of them have ended."
    )
    when: ExpressionText | None = Field(None, description="Skipped unless this is true.")
    for_each: ExpressionText | list[Any] | None = Field(
        None, description="A list: one session for each item, which is `item` in the templates."
    )
    max_parallel: int = Field(10, ge=1, le=1000, description="Of for_each, so many at once.")
    retry: Retry = Field(default_factory=Retry)
    on_fail: Literal["fail", "continue"] = Field(
        "fail", description="continue: nodes that need it run all the same."
    )
    files_from: Identifier | None = Field(
        None, description="The node whose files this one begins with."
    )


class ChainDefinition(Body):
    """Sessions that build upon each other."""

    name: Name = Field(examples=["review"])
    inputs: dict[Identifier, Input | None] = Field(default_factory=dict, max_length=100)
    nodes: dict[Identifier, Node] = Field(
        min_length=1, examples=[{"draft": {"prompt": "Write a haiku."}}]
    )
    output: ExpressionText | None = Field(
        None, description="What the chain comes to. Null: the outputs of nodes that nobody needs."
    )
    priority: int = Field(0, ge=-100, le=100, description="Of its sessions.")
    team_id: UUID | None = None


class ChainCreate(ChainDefinition):
    values: dict[str, Any] = Field(default_factory=dict, description="Values of the inputs.")
    run: bool = Field(True, description="False: it stays CREATED until it is told to run.")


class ChainRetry(Body):
    node: Identifier | None = Field(
        None, description="Run this node and all after it again. Null: what has failed."
    )


class ChainChecked(BaseModel):
    """A chain that is valid."""

    name: str
    layers: list[list[str]] = Field(description="Nodes in order; those of a layer run at once.")
    needs: dict[str, list[str]] = Field(description="Of each node, those named in templates too.")
    missing_inputs: list[str] = Field(description="Inputs that have to be given to run it.")


class ChainRead(BaseModel):
    """A chain as lists show it."""

    id: UUID
    name: str
    state: ChainState
    nodes_total: int
    nodes_ended: int
    error: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime


class ItemRead(BaseModel):
    """One item of a node with for_each."""

    item: int
    state: NodeState
    tries: int
    session_id: UUID | None
    output: Any
    truncated: bool = Field(description="The output is long: its session has it.")
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None


class NodeRead(BaseModel):
    id: str
    state: NodeState
    needs: list[str]
    tries: int
    session_id: UUID | None
    output: Any = Field(description="What its session came to. With for_each, see its items.")
    truncated: bool = Field(description="The output is long: its session has it.")
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None
    items: list[ItemRead] | None = Field(description="With for_each, once its list is known.")


class ChainDetails(ChainRead):
    pct: float = Field(description="How many of its nodes have ended.")
    definition: dict[str, Any]
    inputs: dict[str, Any] = Field(description="Their values.")
    output: Any
    layers: list[list[str]]
    nodes: list[NodeRead] = Field(description="In the order in which they can run.")
