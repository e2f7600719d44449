"""What a keeper says to its team's sidecar, and what it makes of what it hears.

Frames come from a sandbox and may come twice or not at all. So nothing is said once: a message is
sent until it is accepted, a decision until its request is gone, and each answer that is in the
database is acknowledged however often it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

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
    ToAgent,
    UserMessage,
    encode,
    to_agent_subject,
)
from agentos.contracts.events import Event
from agentos.execution.crews.keeping import asking, mail
from agentos.execution.crews.keeping.asking import Decision
from agentos.execution.crews.keeping.attachments import bring_attachments
from agentos.execution.crews.keeping.claims import Claim, hold
from agentos.execution.crews.keeping.mail import MOST_ATTEMPTS, Mail
from agentos.execution.crews.messages.finishing import Outcome, finish
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import uuid7
from agentos.kernel.texts import storable
from agentos.tenancy.principals import Scope

_AGAIN_SECONDS = 2.0
# What a gateway has spooled by then is booked.
_BOOKED_SECONDS = 3.0
_TOKEN_SPARE = timedelta(minutes=10)


@dataclass
class _Given:
    """The message that the agent has, or is about to get."""

    mail: Mail
    frame: UserMessage
    # Which start of the sidecar has accepted it.
    accepted_by: str | None = None
    sent_at: float = 0.0
    interrupted: bool = False
    # Requests of it that nobody has decided yet, by id.
    asked: dict[str, PermissionAsked] = field(default_factory=dict)


class Talk:
    """One life of a team's sidecar, seen from its keeper."""

    def __init__(self, parts: CrewParts, claim: Claim, workspace: Workspace, answer_seconds: int):
        self._parts = parts
        self._claim = claim
        self._workspace = workspace
        self.answer_seconds = answer_seconds
        self._given: _Given | None = None
        self._boot: str | None = None
        self._ready = False
        # Whether there may be a message that waits.
        self._expecting = True
        self._allowed: set[str] = set()
        self._bookings: set[asyncio.Task[None]] = set()

    async def heard_beat(self, beat: Beat) -> None:
        if beat.boot != self._boot:
            self._boot = beat.boot
        self._ready = beat.state in ("idle", "busy")

    async def heard(self, frame: Accepted | Answer | PermissionAsked | PermissionWithdrawn) -> None:
        match frame:
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
        if self._given is None:
            if self._ready and self._expecting:
                await self._take_next()
            return
        given, now = self._given, asyncio.get_running_loop().time()
        if given.accepted_by is not None and given.accepted_by != self._boot and self._ready:
            # The sidecar that had it is gone; the new one may know its answer.
            self._given = None
            await self._take_next()
        elif given.accepted_by is None and now - given.sent_at >= _AGAIN_SECONDS and self._ready:
            await self._give(given)

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
            await self._stop(given)
        for request_id, decision in decided.items():
            asked = given.asked.get(request_id)
            if asked is None:
                continue
            if decision.allow and decision.always:
                self._allowed.add(asked.tool)
            await self._decide(given, request_id, decision)

    async def close(self) -> None:
        for task in self._bookings:
            task.cancel()
        await asyncio.gather(*self._bookings, return_exceptions=True)

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
            found = await mail.next_mail(tx, self._parts.outbox, claim, now)
        self._expecting = found is not None
        if found is None:
            return
        if found.attempt > MOST_ATTEMPTS:
            await self._finish(found.id, _given_up(found))
        elif found.cancel_requested and found.attempt == 1:
            await self._finish(found.id, Outcome("cancelled", error="It was stopped."))
        else:
            paths = await bring_attachments(
                self._parts, self._claim, self._workspace, found.attachments
            )
            self._given = _Given(found, self._frame(found, paths))
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
        await self.send(given.frame)

    async def _stop(self, given: _Given) -> None:
        await self.send(Interrupt(message_id=given.mail.id, reason="It was stopped."))

    def _about(self, message_id: UUID) -> _Given | None:
        given = self._given
        return given if given is not None and given.mail.id == message_id else None

    async def _answered(self, answer: Answer) -> None:
        outcome = Outcome(
            answer.state,
            answer=storable(answer.text),
            error=storable(answer.error) or None,
            error_code=storable(answer.error_code) or None,
            activity=[storable_json(deed) for deed in answer.activity],
        )
        await self._finish(answer.message_id, outcome)
        await self.send(AnswerStored(message_id=answer.message_id))

    async def _finish(self, message_id: UUID, outcome: Outcome) -> None:
        """Stores how a message ended, once, if it is one of this team. Raises Lost."""
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            await hold(tx, claim)
            spent = await mail.spent_on(tx, claim, message_id)
            events: list[Event] | None = await finish(
                tx,
                claim.tenant_id,
                claim.team_id,
                message_id,
                outcome.costing(spent.input_tokens, spent.output_tokens, spent.cost_micros),
                now,
            )
            if events is not None:
                events += await asking.withdraw(tx, claim, message_id, now)
                await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)
        if events is not None:
            self._book_later(message_id)
        if self._about(message_id) is not None:
            self._given = None

    def _book_later(self, message_id: UUID) -> None:
        task = asyncio.create_task(self._book(message_id))
        self._bookings.add(task)
        task.add_done_callback(self._bookings.discard)

    async def _book(self, message_id: UUID) -> None:
        await asyncio.sleep(_BOOKED_SECONDS)
        claim = self._claim
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            await mail.book(tx, claim, message_id, await mail.spent_on(tx, claim, message_id))

    async def _asked(self, asked: PermissionAsked) -> None:
        given = self._about(asked.message_id)
        if given is None or asked.request_id in given.asked:
            return
        given.asked[asked.request_id] = asked
        if asked.tool in self._allowed:
            await self._decide(given, asked.request_id, Decision(True, ""))
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            events = await asking.ask(tx, claim, asked, now)
            await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)
        # It may have been asked, and decided, before this keeper came.
        await self.look()

    async def _decide(self, given: _Given, request_id: str, decision: Decision) -> None:
        """Said once for each time that the sidecar asks: it asks until it has heard."""
        del given.asked[request_id]
        await self.send(
            PermissionAnswer(request_id=request_id, allow=decision.allow, reason=decision.reason)
        )

    async def _withdrawn(self, frame: PermissionWithdrawn) -> None:
        given = self._given
        if given is None or given.asked.pop(frame.request_id, None) is None:
            return
        claim, now = self._claim, self._parts.clock.now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            events = await asking.withdraw(tx, claim, given.mail.id, now, frame.request_id)
            await self._parts.outbox.announce(tx, claim.tenant_id, now, *events)


def _given_up(found: Mail) -> Outcome:
    times = found.attempt - 1
    return Outcome(
        "uncertain",
        error=f"The agent was lost {times} times while it answered this. Some of it may be done.",
        error_code="agent_lost",
    )


def storable_json(deed: msgspec.Struct) -> dict[str, object]:
    """A struct from a sandbox as the database can hold it."""
    return {
        name: storable(value) if isinstance(value, str) else value
        for name, value in msgspec.structs.asdict(deed).items()
    }
