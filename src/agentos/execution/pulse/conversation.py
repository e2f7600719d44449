"""The conversation of a session, rebuilt from its journal. Nothing else makes messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from agentos.execution.pulse.journal import Step

if TYPE_CHECKING:
    # Only who talks to models needs it, and it takes long to load: the gateway reads journals, too.
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart, UserPromptPart

# What a conversation is made of; the other kinds are about it.
SPOKEN = frozenset({"message", "model", "tool", "compaction"})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asked for. `key` is the same however often it is looked at."""

    key: str
    id: str
    name: str
    arguments: str | dict[str, Any]


def messages(path: Sequence[Step], instructions: str) -> list[ModelMessage]:
    """What the model is told: the path's messages, answers and tool results, in order."""
    told: list[ModelMessage] = []
    open_calls: dict[str, ToolCall] = {}
    for step in in_context(path):
        if step.kind == "model":
            told.append(answer_of(step))
            open_calls = {call.key: call for call in calls_of(step)}
            continue
        if step.kind == "tool":
            open_calls.pop(step.key or "", None)
        else:
            for call in open_calls.values():
                _tell(told, _unmade(call, step), instructions, step.at)
            open_calls = {}
        _tell(told, _part(step), instructions, step.at)
    return told


def _tell(
    told: list[ModelMessage],
    part: UserPromptPart | ToolReturnPart,
    instructions: str,
    at: datetime,
) -> None:
    """Adds a part. Results of one answer belong together, and some wires insist on it."""
    from pydantic_ai.messages import ModelRequest

    if told and isinstance(told[-1], ModelRequest):
        told[-1] = replace(told[-1], parts=[*told[-1].parts, part])
    else:
        told.append(ModelRequest(parts=[part], instructions=instructions, timestamp=at))


def _unmade(call: ToolCall, step: Step) -> ToolReturnPart:
    """A result for a call that the session ended before: every call has to have one."""
    from pydantic_ai.messages import ToolReturnPart

    return ToolReturnPart(
        tool_name=call.name,
        content="The session was interrupted before this call had a result.",
        tool_call_id=call.id,
        timestamp=step.at,
        outcome="interrupted",
    )


def in_context(path: Sequence[Step]) -> list[Step]:
    """The steps that the model is told of: the newest compaction, what it kept, and all since."""
    spoken = [step for step in path if step.kind in SPOKEN]
    newest = next((s for s in reversed(spoken) if s.kind == "compaction"), None)
    if newest is None:
        return spoken
    kept_from = newest.input["kept_from"]
    kept = [s for s in spoken if s.kind != "compaction" and kept_from <= s.seq < newest.seq]
    return [newest, *kept, *(s for s in spoken if s.seq > newest.seq)]


def answer_of(step: Step) -> ModelResponse:
    """An answer as the journal has it: what is read back is what the model is told."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

    if step.read is None:
        (answer,) = ModelMessagesTypeAdapter.validate_python([step.output])
        assert isinstance(answer, ModelResponse), "a model step holds an answer"
        force_setattr(step, "read", answer)
    answer = step.read
    assert isinstance(answer, ModelResponse)
    return answer


def answer_as_json(answer: ModelResponse) -> Any:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    (plain,) = ModelMessagesTypeAdapter.dump_python([answer], mode="json")
    return plain


def _part(step: Step) -> UserPromptPart | ToolReturnPart:
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    if step.kind == "tool":
        return ToolReturnPart(
            tool_name=step.name,
            content=step.output["text"],
            tool_call_id=step.input["call_id"],
            timestamp=step.at,
            outcome="failed" if step.output["failed"] else "success",
        )
    return UserPromptPart(content=step.output["text"], timestamp=step.at)


def last_spoken(path: Sequence[Step]) -> Step | None:
    return next((step for step in reversed(path) if step.kind in SPOKEN), None)


def last_answer(path: Sequence[Step]) -> Step | None:
    """The newest answer of the model, unless somebody has spoken to it since."""
    for step in reversed(path):
        if step.kind == "model":
            return step
        if step.kind in ("message", "compaction"):
            return None
    return None


def calls_of(step: Step) -> list[ToolCall]:
    """The tool calls of an answer, in its order."""
    parts = [part for part in step.output["parts"] if part["part_kind"] == "tool-call"]
    return [
        ToolCall(f"{step.seq}.{n}", part["tool_call_id"], part["tool_name"], part["args"] or {})
        for n, part in enumerate(parts)
    ]


def unanswered(path: Sequence[Step]) -> list[ToolCall]:
    """The calls of the newest answer that have no result yet."""
    answer = last_answer(path)
    if answer is None:
        return []
    done = {step.key for step in path if step.kind == "tool" and step.seq > answer.seq}
    return [call for call in calls_of(answer) if call.key not in done]


def text_of(step: Step) -> str:
    """What an answer says in plain words."""
    return answer_of(step).text or ""
