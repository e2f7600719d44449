"""What model calls need, assembled once a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentos.integrations.models.demo_upstream import DemoUpstream
from agentos.integrations.models.directory import Directory
from agentos.integrations.models.listing import Listing
from agentos.integrations.models.prices import Catalogue
from agentos.integrations.models.router import ModelRouter, RouterSettings
from agentos.integrations.models.upstreams import open_upstream
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.ledger.escrow import Escrow
from agentos.tenancy.ledger.meters import ApiCallMeter
from agentos.tenancy.rate_limits import RateLimiter
from agentos.tenancy.vault.service import Vault


@dataclass(frozen=True)
class ModelParts:
    router: ModelRouter
    listing: Listing
    meter: ApiCallMeter

    @asynccontextmanager
    async def running(self, *, warm: bool = True) -> AsyncIterator[None]:
        """Keeps the books while the block lasts.

        Prices take half a second to load: `warm` has it done before the first call needs them.
        """
        router = self.router
        async with router.escrow.running():
            tasks = [asyncio.create_task(self.meter.run())]
            if warm:
                tasks.append(asyncio.create_task(router.catalogue.load()))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await router.upstream.close()


def model_parts(
    settings: Settings,
    clock: Clock,
    *,
    db: Database,
    platform_db: Database,
    vault: Vault,
    outbox: Outbox,
    limiter: RateLimiter,
) -> ModelParts:
    directory = Directory(db, vault)
    catalogue = Catalogue()
    upstream = DemoUpstream(open_upstream(settings.model_hosts))
    router = ModelRouter(
        directory=directory,
        catalogue=catalogue,
        escrow=Escrow(
            platform_db, outbox, clock, settings.ledger_dir, settings.model_queue_seconds
        ),
        upstream=upstream,
        limiter=limiter,
        clock=clock,
        settings=RouterSettings(settings.model_timeout_seconds, settings.model_queue_seconds),
    )
    return ModelParts(
        router, Listing(upstream, directory, catalogue), ApiCallMeter(platform_db, clock)
    )
