from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field

from agentos.execution.pulse.schemas import (
    ChangedFile,
    Prompt,
    SessionDetails,
    StepKind,
    StepStatus,
)
from agentos.tenancy.schemas import Body, Name


def _storable(prompt: str) -> str:
    if "\0" in prompt:
        raise ValueError("contains a zero byte")
    return prompt


# Journals are counted in 32 bits.
MOST_SEQ = 2**31 - 1

MorePrompt = Annotated[Prompt, AfterValidator(_storable)]
_Model = Field(None, min_length=1, max_length=200, description="Null: the one it had.")


class SessionContinue(Body):
    prompt: MorePrompt = Field(examples=["Now write the tests, too"])
    model: str | None = _Model


class CheckpointCreate(Body):
    name: Name = Field(examples=["before the change"])


class CheckpointRead(BaseModel):
    """A named place in a session to go back to."""

    id: UUID
    session_id: UUID
    seq: int
    name: str
    in_force: bool = Field(description="False: a rollback went back behind it.")
    has_files: bool = Field(description="There were files in the workspace.")
    created_at: datetime


class CheckpointRestore(Body):
    prompt: MorePrompt | None = Field(
        None, description="What to do from there. Null: go on with what was being done."
    )
    model: str | None = _Model


class RollbackCreate(Body):
    """Where to go back to: one of both."""

    to_seq: int | None = Field(
        None, ge=1, le=MOST_SEQ, description="The last step that stays.", examples=[1]
    )
    checkpoint_id: UUID | None = None


class SessionFork(Body):
    seq: int = Field(
        ge=1, le=MOST_SEQ, description="The last step that the new session shares.", examples=[1]
    )
    prompt: MorePrompt | None = Field(
        None, description="Added to the conversation; in place of the first prompt if that is all."
    )
    model: str | None = _Model
    instructions: str | None = Field(None, max_length=400_000, description="Null: those it had.")
    run: bool = Field(True, description="False: it stays CREATED until it is told to run.")


class StepShort(BaseModel):
    """A step by its name."""

    seq: int
    kind: StepKind
    name: str
    status: StepStatus


class OutsideEffect(StepShort):
    """A tool call that changed, or may have changed, something outside of the workspace."""

    reason: Literal["outside", "uncertain"] = Field(
        description="outside: what it did is not undone. uncertain: whether it happened is unknown."
    )


class RollbackPreview(BaseModel):
    """What going back to a step would do."""

    to_seq: int
    files: list[ChangedFile] = Field(description="How files would change.")
    more_files: int = Field(description="Files beyond those listed.")
    undone: list[StepShort] = Field(description="Steps no longer in force, oldest first.")
    more_undone: int
    undone_messages: int = Field(description="Prompts and answers among them.")
    restored: list[StepShort] = Field(
        description="Steps in force again: it undoes an earlier rollback."
    )
    more_restored: int
    effects: list[OutsideEffect] = Field(description="What happened outside, and stays.")
    cost_micros: int = Field(description="What the undone steps cost. It stays spent.")
    withdrawn_approvals: int
    cancelled_sub_agents: int


class RolledBack(BaseModel):
    """A session after going back."""

    to_seq: int
    undo_seq: int = Field(description="Rolling back to this step undoes it.")
    session: SessionDetails


class FileChange(ChangedFile):
    encoded_path: str = Field(
        description="The path as `path=` takes it: names need not be UTF-8, so byte by byte."
    )


class FileChanges(BaseModel):
    """How the workspace differs between two steps."""

    from_seq: int = Field(description="0: before the first step.")
    to_seq: int
    files: list[FileChange]
    more_files: int


class FileDiff(BaseModel):
    """How a text file differs between two steps."""

    path: str
    from_seq: int
    to_seq: int
    diff: str = Field(description="In the unified format; empty if nothing differs.")


class ModelCost(BaseModel):
    provider: str
    model: str
    calls: int
    failed_calls: int
    unpriced_calls: int = Field(description="Calls whose price is not known.")
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_micros: int | None = Field(description="What the provider charges. Null: unknown.")
    rated_micros: int | None = Field(description="What AgentOS charges. Null: unknown.")


class ComputeCost(BaseModel):
    seconds: int
    rated_micros: int


class CostSum(BaseModel):
    sessions: int
    calls: int
    unpriced_calls: int
    tokens: int
    cost_micros: int = Field(description="With unpriced calls, at least this.")
    rated_micros: int = Field(description="With unpriced calls, at least this.")
    compute: ComputeCost
    total_micros: int = Field(description="Model calls as rated, and compute.")


class StepsCost(BaseModel):
    """What the journal says. Calls that did not become a step are only in the ledger."""

    cost_micros: int
    undone_micros: int = Field(description="Of it, by steps that rollbacks have undone.")
    tokens: int


class BudgetLeft(BaseModel):
    cap_micros: int
    spent_micros: int
    left_micros: int = Field(description="Not spent yet; calls under way may have reserved some.")


class SessionCost(BaseModel):
    """What a session costs, from the ledger, in micro-dollars."""

    session_id: UUID
    models: list[ModelCost]
    own: CostSum
    sub_agents: CostSum = Field(description="All sessions that it started, and theirs.")
    total_micros: int = Field(description="Its own and that of its sub-agents.")
    steps: StepsCost
    budget: BudgetLeft | None
