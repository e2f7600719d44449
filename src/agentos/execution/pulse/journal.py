"""The journal: what happened in a session, append-only, and the one way a worker writes to it.

Every write goes through `commit`, which moves the session, appends its steps and announces its
events in one statement, guarded by the fence of whoever owns the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from msgspec.structs import replace

from agentos.contracts.events import Event, SessionStepUncertain
from agentos.execution.pulse.schemas import StepKind, StepStatus, WaitingFor
from agentos.execution.pulse.states import ENDED, State, check_transition
from agentos.kernel.database import Transaction
from agentos.kernel.errors import Conflict
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.texts import storable

_RAW = msgspec.json.Decoder()
_UNCERTAIN = (
    "This call was interrupted before it could tell whether it happened. It was not made again. "
    "Find out what came of it before you repeat it."
)


class Fenced(Conflict):
    """Another worker owns this session now, or it was ended."""

    code = "fenced"


class Moved(Conflict):
    """Somebody else has added a step to the session."""

    code = "session_moved"


# Structs, not dataclasses: a session makes dozens of them, and these take a tenth of the time.
class Step(msgspec.Struct, frozen=True):
    """One step. `input` and `output` are plain JSON values."""

    kind: StepKind
    name: str
    at: datetime
    status: StepStatus = "done"
    key: str | None = None
    input: Any = None
    output: Any = None
    input_object: UUID | None = None
    output_object: UUID | None = None
    snapshot_id: UUID | None = None
    call_id: UUID | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int | None = None
    duration_ms: int = 0
    # Given when it is committed.
    seq: int = 0
    parent: int = 0
    # What conversation.py has read out of it, which is not done twice.
    read: Any = None


class Session(msgspec.Struct):
    """A session as its worker knows it: what the row says that only its owner changes."""

    tenant_id: TenantId
    id: UUID
    state: State
    config: dict[str, Any]
    team_id: UUID | None
    workspace_id: UUID
    principal_kind: str
    principal_id: str
    fence: int
    seq: int
    snapshot_id: UUID | None
    doing: dict[str, Any] | None
    allowed_tools: list[str]
    turns: int
    ran_ms: int
    parent_id: UUID | None
    forked_from: UUID | None
    chain_id: UUID | None
    pause_requested: bool
    waiting_for: WaitingFor | None
    created_at: datetime


# What `Session` is read from.
COLUMNS = """s.tenant_id, s.id, s.state, s.config, s.team_id, s.workspace_id, s.principal_kind,
    s.principal_id, s.fence, s.seq, s.snapshot_id, s.doing, s.allowed_tools, s.turns, s.ran_ms,
    s.parent_id, s.forked_from, s.chain_id, s.pause_requested, s.waiting_for, s.created_at"""


def session_of(row: asyncpg.Record) -> Session:
    session = Session(*[row[name] for name in Session.__struct_fields__])
    session.state = State(session.state)
    return session


class Change(msgspec.Struct, frozen=True):
    """What one commit does to a session. None leaves a thing as it is."""

    steps: Sequence[Step] = ()
    events: Sequence[Event] = ()
    state: State | None = None
    snapshot_id: UUID | None = None
    # With a rollback: the files it goes back to, which may be none at all.
    back_to: UUID | None = None
    doing: dict[str, Any] | None = None
    turns: int = 0
    # It gives up its worker: it ends, waits or goes back to the queue.
    release: bool = False
    requeue: bool = False
    waiting_for: WaitingFor | None = None
    wake_at: datetime | None = None
    result: Any = None
    error: str | None = None
    error_code: str | None = None

    def files_after(self, files: UUID | None) -> UUID | None:
        """The snapshot that the workspace is, once this is done to a session that had `files`."""
        if any(step.kind == "rollback" for step in self.steps):
            return self.back_to
        return self.snapshot_id or files


@dataclass(frozen=True, slots=True)
class Committed:
    pause_requested: bool
    # How long workers were at it, up to now if this released it.
    ran_ms: int


async def commit(tx: Transaction, session: Session, change: Change, now: datetime) -> Committed:
    """Applies a change as the session's owner; the session is as new only once `tx` has committed.

    Raises Fenced if it is not ours any more, Moved if it has steps that we have not seen.
    """
    row = await tx.row(COMMIT, [change_row(session, change, now)])
    if row is None:
        raise await why_not(tx, session)
    return Committed(row["pause_requested"], row["ran_ms"])


# Takes rows of `change_row`.
COMMIT = "select nth, pause_requested, ran_ms from commit_changes($1)"


def change_row(
    session: Session, change: Change, now: datetime, calls: Sequence[tuple[Any, ...]] = ()
) -> tuple[Any, ...]:
    """A change as the type session_change of the schema, with calls to be booked with it."""
    state = change.state or session.state
    if state != session.state:
        check_path(session.state, change)
    return (
        session.tenant_id,
        session.id,
        session.fence,
        session.seq,
        session.ran_ms,
        state,
        change.files_after(session.snapshot_id),
        change.doing,
        session.turns + change.turns,
        change.release,
        change.requeue,
        change.waiting_for,
        change.wake_at,
        storable(change.result),
        storable(change.error),
        change.error_code,
        now,
        now if state in ENDED else None,
        any(step.kind == "checkpoint" for step in change.steps),
        _step_rows(change.steps, session.seq),
        [(uuid7(), event.type, json_of(event)) for event in change.events],
        list(calls),
    )


def _step_rows(steps: Sequence[Step], last: int) -> list[tuple[Any, ...]]:
    """Steps as the type journal_step of the schema."""
    return [
        (
            last + n,
            s.parent if s.kind == "rollback" else last + n - 1,
            s.kind,
            s.name,
            s.status,
            s.key,
            encoded(s.input),
            encoded(s.output),
            s.input_object,
            s.output_object,
            s.snapshot_id,
            s.call_id,
            s.input_tokens,
            s.output_tokens,
            s.cost_micros,
            s.duration_ms,
            s.at,
        )
        for n, s in enumerate(steps, 1)
    ]


def applied(session: Session, change: Change, committed: Committed) -> None:
    """Brings the worker's copy up to what was committed."""
    session.seq += len(change.steps)
    session.state = change.state or session.state
    session.snapshot_id = change.files_after(session.snapshot_id)
    session.doing = change.doing
    session.turns += change.turns
    session.ran_ms = committed.ran_ms
    session.pause_requested = committed.pause_requested


def check_path(before: State, change: Change) -> None:
    """Every state change is a step of its own; each has to be a legal transition."""
    for step in change.steps:
        if step.kind == "state":
            after = State(step.name)
            check_transition(before, after)
            before = after
    assert before == change.state, "a change of state is in the journal"


def state_step(before: State, after: State, at: datetime, reason: str | None = None) -> Step:
    return Step(kind="state", name=after, at=at, input={"from": before}, output={"reason": reason})


def doing(key: str, tool: str, call_id: str, arguments: Any) -> dict[str, Any]:
    """The mark of a call with effects outside, to be made before the call is."""
    return storable({"key": key, "tool": tool, "call_id": call_id, "arguments": arguments})


def cut_off(session_id: UUID, mark: dict[str, Any] | None, at: datetime) -> Change:
    """The step and the event that tell of a call which may have happened; nothing if there is none."""
    if mark is None:
        return Change()
    step = Step(
        kind="tool",
        name=mark["tool"],
        at=at,
        status="uncertain",
        key=mark["key"],
        input={"call_id": mark["call_id"], "arguments": mark["arguments"]},
        output={"text": _UNCERTAIN, "failed": True},
    )
    told = SessionStepUncertain(session_id=session_id, step=mark["tool"], key=mark["key"])
    return Change(steps=[step], events=[told])


def numbered(steps: Sequence[Step], last: int) -> list[Step]:
    """Steps with their numbers, each after the one before, but for rollbacks, which say."""
    return [
        replace(
            step,
            seq=last + n,
            parent=step.parent if step.kind == "rollback" else last + n - 1,
        )
        for n, step in enumerate(steps, 1)
    ]


def encoded(value: Any) -> str | None:
    """JSON text for a value. What no text can hold is replaced, never refused."""
    if value is None:
        return None
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(storable(value)).decode()


def json_of(value: Any) -> msgspec.Raw:
    """A value, encoded, for binary JSON, which has no place for some texts that JSON has."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.Raw(msgspec.json.encode(storable(msgspec.to_builtins(value))))
    if b"\\u0000" in data:
        data = msgspec.json.encode(storable(msgspec.to_builtins(value)))
    return msgspec.Raw(data)


def decoded(text: str | None) -> Any:
    return None if text is None else _RAW.decode(text)


def step_columns(steps: Sequence[Step]) -> tuple[list[Any], ...]:
    """Steps as the arrays that `unnest` takes."""
    return (
        [s.seq for s in steps],
        [s.parent for s in steps],
        [s.kind for s in steps],
        [s.name for s in steps],
        [s.status for s in steps],
        [s.key for s in steps],
        [encoded(s.input) for s in steps],
        [encoded(s.output) for s in steps],
        [s.input_object for s in steps],
        [s.output_object for s in steps],
        [s.snapshot_id for s in steps],
        [s.call_id for s in steps],
        [s.input_tokens for s in steps],
        [s.output_tokens for s in steps],
        [s.cost_micros for s in steps],
        [s.duration_ms for s in steps],
        [s.at for s in steps],
    )


def event_columns(events: Sequence[Event]) -> tuple[list[Any], ...]:
    return (
        [uuid7() for _ in events],
        [event.type for event in events],
        [json_of(event) for event in events],
    )


_STORED = tuple(name for name in Step.__struct_fields__ if name != "read")
STEP_COLUMNS = """seq, parent, kind, name, status, key, input, output, input_object, output_object,
    snapshot_id, call_id, input_tokens, output_tokens, cost_micros, duration_ms, at"""


def unnest_steps(first: int) -> str:
    """`unnest` over the arrays of `step_columns`, whose first is parameter number `first`."""
    types = [
        "integer",
        "integer",
        "text",
        "text",
        "text",
        "text",
        "json",
        "json",
        "uuid",
        "uuid",
        "uuid",
        "uuid",
        "bigint",
        "bigint",
        "bigint",
        "integer",
        "timestamptz",
    ]
    arrays = ", ".join(f"${first + n}::{kind}[]" for n, kind in enumerate(types))
    return f"unnest({arrays}) as n ({STEP_COLUMNS})"


def unnest_events(first: int) -> str:
    return f"unnest(${first}::uuid[], ${first + 1}::text[], ${first + 2}::jsonb[]) as e (id, type, data)"


async def why_not(tx: Transaction, session: Session) -> Conflict:
    """Why a change of a session was left out."""
    row = await tx.row(
        "select fence, owner, seq from sessions where tenant_id = $1 and id = $2",
        session.tenant_id,
        session.id,
    )
    if row is None or row["fence"] != session.fence or row["owner"] is None:
        return Fenced()
    return Moved()


async def read_path(tx: Transaction, session_id: UUID, tip: int) -> list[Step]:
    """The steps in force at `tip`, first to last."""
    rows = await tx.fetch(_PATH, session_id, tip)
    return [step_of(row) for row in rows]


async def read_after(tx: Transaction, session_id: UUID, seq: int) -> list[Step]:
    """All steps after `seq`, whether in force or not."""
    rows = await tx.fetch(
        f"""select {STEP_COLUMNS} from steps
            where tenant_id = (select app_tenant()) and session_id = $1 and seq > $2 order by seq""",  # noqa: S608 - the names stand above
        session_id,
        seq,
    )
    return [step_of(row) for row in rows]


def step_of(row: asyncpg.Record) -> Step:
    values = {name: row[name] for name in _STORED}
    values["input"], values["output"] = decoded(values["input"]), decoded(values["output"])
    return Step(**values)


# Rollbacks are few: between two of them a path is a range. So the ranges are found first.
_PATH = f"""
with recursive ranges(low, high) as (
    select coalesce(r.seq, 1), $2::integer
    from (select max(seq) as seq from steps
          where tenant_id = (select app_tenant()) and session_id = $1 and kind = 'rollback'
            and seq <= $2) r
    union all
    select coalesce(b.seq, 1), a.parent
    from ranges join steps a on a.tenant_id = (select app_tenant()) and a.session_id = $1
        and a.seq = ranges.low and a.kind = 'rollback'
    cross join lateral (select max(seq) as seq from steps
          where tenant_id = (select app_tenant()) and session_id = $1 and kind = 'rollback'
            and seq <= a.parent) b
)
select {STEP_COLUMNS} from ranges join steps
    on tenant_id = (select app_tenant()) and session_id = $1 and seq between low and high
order by seq
"""  # noqa: S608 - only column lists written in this file are interpolated


def snapshot_at(path: Sequence[Step], seq: int) -> UUID | None:
    """The files as they were after a step."""
    named = [s.snapshot_id for s in path if s.snapshot_id is not None and s.seq <= seq]
    return named[-1] if named else None
