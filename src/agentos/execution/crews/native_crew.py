"""What people do to native teams: deploying and stopping them, and ending an answer."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agentos.execution.crews import repository as teams
from agentos.execution.crews.messages import repository as messages
from agentos.execution.crews.native import start_next
from agentos.execution.crews.repository import TeamRow
from agentos.execution.pulse.aftermath import lock_family
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.service import end_session, locked
from agentos.execution.pulse.states import ENDED
from agentos.tenancy.work import Work


@dataclass(frozen=True)
class NativeCrew:
    """`NativeTeams`, as the use-cases of teams need it."""

    pulse: PulseFront

    async def deployed(self, work: Work, team_id: UUID) -> None:
        team = await teams.lock(work.tx, work.tenant_id, team_id)
        if team is None:
            return
        now = work.now()
        events = await start_next(work.tx, team, now)
        await work.outbox.announce(work.tx, work.tenant_id, now, *events)
        work.tx.after_commit(self.pulse.hints.queued)

    async def stopped(self, work: Work, team_id: UUID) -> None:
        team = await teams.lock(work.tx, work.tenant_id, team_id)
        if team is None:
            return
        # Before the answer ends, which would take up the next message.
        await work.tx.execute(
            "update teams set deployed = false where tenant_id = $1 and id = $2",
            work.tenant_id,
            team_id,
        )
        if await messages.running(work.tx, work.tenant_id, team_id) is not None:
            await end_conversation(work, self.pulse, team, "The team was stopped.")


async def end_conversation(work: Work, front: PulseFront, team: TeamRow, reason: str) -> None:
    """Ends what a native team is at; its message is cancelled, and the next taken up if it may.

    The caller has locked its session and then the team.
    """
    if team.session_id is None:
        return
    # The session is ours, so nobody ends its sub-agents or starts more of them meanwhile.
    await lock_family(work.tx, work.tenant_id, team.session_id)
    session = await locked(work, team.session_id)
    if session.state not in ENDED:
        await end_session(work, front, session, "cancelled", reason)
