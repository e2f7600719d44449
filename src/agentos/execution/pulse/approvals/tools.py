"""Whether a tool call may be made: by the tenant's policy, the agent's permissions, a person's word."""

from __future__ import annotations

from typing import Any

from agentos.execution.pulse.approvals.asking import Answer, Request, ask
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.journal import decoded
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools import permits
from agentos.integrations.tools.base import ToolSpec
from agentos.integrations.tools.policies.deciding import Decision


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
    arguments, own = _arguments(call), run.config.permissions
    if own is not None and (told := permits.refusal(own, spec.name, arguments)) is not None:
        return Done(told, failed=True, details={"denied": True})
    asked = own is not None and permits.is_asked(own, spec.name)
    if (decision == Decision.ALLOW and not asked) or spec.name in run.session.allowed_tools:
        return None
    outcome = await ask(run, Request("tool", call.key, spec.name, {"arguments": arguments}))
    if isinstance(outcome, Wait):
        return outcome
    return None if outcome.approved else _refusal(outcome)


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
