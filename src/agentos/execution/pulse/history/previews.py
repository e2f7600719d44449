"""What going back would do, before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.errors import SessionNotFound
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.files import changed_file
from agentos.execution.pulse.history.paths import boundaries
from agentos.execution.pulse.history.reading import Reader, check_step, path_to
from agentos.execution.pulse.history.rollbacks import between_calls
from agentos.execution.pulse.history.schemas import OutsideEffect, RollbackPreview, StepShort
from agentos.execution.pulse.journal import Step, snapshot_at
from agentos.integrations.models.hosts import Hosts
from agentos.integrations.tools.base import Repeat
from agentos.integrations.tools.built_in import built_in_tools

_MOST_FILES = 1000
_MOST_STEPS = 1000
_MCP = "mcp__"


async def preview_rollback(reader: Reader, session_id: UUID, to_seq: int) -> RollbackPreview:
    """What would be undone, what would come back, and what stays as it is. Changes nothing."""
    tenant_id, front = reader.tenant_id, reader.front
    async with reader.transaction() as tx:
        session = await sessions.find(tx, tenant_id, session_id)
        if session is None:
            raise SessionNotFound()
        tip: int = session["steps"]
        check_step(to_seq, tip)
        now_path = await path_to(tx, front.payloads, tenant_id, session_id, tip)
        path = await path_to(tx, front.payloads, tenant_id, session_id, to_seq)
        approvals = await repository.waiting_approvals(tx, tenant_id, session_id)
        children = await sessions.open_children(tx, tenant_id, session_id)
    if boundaries(path)[-1] != to_seq:
        raise between_calls(path, now_path, to_seq)
    changes = await front.workspaces.diff(
        tenant_id, snapshot_at(now_path, tip), snapshot_at(path, to_seq)
    )
    undone, restored = _without(now_path, path), _without(path, now_path)
    return RollbackPreview(
        to_seq=to_seq,
        files=[changed_file(change) for change in changes[:_MOST_FILES]],
        more_files=max(0, len(changes) - _MOST_FILES),
        undone=[_short(step) for step in undone[:_MOST_STEPS]],
        more_undone=max(0, len(undone) - _MOST_STEPS),
        undone_messages=sum(step.kind in ("message", "model") for step in undone),
        restored=[_short(step) for step in restored[:_MOST_STEPS]],
        more_restored=max(0, len(restored) - _MOST_STEPS),
        effects=outside_effects(undone, session["config"].get("allowed_hosts", []), front.hosts),
        cost_micros=sum(step.cost_micros or 0 for step in undone),
        withdrawn_approvals=approvals,
        cancelled_sub_agents=len(children),
    )


def outside_effects(
    steps: Sequence[Step], allowed_hosts: Sequence[str], hosts: Hosts
) -> list[OutsideEffect]:
    """The calls among these steps that no rollback undoes."""
    known = built_in_tools(allowed_hosts, hosts=hosts)
    lasting = {name for name, tool in known.items() if tool.spec.repeat == Repeat.NEVER}
    found = []
    for step in steps:
        if step.kind != "tool":
            continue
        if step.status == "uncertain":
            found.append(OutsideEffect(**_short(step).model_dump(), reason="uncertain"))
        elif _was_made(step) and (step.name in lasting or step.name.startswith(_MCP)):
            found.append(OutsideEffect(**_short(step).model_dump(), reason="outside"))
    return found


def _was_made(step: Step) -> bool:
    output = step.output if isinstance(step.output, dict) else {}
    return not output.get("denied") and not output.get("stopped")


def _without(steps: Sequence[Step], others: Sequence[Step]) -> list[Step]:
    there = {step.seq for step in others}
    return [step for step in steps if step.seq not in there]


def _short(step: Step) -> StepShort:
    return StepShort(seq=step.seq, kind=step.kind, name=step.name, status=step.status)
