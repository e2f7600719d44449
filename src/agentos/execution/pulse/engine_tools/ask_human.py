from __future__ import annotations

from typing import Any

from agentos.execution.pulse.approvals.asking import Answer, Request, ask
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool
from agentos.execution.pulse.engine_tools.names import ASK_HUMAN
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.building import arguments_of

_CHOICE = {"type": "string", "minLength": 1, "maxLength": 500}


class AskHuman(CheckedTool):
    """Asks whoever looks after the session; the answer may take days, and no worker waits for it."""

    spec = ToolSpec(
        ASK_HUMAN,
        "Ask a person a question that you cannot answer yourself and that your task depends on. "
        "It can take long until somebody answers. Do not ask whether you may go on.",
        arguments_of(
            {
                "question": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 10_000,
                    "description": "With all that is needed to answer it.",
                },
                "choices": {
                    "type": "array",
                    "items": _CHOICE,
                    "maxItems": 20,
                    "description": "Answers to choose from; others can be given, too.",
                },
            },
            "question",
        ),
        Tier.SAFE,
        Repeat.ALWAYS,
    )

    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done | Wait:
        question: str = arguments["question"]
        details = {"question": question, "choices": arguments.get("choices", [])}
        outcome = await ask(run, Request("question", call.key, question, details))
        return outcome if isinstance(outcome, Wait) else _told(outcome)


def _told(answer: Answer) -> Done:
    if answer.answer is not None:
        return Done(answer.answer, details={"by": answer.decided_by})
    if answer.decided_by is None:
        go_on = " Go on as you think best." if answer.approved else ""
        return Done(f"Nobody answered in time.{go_on}", failed=not answer.approved)
    reason = f": {answer.reason}" if answer.reason else "."
    return Done(f"{answer.decided_by} did not answer{reason}", failed=True)
