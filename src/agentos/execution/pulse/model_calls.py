"""Model calls in a session's name: what they take, and what becomes of the session if one fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from agentos.execution.crews.native_chat import chat_voice, tell_asked, tell_done
from agentos.execution.pulse import conversation
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.voices import ChatVoice, Speaker, Together, Voice
from agentos.execution.pulse.waits import Booked, Wait
from agentos.integrations.models.failures import ModelCallFailed
from agentos.integrations.models.native import AnswerBrokeOff, router_model
from agentos.integrations.models.providers.demo import CONTEXT_WINDOW as DEMO_WINDOW
from agentos.integrations.models.routing import targets
from agentos.kernel.errors import AgentOSError, Kind, Unavailable
from agentos.tenancy.ledger.calls import Spender
from agentos.tenancy.ledger.errors import BudgetExhausted, TokensExhausted, TooManyCalls

# A provider that is busy is asked again after so many seconds, then the session fails.
RETRY_AFTER_SECONDS = (2, 10, 60)
# A provider that wants more than this is not waited for.
_LONGEST_RETRY_SECONDS = 3600
# Nobody says when the plan's tokens are raised; they come back with the month.
_TOKENS_AGAIN = timedelta(minutes=5)

# What `or_wait` knows to wait for.
FAILURES = (
    BudgetExhausted,
    TokensExhausted,
    TooManyCalls,
    AnswerBrokeOff,
    ModelCallFailed,
    Unavailable,
)


@dataclass(frozen=True)
class Asked:
    """An answer, what it took, and its entries in the books that are still to be made."""

    answer: ModelResponse
    booked: list[Booked]
    duration_ms: int

    @property
    def cost_micros(self) -> int | None:
        return cost_of(self.booked)


def cost_of(booked: Sequence[Booked]) -> int | None:
    """What calls cost together; None if the price of one is not known."""
    costs = [call.cost_micros for _, call in booked]
    return None if None in costs else sum(cost or 0 for cost in costs)


async def ask_model(
    run: Run,
    name: str,
    told: list[ModelMessage],
    parameters: ModelRequestParameters,
    *,
    most_tokens: int | None = None,
) -> Asked:
    """Asks a model in the session's name. If it fails, what it cost is in the books already."""
    booked: list[Booked] = []
    began = time.monotonic()
    session = run.session
    model = await router_model(
        run.parts.router,
        name,
        Spender(session.tenant_id, session.team_id, session.id),
        principal=(session.principal_kind, session.principal_id),
        book=lambda reservation, call: booked.append((reservation, call)),
    )
    settings = _settings(run, most_tokens)
    # With a limit of its own a call is about the conversation, and not a turn of it.
    chat = await chat_voice(run) if most_tokens is None else None
    try:
        if chat is not None:
            await tell_done(run, chat)
        with _speaking(run, chat) as speakers:
            if speakers:
                answer = await _aloud(Together(speakers), model, told, settings, parameters)
            else:
                answer = await model.request(told, settings, parameters)
        if chat is not None:
            await tell_asked(run, chat, answer)
    except BaseException:
        settle(run, booked)
        raise
    return Asked(answer, booked, round((time.monotonic() - began) * 1000))


@contextmanager
def _speaking(run: Run, chat: ChatVoice | None) -> Iterator[list[Speaker]]:
    """Those who say the answer while the block lasts; none if nobody watches."""
    session, audience = run.session, run.parts.audience
    speakers: list[Speaker] = []
    with ExitStack() as stack:
        if chat is not None and session.team_id is not None:
            stack.enter_context(audience.chats.speaking(session.team_id, chat))
            speakers.append(chat)
        if audience.watches(session.id):
            voice = Voice(run.parts.bus, session.id, session.seq + 1)
            stack.enter_context(audience.sessions.speaking(session.id, voice))
            speakers.append(voice)
        yield speakers


async def _aloud(
    voice: Speaker,
    model: Model,
    told: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
) -> ModelResponse:
    """The same answer, its words passed on as they come."""
    async with model.request_stream(told, settings, parameters) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                await voice.say(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                await voice.say(event.delta.content_delta)
    await voice.end()
    return stream.get()


def settle(run: Run, booked: Sequence[Booked]) -> None:
    """Books calls at once: there is no step that they could go with."""
    for reservation, call in booked:
        run.parts.router.escrow.settle(reservation, call)


def _settings(run: Run, most_tokens: int | None) -> ModelSettings:
    most = run.config.max_output_tokens
    settings = ModelSettings(max_tokens=most if most_tokens is None else min(most, most_tokens))
    if run.config.temperature is not None:
        settings["temperature"] = run.config.temperature
    return settings


async def context_window(run: Run) -> int | None:
    """How many tokens the session's model reads at most; None if nobody knows."""
    router = run.parts.router
    models = await router.directory.of(run.session.tenant_id)
    target = targets(models, run.config.model)[0]
    provider = target.provider.provider
    if provider.kind == "demo":
        return DEMO_WINDOW
    return router.catalogue.context_window(provider.price_ids, target.model)


def or_wait(run: Run, error: AgentOSError) -> Wait:
    """What a session waits for after a failed call. Raises the error if waiting does not help.

    It waits each time longer; the journal says how often it has.
    """
    now = run.parts.clock.now()
    if isinstance(error, BudgetExhausted):
        if run.session.parent_id is not None and error.details.get("scope") == "session":
            # Its share is spent. Its parent waits for it, and has what is left.
            raise error
        return Wait("budget")
    if isinstance(error, TokensExhausted):
        return Wait("budget", wake_at=now + _TOKENS_AGAIN)
    if error.kind not in (Kind.TRANSIENT, Kind.LIMITED):
        raise error
    tries = _retries_so_far(run)
    wanted = error.retry_after if isinstance(error, ModelCallFailed) else None
    if tries >= len(RETRY_AFTER_SECONDS) or (wanted or 0) > _LONGEST_RETRY_SECONDS:
        raise error
    seconds = max(RETRY_AFTER_SECONDS[tries], round(wanted or 0))
    return Wait("retry", wake_at=now + timedelta(seconds=seconds))


def _retries_so_far(run: Run) -> int:
    """How often in a row it has waited to ask again: since anything was said or judged."""
    count = 0
    for step in reversed(run.path):
        if step.kind in conversation.SPOKEN or step.kind == "gate":
            break
        if step.kind == "state" and step.output == {"reason": "retry"}:
            count += 1
    return count
