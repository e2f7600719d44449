"""One run: a worker works on one session, from its claim until it ends, waits or is taken away.

A run decides what is next from the journal alone, does one step, commits it, and looks again. So
it can be cut off anywhere: whoever claims the session next goes on where the journal ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg
from msgspec.structs import replace
from pydantic import ValidationError

from agentos.contracts.events import (
    Event,
    SessionFailed,
    SessionPaused,
    SessionProgress,
)
from agentos.execution.pulse import conversation, journal, payloads
from agentos.execution.pulse.aftermath import lock_parent, session_ended
from agentos.execution.pulse.dispatch import Claimed
from agentos.execution.pulse.journal import Change, Committed, Fenced, Moved, Session, Step
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.pulse.schemas import SessionConfig
from agentos.execution.pulse.states import ENDED, State
from agentos.execution.pulse.waits import Wait
from agentos.execution.pulse.writer import NeedsTransaction
from agentos.integrations.workspaces.snapshots import Snapshot
from agentos.kernel.database import Transaction
from agentos.kernel.errors import Unavailable
from agentos.kernel.logs import get_logger
from agentos.tenancy.ledger.calls import FinishedCall, Reservation
from agentos.tenancy.ledger.escrow import ReservationEnded

if TYPE_CHECKING:
    from agentos.execution.pulse.toolroom import Toolroom

log = get_logger(__name__)

# Between two tries to reach a database that is away; the engine ends the run if it stays away.
_RETRY_SECONDS = 0.2
# The prompt, QUEUED, RUNNING.
_SEQ_AT_FIRST_CLAIM = 3

Also = Callable[[Transaction], Awaitable[Sequence[Event]]]


@dataclass
class Orders:
    """What the engine wants of a run, seen between two steps."""

    drain: bool = False


@dataclass
class Run:
    """The state of one run, and the only way it writes."""

    parts: PulseParts
    session: Session
    config: SessionConfig
    orders: Orders
    # Why its configuration, made by another version of AgentOS, cannot be used.
    outdated: ValidationError | None = None
    path: list[Step] = field(default_factory=list)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    toolroom: Toolroom | None = None

    @classmethod
    def of(cls, parts: PulseParts, claimed: Claimed, orders: Orders) -> Run:
        # It was valid when it was made; an update of AgentOS may have outdated it.
        try:
            config, outdated = SessionConfig.model_validate(claimed.session.config), None
        except ValidationError as error:
            config, outdated = SessionConfig(prompt="-"), error
        return cls(parts, claimed.session, config, orders, outdated)

    async def load(self) -> None:
        """Reads the path in force. That of a session which never ran is known without reading."""
        session = self.session
        if session.seq == _SEQ_AT_FIRST_CLAIM and session.forked_from is None:
            self.path = [self._first_message()]
            return
        async with self.parts.db.transaction(tenant_id=session.tenant_id) as tx:
            steps = await journal.read_path(tx, session.id, session.seq)
        self.path = [
            await self.parts.payloads.load(session.tenant_id, step)
            if step.kind in conversation.SPOKEN
            else step
            for step in steps
        ]

    def _first_message(self) -> Step:
        session = self.session
        return Step(
            kind="message",
            name="user",
            at=session.created_at,
            output={"text": self.config.prompt},
            seq=1,
        )

    async def commit(
        self,
        change: Change,
        *,
        snapshot: Snapshot | None = None,
        also: Sequence[Also] = (),
        booked: Sequence[tuple[Reservation, FinishedCall]] = (),
    ) -> None:
        """Applies a change, with what else belongs into its transaction; the ledger comes last.

        While the database is away it tries again. Whether a commit whose answer was lost has
        happened is seen by the steps of the session.
        """
        try:
            await self._commit(change, snapshot, also, booked)
        except BaseException:
            # There is no step for them to go with; what was spent is booked all the same.
            self._settle(booked)
            raise

    def _settle(self, booked: Sequence[tuple[Reservation, FinishedCall]]) -> None:
        """Ends calls that are still open here. What is in the books already is not booked again."""
        for reservation, call in booked:
            with suppress(ReservationEnded):
                self.parts.router.escrow.settle(reservation, call)

    async def _commit(
        self,
        change: Change,
        snapshot: Snapshot | None,
        also: Sequence[Also],
        booked: Sequence[tuple[Reservation, FinishedCall]],
    ) -> None:
        session = self.session
        rows = [await self.parts.payloads.offload(session.tenant_id, s) for s in change.steps]
        stored = change if rows == change.steps else replace(change, steps=rows)
        while True:
            try:
                committed = await self._write(stored, snapshot, also, booked)
            except (Unavailable, asyncpg.DeadlockDetectedError) as error:
                log.warning("a step is tried again", session=str(session.id), error=repr(error))
                await asyncio.sleep(_RETRY_SECONDS)
            except Moved:
                found = await self._catch_up(rows)
                if found is not None:
                    self._settle(booked)
                    committed = found
                    break
            else:
                break
        last = session.seq
        journal.applied(session, change, committed)
        # In memory they stay whole, whatever became of them in their rows.
        self.path += journal.numbered(change.steps, last)

    async def _write(
        self,
        change: Change,
        snapshot: Snapshot | None,
        also: Sequence[Also],
        booked: Sequence[tuple[Reservation, FinishedCall]],
    ) -> Committed:
        if snapshot is None and not also and self._concerns_nobody_else(change):
            now = self.parts.clock.now()
            with suppress(NeedsTransaction):
                return await self.parts.writer.commit(self.session, change, now, booked)
        return await self._write_alone(change, snapshot, also, booked)

    def _concerns_nobody_else(self, change: Change) -> bool:
        """Whether the session's row, steps, events and calls are all there is to write."""
        session = self.session
        others = (session.parent_id, session.chain_id, session.team_id)
        awaited = any(each is not None for each in others)
        if change.state in ENDED and (awaited or self._has_asked()):
            return False
        return not payloads.objects_of(change.steps)

    async def _write_alone(
        self,
        change: Change,
        snapshot: Snapshot | None,
        also: Sequence[Also],
        booked: Sequence[tuple[Reservation, FinishedCall]],
    ) -> Committed:
        session, parts, now = self.session, self.parts, self.parts.clock.now()
        async with parts.db.transaction(tenant_id=session.tenant_id) as tx:
            if snapshot is not None:
                # First: the session and its step are going to name it.
                await parts.workspaces.record(tx, snapshot)
            if change.state in ENDED:
                # Before its own row: rows of a family are locked from the ancestors down.
                await lock_parent(tx, session.tenant_id, session.parent_id)
            committed = await journal.commit(tx, session, change, now)
            await payloads.claim(tx, session.tenant_id, change.steps)
            events = [event for each in also for event in await each(tx)]
            if change.state in ENDED:
                events += await session_ended(
                    tx,
                    session.tenant_id,
                    session.id,
                    now,
                    parent_id=session.parent_id,
                    chain_id=session.chain_id,
                    may_wait=self._has_asked(),
                    in_team=session.team_id is not None,
                )
            if events:
                await parts.outbox.announce(tx, session.tenant_id, now, *events)
            for reservation, call in booked:
                await parts.router.escrow.settle_in(tx, reservation, call)
            tx.after_commit(parts.outbox.wake)
            if change.release:
                tx.after_commit(parts.wake)
        return committed

    def _has_asked(self) -> bool:
        """Whether there may be approvals that nobody has decided yet."""
        return any(s.kind == "state" and s.output == {"reason": "approval"} for s in self.path)

    async def _catch_up(self, rows: list[Step]) -> Committed | None:
        """Takes in steps that others have added; or finds that they are ours, committed after all."""
        session = self.session
        async with self.parts.db.transaction(tenant_id=session.tenant_id) as tx:
            new = await journal.read_after(tx, session.id, session.seq)
            row = await tx.row(
                f"select {journal.COLUMNS}, owner from sessions s where tenant_id = $1 and id = $2",  # noqa: S608 - a list of columns
                session.tenant_id,
                session.id,
            )
        if row is None or row["fence"] != session.fence:
            raise Fenced()
        ours = [(s.kind, s.name, s.key, s.at) for s in rows]
        if ours and [(s.kind, s.name, s.key, s.at) for s in new[: len(ours)]] == ours:
            # Steps that came after them are taken in by the next commit.
            return Committed(row["pause_requested"], row["ran_ms"])
        if row["owner"] is None:
            raise Fenced()
        # What others may add does not change the conversation, but what we had in doubt may have.
        fresh = journal.session_of(row)
        for name in Session.__struct_fields__:
            setattr(session, name, getattr(fresh, name))
        self.path += [await self.parts.payloads.load(session.tenant_id, step) for step in new]
        return None

    def progress(self, step: Step, summary: str) -> SessionProgress:
        """The event that tells of a step about to be committed next."""
        turns = self.session.turns + (step.kind == "model")
        return SessionProgress(
            session_id=self.session.id,
            seq=self.session.seq + 1,
            kind=step.kind,
            step=step.name,
            status=step.status,
            summary=summary[:200],
            cost_micros=step.cost_micros or 0,
            duration_ms=step.duration_ms,
            pct=round(min(100.0, 100 * turns / self.config.guards.max_turns), 1),
        )

    def to_state(self, after: State, reason: str | None = None) -> Step:
        return journal.state_step(self.session.state, after, self.parts.clock.now(), reason)

    async def wait(self, wait: Wait, steps: Sequence[Step] = ()) -> None:
        """Pauses the session until what it waits for has come."""
        paused = SessionPaused(session_id=self.session.id, waiting_for=wait.waiting_for)
        await self.commit(
            Change(
                steps=[*steps, self.to_state(State.PAUSED, wait.waiting_for)],
                events=[paused],
                state=State.PAUSED,
                doing=self.session.doing,
                release=True,
                waiting_for=wait.waiting_for,
                wake_at=wait.wake_at,
            ),
            also=[wait.write] if wait.write else [],
        )

    async def give_back(self) -> None:
        """Returns the session to the queue, as it is, for another worker."""
        await self.commit(
            Change(release=True, requeue=True, doing=self.session.doing),
        )

    async def fail(
        self,
        code: str,
        reason: str,
        *,
        steps: Sequence[Step] = (),
        events: Sequence[Event] = (),
        booked: Sequence[tuple[Reservation, FinishedCall]] = (),
    ) -> None:
        session = self.session
        cut_off = journal.cut_off(session.id, session.doing, self.parts.clock.now())
        await self.commit(
            Change(
                steps=[*steps, *cut_off.steps, self.to_state(State.FAILED, reason)],
                events=[
                    *events,
                    *cut_off.events,
                    SessionFailed(session_id=session.id, error=reason),
                ],
                state=State.FAILED,
                release=True,
                error=reason,
                error_code=code,
            ),
            booked=booked,
        )
