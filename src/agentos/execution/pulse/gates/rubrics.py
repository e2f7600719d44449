"""A gate that models judge: several votes by the same rubric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agentos.execution.pulse import outputs
from agentos.execution.pulse.gates.evidence import changed_files, result_text
from agentos.execution.pulse.gates.schemas import RubricGate
from agentos.execution.pulse.gates.texts import beginning_of
from agentos.execution.pulse.json_schemas import JsonSchema
from agentos.execution.pulse.model_calls import FAILURES, Asked, ask_model, or_wait, settle
from agentos.execution.pulse.prompts import JUDGE
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Verdict, Wait
from agentos.kernel.texts import storable

_VERDICT = {
    "type": "object",
    "properties": {
        "reason": {
            "type": "string",
            "description": "Why, in one to three sentences; if it does not pass, what is missing.",
        },
        "passed": {"type": "boolean", "description": "Whether the result meets the rubric."},
    },
    "required": ["reason", "passed"],
    "additionalProperties": False,
}
_CHECK = JsonSchema(_VERDICT)
_TOOL = ToolDefinition(
    name="give_verdict",
    description="Say whether the result meets the rubric.",
    parameters_json_schema=_VERDICT,
)
_MOST_PROMPT, _MOST_RESULT, _MOST_REASON = 20_000, 40_000, 1_000
_VOTE_TOKENS = 2_048


@dataclass(frozen=True, slots=True)
class Vote:
    passed: bool
    reason: str


async def check_rubric(run: Run, gate: RubricGate) -> Verdict | Wait:
    """Asks until it is decided: votes that cannot change the outcome are not asked for.

    The calls are booked with the gate's step. If one fails, those before it are booked at once,
    and all are asked again later.
    """
    told = await _question(run, gate)
    needed = gate.needed if gate.needed is not None else gate.votes // 2 + 1
    asked: list[Asked] = []
    votes: list[Vote] = []
    try:
        while _is_open(votes, needed, gate.votes):
            asked.append(await _ask(run, gate, told))
            votes.append(vote_of(asked[-1].answer))
    except BaseException as error:
        settle(run, [entry for each in asked for entry in each.booked])
        if not isinstance(error, FAILURES):
            raise
        return or_wait(run, error)
    return _verdict(votes, needed, gate.votes, asked)


def _is_open(votes: list[Vote], needed: int, most: int) -> bool:
    """Whether further votes could change the outcome."""
    passed = sum(vote.passed for vote in votes)
    return passed < needed <= passed + most - len(votes)


async def _ask(run: Run, gate: RubricGate, told: list[ModelMessage]) -> Asked:
    parameters = ModelRequestParameters(function_tools=[_TOOL])
    model = gate.model or run.config.model
    return await ask_model(run, model, told, parameters, most_tokens=_VOTE_TOKENS)


async def _question(run: Run, gate: RubricGate) -> list[ModelMessage]:
    files = "\n".join(await changed_files(run)) or "none"
    text = (
        f"<task>\n{beginning_of(run.config.prompt, _MOST_PROMPT)}\n</task>\n\n"
        f"<result>\n{beginning_of(result_text(run), _MOST_RESULT)}\n</result>\n\n"
        f"<changed_files>\n{files}\n</changed_files>\n\n"
        f"<rubric>\n{gate.rubric}\n</rubric>\n\n"
        f"Does the result meet the rubric? Call {_TOOL.name}."
    )
    return [ModelRequest(parts=[UserPromptPart(content=text)], instructions=JUDGE)]


def vote_of(answer: ModelResponse) -> Vote:
    """What a judge has said. What cannot be understood is a vote against."""
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    given: Any = calls[0].args if calls else answer.text or ""
    try:
        value = outputs.json_in(given) if isinstance(given, str) else given
    except outputs.NotJson:
        value = None
    if _CHECK.problems(value):
        return Vote(False, "The judge gave no verdict that could be understood.")
    return Vote(value["passed"], storable(value["reason"])[:_MOST_REASON])


def _verdict(votes: list[Vote], needed: int, most: int, asked: list[Asked]) -> Verdict:
    count = sum(vote.passed for vote in votes)
    passed = count >= needed
    reason = f"{count} of {len(votes)} votes say that the result meets the rubric; {needed} of {most} are needed."
    against = [vote.reason for vote in votes if not vote.passed]
    if not passed:
        reason += "\n" + "\n".join(f"- {text}" for text in dict.fromkeys(against))
    return Verdict(
        passed,
        reason,
        {"votes": [{"passed": vote.passed, "reason": vote.reason} for vote in votes]},
        booked=[entry for each in asked for entry in each.booked],
        input_tokens=sum(each.answer.usage.input_tokens for each in asked),
        output_tokens=sum(each.answer.usage.output_tokens for each in asked),
    )
