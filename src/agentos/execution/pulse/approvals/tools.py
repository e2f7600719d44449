"""Whether a tool call may be made: by the tenant's policy, the agent's permissions, a person's word."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.contracts.crew import AgentPermissions
from agentos.contracts.permissions.judging import Allow, Ask, Deny, judge
from agentos.execution.pulse.approvals.asking import Answer, Request, ask
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.journal import decoded
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools.base import ToolSpec
from agentos.integrations.tools.policies.deciding import Decision
from agentos.integrations.workspaces.places import Places


async def permission(run: Run, call: ToolCall, spec: ToolSpec) -> Wait | Done | None:
    """None if the call may be made; what the model is told if not; or the wait for a person's word.

    Its arguments fit the tool: nobody is asked about a call that cannot be made.
    """
    room = await toolroom_of(run)
    decision = await room.decide(spec)
    if decision == Decision.DENY:
        return Done(
            f"The tools policy of this tenant does not allow {spec.name}.",
            failed=True,
            details={"denied": True},
        )
    arguments = _arguments(call)
    judged = _judged(run, spec, arguments)
    if isinstance(judged, Deny):
        return Done(judged.reason, failed=True, details={"denied": True})
    asked = isinstance(judged, Ask)
    if (decision == Decision.ALLOW and not asked) or spec.name in run.session.allowed_tools:
        return None
    outcome = await ask(run, Request("tool", call.key, spec.name, {"arguments": arguments}))
    if isinstance(outcome, Wait):
        return outcome
    return None if outcome.approved else _refusal(outcome)


def _judged(run: Run, spec: ToolSpec, arguments: dict[str, Any]) -> Allow | Deny | Ask:
    """What the agent's own permissions say, if it has some."""
    own = run.config.permissions
    if own is None:
        return Allow()
    permissions = msgspec.convert(own.model_dump(), AgentPermissions)
    place = Places.of(
        run.parts.workspaces.directory, run.session.tenant_id, run.session.workspace_id
    )
    return judge(permissions, spec.name, arguments, place.files)


def _arguments(call: ToolCall) -> dict[str, Any]:
    given = call.arguments
    # They fit the tool's schema, so they are JSON; nothing at all stands for none.
    read: dict[str, Any] = decoded(given.strip() or "{}") if isinstance(given, str) else given
    return read


def _refusal(answer: Answer) -> Done:
    if answer.decided_by is None:
        told = "This call was not allowed: nobody decided about it in time."
    else:
        reason = f": {answer.reason}" if answer.reason else "."
        told = f"{answer.decided_by} did not allow this call{reason}"
    return Done(told, failed=True, details={"denied": True})
