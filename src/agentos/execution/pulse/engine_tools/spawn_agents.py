from __future__ import annotations

from typing import Any

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool
from agentos.execution.pulse.engine_tools.names import SPAWN_AGENTS
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.states import ENDED
from agentos.execution.pulse.sub_agents import repository, results, shares
from agentos.execution.pulse.sub_agents.spawning import going_on_if_ended, planned, spawning
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.building import arguments_of

MOST_AT_ONCE = 20

_TASK = arguments_of(
    {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": 400_000,
            "description": "All that the agent has to know: it does not see this conversation.",
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "agent": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "The name of an agent you were told of: it has its own model, "
            "instructions and tools, so leave those out.",
        },
        "model": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "Yours if left out.",
        },
        "instructions": {"type": "string", "maxLength": 400_000},
        "tools": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 200,
            "description": "Some of yours; all of them if left out.",
        },
        "budget_share": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1,
            "description": "Of what is left of your budget, if you have one; an equal part if left out.",
        },
    },
    "prompt",
)


class SpawnAgents(CheckedTool):
    """Starts sessions of the session's own, and answers once all of them have ended."""

    spec = ToolSpec(
        SPAWN_AGENTS,
        "Have other agents work on parts of your task at the same time. Each starts with a copy of "
        "your files; you get their results when all are done, and their files with collect_files.",
        arguments_of(
            {
                "tasks": {
                    "type": "array",
                    "items": _TASK,
                    "minItems": 1,
                    "maxItems": MOST_AT_ONCE,
                }
            },
            "tasks",
        ),
        # They cost money.
        Tier.DANGEROUS,
        Repeat.ALWAYS,
    )

    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done | Wait:
        session = run.session
        async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
            children = await repository.of_call(tx, session.tenant_id, session.id, call.key)
        if not children:
            tasks = await planned(run, arguments["tasks"])
            return Wait("children", write=spawning(run, call, tasks))
        if any(child["state"] not in ENDED for child in children):
            return Wait("children", write=going_on_if_ended(run, call))
        await shares.take_back(run, [child["id"] for child in children])
        return await results.told(run, children)
