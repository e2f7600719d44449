"""A step in which the model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agentos.execution.pulse import compaction, conversation, finishing, guards, tool_steps
from agentos.execution.pulse.journal import Change, Step
from agentos.execution.pulse.model_calls import FAILURES, Asked, ask_model, or_wait
from agentos.execution.pulse.prompts import instructions_for
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.integrations.models.failures import ErrorClass, ModelCallFailed
from agentos.integrations.tools.base import ToolSpec
from agentos.kernel.texts import storable

_EMPTY = (
    "The model answered with nothing (it stopped because of: {}). Raise max_output_tokens, or use "
    "another model."
)


_MOST_KNOWN = 256
_known: dict[tuple[int, ...], tuple[Sequence[ToolSpec], ModelRequestParameters]] = {}


async def ask(run: Run) -> bool:
    """One turn: the model's answer goes into the journal with its cost. False: not worked on any more."""
    if (limit := await guards.reached(run)) is not None:
        await run.fail(*limit)
        return False
    try:
        if await compaction.is_due(run):
            return await compaction.compact(run)
        return await _turn(run)
    except FAILURES as error:
        await run.wait(or_wait(run, error))
        return False


async def _turn(run: Run) -> bool:
    told = conversation.messages(run.path, instructions_for(run.config))
    try:
        asked = await ask_model(run, run.config.model, told, await _parameters(run))
    except ModelCallFailed as error:
        if error.error_class != ErrorClass.CONTEXT_LENGTH:
            raise
        return await compaction.compact(run)
    step = answer_step(run, asked, len(told))
    calls = conversation.calls_of(step)
    summary = conversation.text_of(step) or ", ".join(call.name for call in calls)
    progress = run.progress(step, storable(summary))
    if not calls and not conversation.text_of(step).strip():
        reason = asked.answer.finish_reason or "unknown"
        await run.fail("empty_answer", _EMPTY.format(reason), steps=[step], booked=asked.booked)
        return False
    if not calls and finishing.is_plain(run):
        await finishing.complete(run, step, asked.booked, progress)
        return False
    await run.commit(Change(steps=[step], events=[progress], turns=1), booked=asked.booked)
    return True


async def _parameters(run: Run) -> ModelRequestParameters:
    room = await toolroom_of(run)
    if room.parameters is None:
        room.parameters = _described(await tool_steps.offered(run))
    return room.parameters


def _described(specs: Sequence[ToolSpec]) -> ModelRequestParameters:
    """The same object for the same tools, so that what is made of it is made once."""
    key = tuple(map(id, specs))
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        tools = [
            ToolDefinition(
                name=spec.name,
                description=spec.description,
                parameters_json_schema=dict(spec.schema),
            )
            for spec in specs
        ]
        # With the specs, so that their ids stay theirs.
        known = _known[key] = (specs, ModelRequestParameters(function_tools=tools))
    return known[1]


def answer_step(run: Run, asked: Asked, told: int) -> Step:
    """An answer to so many messages, as the journal has it."""
    usage = asked.answer.usage
    return Step(
        kind="model",
        name=asked.answer.model_name or run.config.model,
        at=run.parts.clock.now(),
        key=f"turn.{run.session.seq + 1}",
        input={"messages": told, "model": run.config.model},
        output=conversation.answer_as_json(asked.answer),
        call_id=asked.booked[-1][0].call_id if asked.booked else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_micros=asked.cost_micros,
        duration_ms=asked.duration_ms,
    )
