"""The worker: what runs behind the API. Start as many as you like; the work is shared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from agentos.execution.crews.keeping.engine import CrewEngine
from agentos.execution.crews.parts import CrewParts
from agentos.execution.crews.revocations import Revoker
from agentos.execution.pulse.chains.advance import keep_advancing
from agentos.execution.pulse.engine import Engine
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.relay import Relay
from agentos.execution.retention import keep_discarding
from agentos.execution.runs.engine import RunEngine
from agentos.execution.sweeper import Retention, Sweeper
from agentos.kernel.bus import Bus
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.ledger.recovery import keep_recovering


@dataclass(frozen=True)
class Worker:
    settings: Settings
    platform_db: Database
    bus: Bus
    objects: ObjectStore
    clock: Clock
    pulse: PulseParts
    crew: CrewParts
    # If this process runs it.
    embedded_nats: EmbeddedNats | None = None

    async def run(self) -> None:
        """Works until cancelled."""
        retention = Retention(
            events=timedelta(days=self.settings.event_retention_days),
            idempotency_keys=timedelta(hours=self.settings.idempotency_hours),
            sessions=timedelta(days=self.settings.session_retention_days),
            runs=timedelta(days=self.settings.run_retention_days),
        )
        # The relay polls, so what is announced here needs no wake-up.
        outbox = Outbox(lambda: None)
        spools = self.settings.ledger_dir
        sweeper = Sweeper(self.platform_db, self.objects, outbox, self.clock, retention)
        revoker = Revoker(
            self.platform_db,
            self.bus,
            self.crew.bus_url,
            self.crew.authority,
            self.clock,
            self.embedded_nats,
        )
        handed_over = asyncio.Event()
        engine = Engine(
            self.pulse,
            capacity=self.settings.worker_sessions,
            drain_seconds=self.settings.drain_seconds,
            last=handed_over,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.run())
            teams = group.create_task(CrewEngine(self.crew, lambda: engine.worker_id).run())
            # Until then the worker says that it lives: others would take its teams away.
            teams.add_done_callback(lambda _: handed_over.set())
            group.create_task(RunEngine(self.pulse).run())
            group.create_task(keep_advancing(self.pulse))
            group.create_task(Relay(self.platform_db, self.bus).run())
            group.create_task(sweeper.run())
            group.create_task(revoker.run())
            group.create_task(keep_discarding(self.platform_db, self.pulse.workspaces))
            group.create_task(keep_recovering(spools, self.platform_db, outbox, self.clock))
