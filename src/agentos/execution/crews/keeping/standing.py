"""How a team is, as its keeper writes it down for people: its status, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agentos.contracts.crew import Beat
from agentos.execution.crews.keeping import claims, mail
from agentos.execution.crews.keeping.claims import Claim, Wanted
from agentos.execution.crews.keeping.trouble import Step, next_step
from agentos.execution.crews.keeping.words import (
    MOST_REASON,
    conversation_of,
    reason_of,
    servers_of,
)
from agentos.execution.crews.logs import repository as logs
from agentos.execution.crews.logs.lines import crash_line
from agentos.execution.crews.parts import CrewParts
from agentos.execution.crews.schemas import TeamStatus


class Standing:
    """Of one team. Each change is one transaction, and only while the team is ours: raises Lost."""

    def __init__(self, parts: CrewParts, claim: Claim):
        self._parts = parts
        self._claim = claim

    async def wanted(self) -> Wanted:
        async with self._parts.db.transaction(tenant_id=self._claim.tenant_id) as tx:
            return await claims.wanted(tx, self._claim)

    async def status(self, status: TeamStatus, reason: str | None, **also: Any) -> None:
        async with self._parts.db.transaction(tenant_id=self._claim.tenant_id) as tx:
            await claims.set_status(
                tx, self._parts.outbox, self._claim, status, reason, self._now(), **also
            )

    async def beat(self, beat: Beat, newest: int) -> None:
        """What the agent works by, and whether it is ready. It cannot know more than `newest`."""
        outbox, now = self._parts.outbox, self._now()
        version, ready = max(0, min(beat.version, newest)), beat.state in ("idle", "busy")
        async with self._parts.db.transaction(tenant_id=self._claim.tenant_id) as tx:
            await claims.applied(tx, self._claim, version, conversation_of(beat), now)
            await claims.set_mcp(tx, outbox, self._claim, servers_of(beat), now)
            if ready:
                why = reason_of(beat.reason) or None
                await claims.set_status(tx, outbox, self._claim, "running", why, now)

    async def crashed(self, reason: str, *, counted: bool) -> tuple[Step, int]:
        """Notes a crash unless that was done; returns what to do about it, and how many it were.

        Says so as the status: what waits meanwhile has to be done by the caller.
        """
        outbox, claim, now = self._parts.outbox, self._claim, self._now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            count = claims.crash_count if counted else claims.count_crash
            crashes, repairs = await count(tx, claim, now)
            step = next_step(crashes, repairs)
            status: TeamStatus = "degraded" if step == "again" else "crash_loop"
            often = f"It has crashed {crashes} times in five minutes."
            what = "It is started again." if step == "again" else often
            told = f"{what} {reason}"[:MOST_REASON]
            # A crash is a line of its own, also if the status says the same as before.
            await claims.set_status(tx, outbox, claim, status, told, now, logged=counted)
            if not counted:
                line = crash_line(what, reason, loop=step != "again")
                await logs.write(tx, claim.tenant_id, claim.team_id, now, line)
        return step, crashes

    async def repairing(self, step: Step, reason: str) -> None:
        """A loop of crashes is followed by a new start; `renew`: with nothing but its files."""
        outbox, claim, now = self._parts.outbox, self._claim, self._now()
        renewed = step == "renew"
        what = "Its agent begins anew, files kept." if renewed else "It is started anew."
        also: dict[str, Any] = {"conversation": None} if renewed else {}
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            row = await claims.hold(tx, claim)
            await claims.set_status(
                tx,
                outbox,
                claim,
                "repairing",
                f"{what} {reason}"[:MOST_REASON],
                now,
                repairs=row["repairs"] + 1,
                crashes=[],
                **also,
            )

    async def failed(self, told: str) -> None:
        """People have to change something before the team can run."""
        outbox, claim, now = self._parts.outbox, self._claim, self._now()
        told = told[:MOST_REASON]
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            await mail.put_back(tx, claim)
            await claims.set_status(tx, outbox, claim, "error", told, now, repairs=0, crashes=[])
            await claims.alert(tx, outbox, claim, told, now)

    async def stopped(self) -> bool:
        """Lets go of a team that people have stopped. False: they want it to run again."""
        outbox, claim, now = self._parts.outbox, self._claim, self._now()
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            if (await claims.hold(tx, claim))["deployed"]:
                return False
            await mail.put_back(tx, claim)
            await claims.set_status(tx, outbox, claim, "stopped", None, now, repairs=0, crashes=[])
            await claims.release(tx, claim)
        return True

    async def given_over(self) -> None:
        """Another worker may keep the team."""
        outbox, claim, now = self._parts.outbox, self._claim, self._now()
        told = "Its worker has stopped; another one takes it over."
        async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
            await claims.set_status(tx, outbox, claim, "starting", told, now)
            await claims.release(tx, claim)

    async def sound(self) -> None:
        """It has run long enough: what was wrong before counts no more."""
        async with self._parts.db.transaction(tenant_id=self._claim.tenant_id) as tx:
            await claims.hold(tx, self._claim)
            await tx.execute(
                "update teams set repairs = 0, crashes = '{}' where tenant_id = $1 and id = $2",
                self._claim.tenant_id,
                self._claim.team_id,
            )

    def _now(self) -> datetime:
        return self._parts.clock.now()
