"""What a native team has said and done so far, told again to somebody who begins to watch its chat.

What is whole is read from the journal; what is being said, those who say it have. A leader is alone
when it speaks, and waits while its workers do. These may be in several processes: one of them makes
void what was said and tells what is in the journal, then each says again what its workers are saying.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from uuid import UUID

import asyncpg

from agentos.contracts.crew import Deed, chat_subject
from agentos.execution.crews import native_family
from agentos.execution.crews.native_activity import deeds, deeds_of, of_worker
from agentos.execution.crews.native_family import Part
from agentos.execution.pulse import conversation
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.live import TOLD_SUBJECT
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.pulse.voices import ChatVoice, publish
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# What is told of a long answer: so many steps and, of workers, characters, the newest.
_MOST_STEPS = 200
_MOST_CHARACTERS = 100_000


async def tell_again(
    parts: PulseParts, tenant_id: TenantId, team_id: UUID, here: Collection[UUID]
) -> None:
    """Tells what is known of the message that the team is at, unless another process does.

    `here` are the sessions of the team that this process works on.
    """
    try:
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            message = await native_family.answering(tx, tenant_id, team_id)
            if message is None or message.teller not in here:
                return
            story = await native_family.parts_of(
                tx, tenant_id, message.session_id, most_steps=_MOST_STEPS
            )
        for part in story:
            part.steps = [await _whole(parts, tenant_id, step) for step in part.steps]
    except (AgentOSError, asyncpg.PostgresError) as error:
        # Whoever came hears what is said from now on.
        log.warning("a chat cannot be told again", team=str(team_id), error=repr(error))
        return

    def voice(agent: str | None) -> ChatVoice:
        subject = chat_subject(tenant_id, team_id)
        return ChatVoice(parts.bus, parts.audience, subject, message.message_id, agent)

    speaking = parts.audience.chats.of(team_id)
    leader = next((v for v in speaking if v.agent is None and v.has_spoken), None)
    if leader is None:
        await _say_all(story, voice)
        await publish(parts.bus, TOLD_SUBJECT, team_id.bytes)
    else:
        # With its first words all that was said before became void.
        await leader.again()
    for deed in _deeds(story):
        await voice(None).did(deed)


async def _whole(parts: PulseParts, tenant_id: TenantId, step: Step) -> Step:
    return await parts.payloads.load(tenant_id, step) if step.kind == "model" else step


async def _say_all(story: Sequence[Part], voice: Callable[[str | None], ChatVoice]) -> None:
    """The last words of the leader, and those of the workers whom it called with them."""
    turn, said = 0, ""
    leader = next((part for part in story if part.agent is None), None)
    if leader is not None and (answer := conversation.last_answer(leader.steps)) is not None:
        turn, said = answer.seq, conversation.text_of(answer)
    first, room = voice(None), _MOST_CHARACTERS
    await first.say(said)
    if not said:
        await first.again()
    for part in story:
        if part.agent is not None and part.turn == turn and room > 0:
            words = _words(part)[-room:]
            room -= len(words)
            await voice(part.agent).say(words)


def _words(part: Part) -> str:
    texts = [conversation.text_of(step) for step in part.steps if step.kind == "model"]
    return "\n\n".join(text for text in texts if text)


def _deeds(story: Sequence[Part]) -> Iterator[Deed]:
    for part in story:
        done = [deed for s in part.steps if s.kind == "tool" for deed in deeds_of(s)]
        # What somebody who has ended did not come to is not being done.
        calls = [] if part.ended else conversation.unanswered(part.steps)
        at_it = [d for c in calls for d in deeds(c.key, c.name, c.arguments, "running")]
        for deed in (*done, *at_it):
            yield of_worker(deed, part.session_id, part.agent)
