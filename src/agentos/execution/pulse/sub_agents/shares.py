"""The budgets of sub-agents: parts of their parent's, which come back when they end.

A cap is never made, only moved, so a session and all that it leads to spend no more than its own
budget says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING
from uuid import UUID

from agentos.contracts.events import Event
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.sub_agents import repository
from agentos.execution.pulse.sub_agents.errors import SpawnRefused
from agentos.kernel.database import Transaction
from agentos.tenancy.budgets import service as budgets

if TYPE_CHECKING:
    from agentos.execution.pulse.sub_agents.spawning import Task

# Processes bring back what they hold of an account that nobody uses within about a second.
_COMES_BACK_SECONDS = 3.0
_LOOK_SECONDS = 0.1


async def hand_out(
    tx: Transaction, run: Run, tasks: Mapping[UUID, Task]
) -> tuple[dict[UUID, int], list[Event]]:
    """Gives each sub-agent its part of what the session has left; what that is, and its events.

    Nothing if the session has no budget of its own. Raises SpawnRefused if there is nothing left.
    """
    session, now = run.session, run.parts.clock.now()
    room = await budgets.room_of_session(tx, session.tenant_id, session.id)
    if room is None:
        return {}, []
    parts = parts_of(room, [task.share for task in tasks.values()])
    if min(parts) < 1:
        raise SpawnRefused("Your budget is used up: there is nothing left to share.")
    manners = await repository.manners(tx, session.tenant_id, session.id)
    caps = dict(zip(tasks, parts, strict=True))
    events: list[Event] = []
    for child_id, cap in caps.items():
        events += await budgets.move_cap(
            tx, session.tenant_id, session.id, child_id, cap, by=manners["created_by"], now=now
        )
    return caps, events


def parts_of(room: int, given: Sequence[float | None]) -> list[int]:
    """What each gets, in whole micro-dollars; never more than `room` in all.

    Those that ask for no part of their own share what the others leave, equally and with the
    session itself, which has to go on afterwards.
    """
    asked = [None if share is None else Fraction(share) for share in given]
    rest = 1 - sum(share for share in asked if share is not None)
    equal = max(rest, Fraction(0)) / (asked.count(None) + 1)
    return [int(room * (equal if share is None else share)) for share in asked]


async def take_back(run: Run, children: Sequence[UUID]) -> None:
    """Moves what ended sub-agents did not spend back to the session. Harmless if it was done.

    What a process still holds of it comes back within a second or so, and is waited for a little.
    """
    until = time.monotonic() + _COMES_BACK_SECONDS
    while await _take_back(run, children) and time.monotonic() < until:  # noqa: ASYNC110 - the database is asked
        await asyncio.sleep(_LOOK_SECONDS)


async def _take_back(run: Run, children: Sequence[UUID]) -> bool:
    """Whether more may come."""
    session, now, more = run.session, run.parts.clock.now(), False
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        if await budgets.room_of_session(tx, session.tenant_id, session.id) is None:
            return False
        manners = await repository.manners(tx, session.tenant_id, session.id)
        for child_id in sorted(children):
            room = await budgets.room_of_session(tx, session.tenant_id, child_id)
            if room is not None and room > 0:
                events = await budgets.move_cap(
                    tx,
                    session.tenant_id,
                    child_id,
                    session.id,
                    room,
                    by=manners["created_by"],
                    now=now,
                )
                await run.parts.outbox.announce(tx, session.tenant_id, now, *events)
            more = more or await budgets.held_of_session(tx, session.tenant_id, child_id) > 0
    return more
