"""What a native team did for a message, read from the journal of its conversation."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

import msgspec

from agentos.contracts.crew import Deed
from agentos.execution.crews.messages.finishing import MOST_DEEDS
from agentos.execution.pulse.engine_tools.names import SPAWN_AGENTS
from agentos.execution.pulse.journal import STEP_COLUMNS, Step, encoded, step_of
from agentos.kernel.database import Transaction

DeedState = Literal["running", "done", "failed", "denied"]

_SUMMARY = 300


# The step with which it was last spoken to: what follows is about that.
_ASKED = """(select coalesce(max(seq), 0) from steps where tenant_id = $1 and session_id = $2
    and kind = 'message' and name = 'user')"""


async def activity(tx: Transaction, tenant_id: UUID, session_id: UUID) -> list[dict[str, Any]]:
    """What the leader did since it was last spoken to, as the API shows it."""
    rows = await tx.fetch(
        f"""select {STEP_COLUMNS} from steps
            where tenant_id = $1 and session_id = $2 and kind = 'tool' and seq > {_ASKED}
            order by seq limit $3""",  # noqa: S608 - the names stand above and in journal.py
        tenant_id,
        session_id,
        MOST_DEEDS,
    )
    return [msgspec.structs.asdict(deed) for row in rows for deed in deeds_of(step_of(row))]


async def usage(tx: Transaction, tenant_id: UUID, session_id: UUID) -> tuple[int, int, int]:
    """Tokens in, tokens out and cost since it was last spoken to, those of workers included."""
    row = await tx.row(
        f"""with recursive asked(seq) as materialized (select {_ASKED}),
           workers(id) as (
               select s.id from sessions s, asked where s.tenant_id = $1 and s.parent_id = $2
                 -- The key of the call that started it begins with the step of that call.
                 and split_part(s.parent_call, '.', 1)::integer > asked.seq
               union all
               select s.id from workers w join sessions s on s.tenant_id = $1 and s.parent_id = w.id
           ), taken as (
               select input_tokens, output_tokens, cost_micros from steps, asked
               where tenant_id = $1 and session_id = $2 and steps.seq > asked.seq
               union all
               select n.input_tokens, n.output_tokens, n.cost_micros
               from workers w join steps n on n.tenant_id = $1 and n.session_id = w.id
           )
           select coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
               coalesce(sum(cost_micros), 0)::bigint from taken""",  # noqa: S608 - see above
        tenant_id,
        session_id,
    )
    assert row is not None, "sums are one row"
    return row[0], row[1], row[2]


def deeds_of(step: Step) -> list[Deed]:
    """What a step with a tool shows of it."""
    given = step.input if isinstance(step.input, dict) else {}
    return deeds(step.key or "", step.name, given.get("arguments"), _state(step))


def deeds(key: str, tool: str, arguments: Any, state: DeedState) -> list[Deed]:
    """What a call is shown as; one that calls workers, once for each."""
    read = _decoded(arguments)
    tasks = read.get("tasks") if tool == SPAWN_AGENTS else None
    if isinstance(tasks, list):
        called = [task for task in tasks if isinstance(task, dict)]
        return [_calling(f"{key}.{n}", task, state) for n, task in enumerate(called)]
    # The one thing that most tools are about; else all of it.
    about = next((read[name] for name in ("command", "path", "url", "query") if name in read), read)
    text = about if isinstance(about, str) else encoded(about) or ""
    return [Deed(id=key, tool=tool, summary=text[:_SUMMARY] if read else "", state=state)]


def of_worker(deed: Deed, session_id: UUID, agent: str | None) -> Deed:
    """A deed as the chat shows it: those of a team worker by its name, and apart from others' ids.

    `agent` is None for the leader. Who calls somebody is shown by whom it calls.
    """
    if agent is None:
        return deed
    return msgspec.structs.replace(deed, id=f"{session_id}.{deed.id}", agent=deed.agent or agent)


def _calling(key: str, task: dict[str, Any], state: DeedState) -> Deed:
    agent = task.get("agent")
    return Deed(
        id=key,
        tool=SPAWN_AGENTS,
        summary=str(task.get("title") or task.get("prompt", ""))[:_SUMMARY],
        state=state,
        agent=None if agent is None else str(agent),
    )


def _state(step: Step) -> DeedState:
    output = step.output if isinstance(step.output, dict) else {}
    if output.get("denied"):
        return "denied"
    return "done" if step.status == "done" else "failed"


def _decoded(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return {}
    return arguments if isinstance(arguments, dict) else {}
