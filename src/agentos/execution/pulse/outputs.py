"""The structured output of a session: the tool `final_answer`, and what counts as its use.

With an output_schema a session ends by a valid call of that tool, or by an answer in plain text
that is JSON and satisfies the schema. Anything else is answered with what is wrong, a few times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agentos.execution.pulse import conversation
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.journal import Step, encoded
from agentos.execution.pulse.json_schemas import JsonSchema
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Done
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.kernel.texts import storable

NAME = "final_answer"
# The message that reminds the model of the tool.
REMINDER = "output"
MOST_TRIES = 3
# It is kept in the session's row, and sent with an event. What is larger belongs into files.
_MOST_CHARACTERS = 300_000

_DESCRIPTION = (
    "Give your final result. Call it once, when the task is done; nothing you say otherwise counts "
    "as your result."
)
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
_WRAPPED = "value"


class NotJson(ValueError):
    """The text is not JSON."""


@dataclass(frozen=True, slots=True)
class Output:
    """The value that a session was asked for; it may be null."""

    value: Any


@dataclass(frozen=True)
class FinalAnswer:
    """The tool of one session: its parameters are the session's schema."""

    schema: Mapping[str, Any]

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(NAME, _DESCRIPTION, _parameters(self.schema), Tier.SAFE, Repeat.ALWAYS)

    async def use(self, run: Run, call: ToolCall) -> Done:  # noqa: ARG002 - the protocol's
        try:
            given = _decoded(call.arguments) if isinstance(call.arguments, str) else call.arguments
        except NotJson:
            return _refused(["the arguments are not valid JSON"])
        if not _is_object(self.schema):
            if not isinstance(given, dict) or _WRAPPED not in given:
                return _refused([f"the argument `{_WRAPPED}` is missing"])
            given = given[_WRAPPED]
        if len(encoded(given) or "") > _MOST_CHARACTERS:
            return _refused([f"it has more than {_MOST_CHARACTERS:,} characters as JSON"])
        problems = JsonSchema(self.schema).problems(given)
        if problems:
            return _refused(problems)
        return Done("Thank you. This is your final answer.", details={"value": given})


def final_answer(run: Run) -> FinalAnswer | None:
    """The tool, if this session is asked for a structured output."""
    schema = run.config.output_schema
    return None if schema is None else FinalAnswer(schema)


def output_of(run: Run) -> Output | None:
    """The valid output that the newest answer has given, by the tool or as plain text."""
    schema, answer = run.config.output_schema, conversation.last_answer(run.path)
    if schema is None or answer is None:
        return None
    if (given := accepted(run.path)) is not None:
        return given
    if conversation.calls_of(answer):
        return None
    try:
        value = json_in(conversation.text_of(answer))
    except NotJson:
        return None
    return None if JsonSchema(schema).problems(value) else Output(value)


def accepted(path: Sequence[Step]) -> Output | None:
    """What the newest answer has given by the tool, if that was valid."""
    answer = conversation.last_answer(path)
    if answer is None:
        return None
    for step in reversed(path):
        if step.seq <= answer.seq:
            break
        if step.kind == "tool" and step.name == NAME and step.status == "done":
            return Output(step.output["value"])
    return None


def reminder(run: Run) -> Step:
    """What the model is told if it ends without an output that counts."""
    answer = conversation.last_answer(run.path)
    text = conversation.text_of(answer) if answer else ""
    reason = storable(_why_not(run, text))
    told = f"This does not count as your result: {reason}. Call the tool {NAME}."
    return Step(kind="message", name=REMINDER, at=run.parts.clock.now(), output={"text": told})


def tries_so_far(run: Run) -> int:
    """How often in a row the model has failed to give a valid output."""
    count = 0
    for step in reversed(run.path):
        if step.kind == "tool" and step.name == NAME:
            if step.status == "done":
                break
            count += 1
        elif step.kind == "message":
            if step.name != REMINDER:
                break
            count += 1
    return count


def last_problem(run: Run) -> str:
    """What was wrong with the newest try."""
    for step in reversed(run.path):
        tried = step.kind == "tool" and step.name == NAME
        if tried or (step.kind == "message" and step.name == REMINDER):
            return str(step.output["text"])
    return ""


def json_in(text: str) -> Any:
    """The JSON that a text is, or that stands in its only fenced block. Raises NotJson."""
    try:
        return _decoded(text)
    except NotJson:
        fenced = _FENCED.findall(text)
        if len(fenced) != 1:
            raise
        return _decoded(fenced[0])


def _why_not(run: Run, text: str) -> str:
    try:
        value = json_in(text)
    except NotJson:
        return "it is not JSON"
    assert run.config.output_schema is not None, "only then it is asked for"
    return "; ".join(JsonSchema(run.config.output_schema).problems(value))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotJson(str(error)) from None


def _refused(problems: list[str]) -> Done:
    told = storable("; ".join(problems))
    return Done(f"This is not a valid result: {told}.", failed=True)


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _parameters(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or one of an object around it: tools take objects only."""
    if _is_object(schema):
        return schema
    # References count from the root, so what they point to has to stay there.
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in shared}
    return {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **shared,
    }
