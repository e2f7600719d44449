from __future__ import annotations

from typing import Any

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool
from agentos.execution.pulse.engine_tools.names import UPDATE_PLAN
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Done
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.building import arguments_of

_STEP = arguments_of(
    {
        "step": {"type": "string", "minLength": 1, "maxLength": 500},
        "status": {"enum": ["pending", "in_progress", "done"]},
    },
    "step",
    "status",
)


class UpdatePlan(CheckedTool):
    """Notes a plan. The journal keeps each version, so the timeline shows how it went."""

    spec = ToolSpec(
        UPDATE_PLAN,
        "Write down your plan for a task of several steps, or how far you are with it. Give all "
        "steps each time; those who watch you see it.",
        arguments_of(
            {"steps": {"type": "array", "items": _STEP, "minItems": 1, "maxItems": 100}}, "steps"
        ),
        Tier.SAFE,
        Repeat.ALWAYS,
    )

    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done:  # noqa: ARG002 - the protocol's
        steps = arguments["steps"]
        done = sum(step["status"] == "done" for step in steps)
        return Done(f"Noted: {done} of {len(steps)} done.", details={"plan": steps})
