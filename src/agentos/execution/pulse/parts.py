"""What Pulse is assembled from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agentos.execution.pulse.live import Audience
from agentos.execution.pulse.payloads import Payloads
from agentos.execution.pulse.writer import Writer
from agentos.integrations.models.router import ModelRouter
from agentos.integrations.sandboxes.base import Sandbox
from agentos.integrations.sandboxes.choosing import choose_sandbox
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.bus import Bus
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.vault.service import Vault

# Hints, not orders: whoever hears one looks into the database.
WAKE_SUBJECT = "platform.pulse.wake"
SIGNAL_SUBJECT = "platform.pulse.signal"


@dataclass(frozen=True)
class PulseParts:
    settings: Settings
    db: Database
    platform_db: Database
    bus: Bus
    outbox: Outbox
    clock: Clock
    router: ModelRouter
    workspaces: Workspaces
    sandbox: Sandbox
    vault: Vault
    payloads: Payloads
    writer: Writer
    # Wakes the workers: there is something in the queue.
    wake: Callable[[], Awaitable[None]] = field(repr=False)
    audience: Audience = field(default_factory=Audience)


async def pulse_parts(
    settings: Settings,
    clock: Clock,
    *,
    db: Database,
    platform_db: Database,
    bus: Bus,
    objects: ObjectStore,
    vault: Vault,
    outbox: Outbox,
    router: ModelRouter,
) -> PulseParts:
    async def wake() -> None:
        if bus.is_connected:
            await bus.publish(WAKE_SUBJECT, b"")

    async def committed(released: bool) -> None:
        # Hints: what is committed has succeeded, whoever hears of it.
        with suppress(AgentOSError):
            if (waking := outbox.wake()) is not None:
                await waking
            if released:
                await wake()

    return PulseParts(
        settings=settings,
        db=db,
        platform_db=platform_db,
        bus=bus,
        outbox=outbox,
        clock=clock,
        router=router,
        workspaces=Workspaces(
            db,
            objects,
            clock,
            settings.workspaces_dir,
            max_bytes=settings.workspace_bytes,
            max_files=settings.workspace_files,
        ),
        sandbox=await choose_sandbox(settings.sandbox),
        vault=vault,
        payloads=Payloads(db, objects),
        writer=Writer(db, router.escrow, committed),
        wake=wake,
    )
