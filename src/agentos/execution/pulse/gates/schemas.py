from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, model_validator

from agentos.tenancy.schemas import Body, Name

AnyGate = TypeVar("AnyGate", bound="_Gate")
OnFail = Literal["fail", "retry", "rollback"]


class _Gate(Body):
    name: Name
    on_fail: OnFail = Field("fail", description="retry: the agent is told why, and goes on.")
    retries: int = Field(
        2, ge=0, le=20, description="With on_fail retry: how often, then it fails."
    )


def _not_to_be_put_right(gate: AnyGate) -> AnyGate:
    if gate.on_fail == "retry":
        raise ValueError("what was spent cannot be put right: use on_fail fail or rollback")
    return gate


class CommandGate(_Gate):
    """Passes if a command, run in the sandbox without a network, ends with the exit code.

    What it changes in the workspace is put back.
    """

    kind: Literal["command"]
    command: str = Field(min_length=1, max_length=10_000)
    exit_code: int = Field(0, ge=0, le=255)
    seconds: int = Field(120, ge=1, le=3600)


class TestsGate(_Gate):
    """Passes if the project's tests do. Without a command it looks for the usual ones."""

    kind: Literal["tests"]
    command: str | None = Field(None, min_length=1, max_length=10_000)
    seconds: int = Field(300, ge=1, le=3600)


class SchemaGate(_Gate):
    """Passes if the session's output, as JSON, satisfies a JSON Schema."""

    kind: Literal["schema"]
    json_schema: dict[str, Any]


class FileGate(_Gate):
    """Passes if a file exists, and, if asked, a line of it matches a regular expression."""

    kind: Literal["file"]
    path: str = Field(min_length=1, max_length=4096)
    matches: Annotated[str, StringConstraints(strip_whitespace=False)] | None = Field(
        None, max_length=10_000, description="Found anywhere in a line."
    )
    absent: bool = Field(False, description="Passes if there is nothing at the path.")

    @model_validator(mode="after")
    def _one_of_them(self) -> FileGate:
        if self.absent and self.matches is not None:
            raise ValueError("what is absent cannot match")
        return self


class CostGate(_Gate):
    """Passes if the session cost no more, by the ledger."""

    kind: Literal["cost"]
    most_micros: int = Field(ge=0)

    _final = model_validator(mode="after")(_not_to_be_put_right)


class TimeGate(_Gate):
    """Passes if the session ran no longer; waiting does not count."""

    kind: Literal["time"]
    most_seconds: float = Field(gt=0)

    _final = model_validator(mode="after")(_not_to_be_put_right)


class RubricGate(_Gate):
    """Passes if a model, asked several times, judges that the result meets the rubric."""

    kind: Literal["rubric"]
    rubric: str = Field(min_length=1, max_length=20_000)
    model: str | None = Field(None, max_length=200, description="Null: the session's own.")
    votes: int = Field(3, ge=1, le=9)
    needed: int | None = Field(None, ge=1, description="Votes to pass. Null: more than half.")

    @model_validator(mode="after")
    def _reachable(self) -> RubricGate:
        if self.needed is not None and self.needed > self.votes:
            raise ValueError("needed is more than votes")
        return self


class ApprovalGate(_Gate):
    """Passes if a person approves."""

    kind: Literal["approval"]
    question: str = Field(min_length=1, max_length=10_000)


Gate = Annotated[
    CommandGate
    | TestsGate
    | SchemaGate
    | FileGate
    | CostGate
    | TimeGate
    | RubricGate
    | ApprovalGate,
    Field(discriminator="kind"),
]
