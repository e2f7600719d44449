"""Brings runs from their moment to their end: fires schedules, starts what is queued, notes what
sessions have come to, and makes the calls of post-actions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.execution.post_actions.delivering import Deliverer
from agentos.execution.pulse.front import Hints, PulseFront
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.pulse.states import ENDED, State
from agentos.execution.runs import repository
from agentos.execution.runs.outcomes import end_run
from agentos.execution.runs.starting import start_run, starter
from agentos.execution.schedules.firing import fire_due
from agentos.kernel.errors import AgentOSError
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.tenancy.work import Work

log = get_logger(__name__)

_POLL_SECONDS = 1.0
_LOCK = 0x72756E73  # "runs"
_BATCH = 50
_PASSING = (AgentOSError, asyncpg.PostgresError, OSError)

# One statement a second while nothing is to be done, each part of it answered by a partial index.
_ANYTHING = """
select exists (select from schedules where enabled and next_at <= $1) as due,
    exists (select from runs where state = 'queued') as queued,
    exists (select from runs r join sessions s on s.tenant_id = r.tenant_id and s.id = r.session_id
            where r.state = 'running' and s.finished_at is not null) as ended,
    exists (select from deliveries where state = 'waiting' and next_at <= $1) as deliveries
"""

# Tenants take turns.
_TO_START = """
select tenant_id, id from (
    select tenant_id, id, created_at, row_number() over (partition by tenant_id order by created_at, id) as nth
    from (select tenant_id, id, created_at from runs
          where state = 'queued' order by created_at, id limit 1000) q) r
order by nth, created_at limit $1
"""

_ENDED_SESSIONS = """
select r.tenant_id, r.id from runs r
join sessions s on s.tenant_id = r.tenant_id and s.id = r.session_id
where r.state = 'running' and s.finished_at is not null limit $1
"""


@dataclass(frozen=True)
class RunEngine:
    """One for each worker process; two at once do each thing once."""

    parts: PulseParts

    async def run(self) -> None:
        """Works until cancelled."""
        deliverer = Deliverer(self.parts)
        while True:
            try:
                worked = await self.round(deliverer)
            except _PASSING as error:
                log.warning("runs have to wait", error=repr(error))
                worked = False
            await asyncio.sleep(0 if worked else _POLL_SECONDS)

    async def round(self, deliverer: Deliverer) -> bool:
        """Does what is to be done now; False if there was nothing, or nothing could be done."""
        parts, now = self.parts, self.parts.clock.now()
        (todo,) = await parts.platform_db.fetch(_ANYTHING, now)
        worked = False
        if todo["due"]:
            worked = await fire_due(parts.platform_db, parts.outbox, now) > 0
        if todo["due"] or todo["queued"]:
            worked = await self._start_queued() > 0 or worked
        if todo["ended"]:
            worked = await self._end_runs() > 0 or worked
        if todo["deliveries"]:
            worked = await deliverer.deliver_due() > 0 or worked
        return worked

    async def _start_queued(self) -> int:
        """Starts what there is room for; returns how many."""
        parts, started = self.parts, 0
        async with parts.platform_db.transaction() as tx:
            # Held while the runs are started one by one: so nobody else counts meanwhile.
            if not await tx.value("select pg_try_advisory_xact_lock($1)", _LOCK):
                return 0
            going: int = await tx.value(
                """select count(*) from runs
                   where state = 'running' and schedule_id is not null and not manual"""
            )
            room = min(_BATCH, parts.settings.scheduler_max_concurrent - going)
            if room <= 0:
                return 0
            for row in await tx.fetch(_TO_START, room):
                started += await self._start(TenantId(row["tenant_id"]), row["id"])
        return started

    async def _start(self, tenant_id: TenantId, run_id: UUID) -> bool:
        try:
            return await self._start_now(tenant_id, run_id)
        except AgentOSError as error:
            # Its team is gone, its model is unknown, …: that is what came of it.
            if error.kind in ("transient", "internal"):
                raise
            return await self._fail(tenant_id, run_id, error)

    async def _start_now(self, tenant_id: TenantId, run_id: UUID) -> bool:
        parts = self.parts
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            run = await repository.lock(tx, tenant_id, run_id)
            if run is None or run.state != "queued":
                return False
            row = await tx.row(
                """select s.name, s.team_id, t.plan from schedules s
                   join tenants t on t.id = s.tenant_id where s.tenant_id = $1 and s.id = $2""",
                tenant_id,
                run.schedule_id,
            )
            assert row is not None, "a run is deleted with its schedule"
            principal = starter(tenant_id, row["plan"], run.schedule_id or run_id, row["name"])
            await start_run(
                Work(tx, principal, parts.outbox, parts.clock),
                self._front(),
                run_id,
                source="schedule",
                team_id=row["team_id"],
                prompt=run.prompt,
                session=run.session,
            )
        return True

    async def _fail(self, tenant_id: TenantId, run_id: UUID, error: AgentOSError) -> bool:
        now = self.parts.clock.now()
        async with self.parts.db.transaction(tenant_id=tenant_id) as tx:
            events = await end_run(
                tx,
                tenant_id,
                run_id,
                state="failed",
                result=None,
                error=error.message,
                error_code=error.code,
                now=now,
            )
            await self.parts.outbox.announce(tx, tenant_id, now, *events)
        return bool(events)

    async def _end_runs(self) -> int:
        """Ends the runs whose sessions have ended; returns how many."""
        async with self.parts.platform_db.transaction() as tx:
            rows = await tx.fetch(_ENDED_SESSIONS, _BATCH)
        for row in rows:
            await self._end(TenantId(row["tenant_id"]), row["id"], self.parts.clock.now())
        return len(rows)

    async def _end(self, tenant_id: TenantId, run_id: UUID, now: datetime) -> None:
        async with self.parts.db.transaction(tenant_id=tenant_id) as tx:
            row = await tx.row(
                """select s.state, s.result, s.error, s.error_code from runs r
                   join sessions s on s.tenant_id = r.tenant_id and s.id = r.session_id
                   where r.tenant_id = $1 and r.id = $2""",
                tenant_id,
                run_id,
            )
            if row is None or State(row["state"]) not in ENDED:
                return  # somebody has continued it
            state = _STATES.get(State(row["state"]), "failed")
            if row["error_code"] == "cancelled":
                state = "cancelled"
            events = await end_run(
                tx,
                tenant_id,
                run_id,
                state=state,
                result=(row["result"] or {}).get("text"),
                error=row["error"],
                error_code=row["error_code"],
                now=now,
            )
            await self.parts.outbox.announce(tx, tenant_id, now, *events)

    def _front(self) -> PulseFront:
        parts = self.parts
        return PulseFront(
            hints=Hints(parts.bus),
            directory=parts.router.directory,
            workspaces=parts.workspaces,
            payloads=parts.payloads,
            hosts=parts.settings.tool_hosts,
            no_budget=parts.router.escrow.no_budget,
        )


_STATES = {State.COMPLETE: "succeeded", State.ROLLED_BACK: "cancelled"}
