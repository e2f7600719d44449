"""What a keeper says to its team's sidecar, and what it makes of what it hears.

Frames come from a sandbox and may come twice or not at all. So nothing is said once: a message is
sent until it is accepted, a decision until its request is gone, and each answer that is in the
database is acknowledged however often it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import msgspec

from agentos.contracts.crew import (
    Accepted,
    Answer,
    AnswerStored,
    Beat,
    Interrupt,
    PermissionAnswer,
    PermissionAsked,
    PermissionWithdrawn,
    Started,
    ToAgent,
    UserMessage,
    encode,
    to_agent_subject,
)
from agentos.contracts.events import Event, encode_unnumbered
from agentos.execution.crews.hints import Handed, ended_subject
from agentos.execution.crews.keeping import asking, mail
from agentos.execution.crews.keeping.asking import Decision
from agentos.execution.crews.keeping.attachments import AttachmentFailed, bring_attachments
from agentos.execution.crews.keeping.claims import Claim
from agentos.execution.crews.keeping.mail import MOST_ATTEMPTS, Mail, Progress
from agentos.execution.crews.keeping.words import error_of, text_of
from agentos.execution.crews.messages.finishing import MOST_DEEDS, Outcome, finish
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Scope

_AGAIN_SECONDS = 2.0
# What a gateway has spooled by then is booked.
_BOOKED_SECONDS = 3.0
_STOPPED = "It was stopped."
# Of one message, that wait for people. What is in the sandbox must not fill their list.
_MOST_ASKED = 50
# The time of an answer stands still while a person is asked, which may take an hour.
_TOKEN_SPARE = timedelta(hours=1, minutes=10)


@dataclass
class _Given:
    """The message that the agent has, or is about to get."""

    mail: Mail
    frame: UserMessage
    # Which start of the sidecar has accepted it.
    accepted_by: str | None = None
    sent_at: float = 0.0
    # How often its agent was asked, as far as that is noted.
    attempt: int = 0
    # Requests of it that nobody has decided yet, by key.
    asked: dict[str, PermissionAsked] = field(default_factory=dict)


class Talk:
    """One life of a team's sidecar, seen from its keeper."""

    def __init__(
        self,
        parts: CrewParts,
        claim: Claim,
        workspace: Workspace,
        answer_seconds: int,
        progress: Progress,
    ):
        self._parts = parts
        self._claim = claim
        self._workspace = workspace
        self.answer_seconds = answer_seconds
        self._progress = progress
        self._given: _Given | None = None
        self._boot: str | None = None
        self._ready = False
        # Whether there may be a message that waits.
        self._expecting = True
        self._allowed: set[str] = set()
        # What ended messages cost is looked at again then: messages, and times.
        self._unbooked: dict[UUID, float] = {}
        self._finished = False

    @property
    def busy(self) -> bool:
        """Whether the agent has a message, or is about to get one."""
        return self._given is not None

    def finished(self) -> bool:
        """Whether a message has ended since this was last asked."""
        finished, self._finished = self._finished, False
        return finished

    def heard_beat(self, beat: Beat) -> None:
        self._boot = beat.boot
        self._ready = beat.state in ("idle", "busy")

    async def heard(
        self, frame: Accepted | Started | Answer | PermissionAsked | PermissionWithdrawn
    ) -> None:
        """Raises Lost."""
        match frame:
            case Started():
                await self._began(frame)
            case Accepted():
                if (given := self._about(frame.message_id)) is not None:
                    given.accepted_by = self._boot
            case Answer():
                await self._answered(frame)
            case PermissionAsked():
                await self._asked(frame)
            case PermissionWithdrawn():
                await self._withdrawn(frame)

    async def go_on(self) -> None:
        """Gives the agent its next message, and says again what may not have been heard. Raises Lost."""
        now = asyncio.get_running_loop().time()
        given = self._given
        if given is None and self._ready and self._expecting:
            await self._take_next()
            return
        # Rather while there is nothing else to do.
        by = now if given is None else now - _BOOKED_SECONDS
        await self._book([each for each, at in self._unbooked.items() if at <= by])
        if given is None:
            return
        if given.accepted_by is not None and given.accepted_by != self._boot and self._ready:
            # The sidecar that had it is gone; the new one may know its answer.
            self._given = None
            await self._take_next()
        elif given.accepted_by is None and now - given.sent_at >= _AGAIN_SECONDS and self._ready:
            await self._give(given)

    async def take(self, handed: Handed, *, now: bool) -> None:
        """Gives the agent a message that is handed over. Not `now`: when it was looked around."""
        if now and self._given is None and self._ready:
            if self._progress.awaits(handed.position):
                await self._begin(Mail.handed(handed))
        else:
            self._expecting = True

    async def look(self) -> None:
        """Looks whether people have sent a message, want one stopped, or have decided a request."""
        self._expecting = True
        given = self._given
        if given is None:
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            stop = await mail.is_cancelled(tx, claim, given.mail.id)
            decided: dict[str, Decision] = {}
            if given.asked:
                decided, events = await asking.decisions(tx, claim, given.mail.id, now)
                await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)
        if stop:
            await self.send(_stop(given))
        for key, decision in decided.items():
            asked = given.asked.get(key)
            if asked is None:
                continue
            if decision.allow and decision.always:
                self._allowed.add(asked.tool)
            await self._decide(given, key, decision)

    async def close(self) -> None:
        """What is booked by now has to do."""
        with suppress(Unavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self._book(list(self._unbooked))

    async def send(self, frame: ToAgent) -> None:
        """To the sidecar, if it can be reached."""
        bus, claim = self._parts.bus, self._claim
        subject = to_agent_subject(claim.tenant_id, claim.team_id)
        if bus.is_connected:
            try:
                for piece in encode(frame, uuid7().hex):
                    await bus.publish(subject, piece)
            except AgentOSError:
                return  # it is said again

    async def _take_next(self) -> None:
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            found = await mail.next_mail(
                tx, self._parts.outbox, claim, now, self._progress.position
            )
        self._progress.looked()
        self._expecting = found is not None
        if found is not None:
            await self._begin(found)

    async def _begin(self, found: Mail) -> None:
        """With a message that is running from here on."""
        if found.attempt > MOST_ATTEMPTS + 1:
            await self._finish(found.id, _given_up(found))
        elif found.cancel_requested and found.attempt == 1:
            await self._finish(found.id, Outcome("cancelled", error=_STOPPED))
        else:
            await self._bring(found)
        # Not before: if its files cannot be fetched just now, nobody was given it.
        self._progress.reached(found.position)

    async def _bring(self, found: Mail) -> None:
        """Gives a message with its files to the agent."""
        try:
            paths = await bring_attachments(
                self._parts, self._claim, self._workspace, found.attachments
            )
        except AttachmentFailed as error:
            await self._finish(
                found.id, Outcome("failed", error=error.message, error_code=error.code)
            )
            return
        self._given = _Given(found, self._frame(found, paths), attempt=found.attempt)
        await self._give(self._given)

    def _frame(self, found: Mail, paths: Sequence[str]) -> UserMessage:
        claim = self._claim
        token = self._parts.tokens.service(
            claim.tenant_id,
            f"team {claim.team_id}",
            frozenset({Scope.MODELS_USE, Scope.MODELS_READ}),
            timedelta(seconds=self.answer_seconds) + _TOKEN_SPARE,
            team_id=claim.team_id,
            session_id=found.id,
        )
        return UserMessage(
            message_id=found.id,
            attempt=found.attempt,
            text=found.text,
            author=found.author,
            source=found.source,
            run_id=found.run_id,
            attachments=tuple(paths),
            model_token=token,
            seconds=self.answer_seconds,
        )

    async def _give(self, given: _Given) -> None:
        given.sent_at = asyncio.get_running_loop().time()
        # One that was stopped while no agent had it is not begun again; but it may be answered.
        await self.send(_stop(given) if given.mail.cancel_requested else given.frame)

    def _about(self, message_id: UUID) -> _Given | None:
        given = self._given
        return given if given is not None and given.mail.id == message_id else None

    async def _began(self, started: Started) -> None:
        """After a crash, a sidecar asks its agent again by itself."""
        given = self._about(started.message_id)
        if (
            given is None
            or not given.attempt < started.attempt <= given.mail.attempt + MOST_ATTEMPTS
        ):
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            await mail.asked_again(
                tx, self._parts.outbox, claim, started.message_id, started.attempt, now
            )
        given.attempt = started.attempt

    async def _answered(self, answer: Answer) -> None:
        error, code = error_of(answer)
        outcome = Outcome(
            answer.state,
            answer=text_of(answer),
            error=error,
            error_code=code,
            activity=[msgspec.structs.asdict(deed) for deed in answer.activity[:MOST_DEEDS]],
        )
        await self._finish(answer.message_id, outcome)
        await self.send(AnswerStored(message_id=answer.message_id))

    async def _finish(self, message_id: UUID, outcome: Outcome) -> None:
        """Stores how a message ended, once, if it is one of this team. Raises Lost."""
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            ending = await mail.hold_ending(tx, claim, message_id)
            if ending.put_back:
                await mail.take_up(tx, claim, message_id)
            spent = ending.spent
            events: list[Event] | None = await finish(
                tx,
                claim.tenant_id,
                claim.team_id,
                message_id,
                outcome.costing(spent.input_tokens, spent.output_tokens, spent.cost_micros),
                now,
            )
            if events is not None:
                if ending.asked:
                    events += await asking.withdraw(tx, claim, message_id, now)
                ids = await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)
        if events is not None:
            await self._tell_end(ids[0], now, events[0])
            self._finished = True
            self._unbooked[message_id] = asyncio.get_running_loop().time() + _BOOKED_SECONDS
        if self._about(message_id) is not None:
            self._given = None
            self._expecting = ending.more

    async def _tell_end(self, event_id: UUID, at: datetime, event: Event) -> None:
        """Tells whoever watches that a message has ended, which is committed. The relay tells all."""
        bus, claim = self._parts.bus, self._claim
        if bus.is_connected:
            with suppress(AgentOSError):
                told = encode_unnumbered(claim.tenant_id, event_id, at, event)
                await bus.publish(ended_subject(claim.team_id), told)

    async def _book(self, message_ids: Sequence[UUID]) -> None:
        if not message_ids:
            return
        async with self._parts.db.transaction(tenant_id=self._claim.tenant_id) as tx:
            await mail.book(tx, self._claim, message_ids)
        for message_id in message_ids:
            del self._unbooked[message_id]

    async def _asked(self, asked: PermissionAsked) -> None:
        given, key = self._about(asked.message_id), asking.key_of(asked.request_id)
        if given is None or key in given.asked:
            return
        if len(given.asked) >= _MOST_ASKED:
            refusal = PermissionAnswer(
                request_id=asked.request_id, allow=False, reason="Too much is asked at once."
            )
            await self.send(refusal)
            return
        given.asked[key] = asked
        if asked.tool in self._allowed:
            await self._decide(given, key, Decision(True, ""))
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            events = await asking.ask(tx, claim, asked, now)
            await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)
        # It may have been asked, and decided, before this keeper came.
        await self.look()

    async def _decide(self, given: _Given, key: str, decision: Decision) -> None:
        """Said once for each time that the sidecar asks: it asks until it has heard."""
        asked = given.asked.pop(key)
        await self.send(
            PermissionAnswer(
                request_id=asked.request_id, allow=decision.allow, reason=decision.reason
            )
        )

    async def _withdrawn(self, frame: PermissionWithdrawn) -> None:
        given, key = self._given, asking.key_of(frame.request_id)
        if given is None or given.asked.pop(key, None) is None:
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            events = await asking.withdraw(tx, claim, given.mail.id, now, key)
            await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)


def _stop(given: _Given) -> Interrupt:
    return Interrupt(message_id=given.mail.id, reason=_STOPPED)


def _given_up(found: Mail) -> Outcome:
    times = found.attempt - 1
    return Outcome(
        "uncertain",
        error=f"The agent was lost {times} times while it answered this. Some of it may be done.",
        error_code="agent_lost",
    )
