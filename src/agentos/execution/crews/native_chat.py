"""What a native team says and does while it answers, for whoever watches its chat."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse, ToolCallPart

from agentos.contracts.crew import chat_subject
from agentos.execution.crews import native_family
from agentos.execution.crews.native_activity import deeds, deeds_of, of_worker
from agentos.execution.pulse import conversation
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.voices import ChatVoice


async def chat_voice(run: Run) -> ChatVoice | None:
    """Its voice in the chat of its team; None if nobody watches, or it works on no message.

    That of a team worker has the worker's name.
    """
    session, parts = run.session, run.parts
    if session.team_id is None or not parts.audience.watches(session.team_id):
        return None
    async with parts.db.transaction(tenant_id=session.tenant_id) as tx:
        place = await native_family.place_of(tx, session.tenant_id, session.id)
    if place is None:
        return None
    return ChatVoice(
        parts.bus,
        parts.audience,
        chat_subject(session.tenant_id, session.team_id),
        place.message_id,
        place.agent,
        goes_on=place.agent is not None and _has_spoken(run),
    )


def _has_spoken(run: Run) -> bool:
    return any(step.kind == "model" and conversation.text_of(step) for step in run.path)


async def tell_done(run: Run, voice: ChatVoice) -> None:
    """Tells what became of the calls since the last turn."""
    since = max((s.seq for s in run.path if s.kind in ("model", "message")), default=0)
    for step in run.path:
        if step.kind == "tool" and step.seq > since:
            for each in deeds_of(step):
                await voice.did(of_worker(each, run.session.id, voice.agent))


async def tell_asked(run: Run, voice: ChatVoice, answer: ModelResponse) -> None:
    """Tells which calls are about to be made. Their keys are those that the journal will have."""
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    for n, call in enumerate(calls):
        key = f"{run.session.seq + 1}.{n}"
        for each in deeds(key, call.tool_name, call.args, "running"):
            await voice.did(of_worker(each, run.session.id, voice.agent))
