"""What a native team says and does while it answers, for whoever watches its chat."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse, ToolCallPart

from agentos.contracts.crew import chat_subject
from agentos.execution.crews.native_activity import deeds, deeds_of
from agentos.execution.pulse.live import ChatVoice
from agentos.execution.pulse.run import Run


async def chat_voice(run: Run) -> ChatVoice | None:
    """Its voice in the chat of its team; None if nobody watches, or it answers no message."""
    session, parts = run.session, run.parts
    if session.team_id is None or session.parent_id is not None:
        return None
    if not parts.audience.watches(session.team_id):
        return None
    async with parts.db.transaction(tenant_id=session.tenant_id) as tx:
        message_id = await tx.value(
            """select id from team_messages
               where tenant_id = $1 and session_id = $2 and state = 'running'""",
            session.tenant_id,
            session.id,
        )
    if message_id is None:
        return None
    subject = chat_subject(session.tenant_id, session.team_id)
    return ChatVoice(parts.bus, parts.audience, subject, message_id)


async def tell_done(run: Run, voice: ChatVoice) -> None:
    """Tells what became of the calls since the last turn."""
    since = max((s.seq for s in run.path if s.kind in ("model", "message")), default=0)
    for step in run.path:
        if step.kind == "tool" and step.seq > since:
            for each in deeds_of(step):
                await voice.did(each)


async def tell_asked(run: Run, voice: ChatVoice, answer: ModelResponse) -> None:
    """Tells which calls are about to be made. Their keys are those that the journal will have."""
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    for n, call in enumerate(calls):
        key = f"{run.session.seq + 1}.{n}"
        for each in deeds(key, call.tool_name, call.args, "running"):
            await voice.did(each)
