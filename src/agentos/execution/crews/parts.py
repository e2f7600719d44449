"""What keeping teams is assembled from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from agentos.integrations.runtimes.base import Runtime
from agentos.integrations.runtimes.bundle import Bundle, sidecar_bundle
from agentos.integrations.runtimes.local import Local
from agentos.integrations.sandboxes.base import Sandbox
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.bus import Bus
from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.service import Vault


class Runtimes:
    """The runtimes of this machine, each made when the first team needs it."""

    def __init__(self, settings: Settings, sandbox: Sandbox, installation: str):
        """`installation` marks what is ours where several installations share an engine."""
        self._settings = settings
        self._sandbox = sandbox
        self._installation = installation
        self._known: dict[str, Runtime] = {}
        self._bundle: Bundle | None = None
        self._making = asyncio.Lock()
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def bundle(self) -> Bundle:
        """The sidecar with all it needs. Raises RuntimeMissing."""
        async with self._making:
            if self._bundle is None:
                self._bundle = await sidecar_bundle(self._settings.data_dir / "sidecar")
            return self._bundle

    async def get(self, name: str, kept: Callable[[], Awaitable[frozenset[UUID]]]) -> Runtime:
        """A runtime; when it is first asked for, it removes what dead workers left but for `kept`."""
        bundle = await self.bundle()
        async with self._making:
            if name not in self._known:
                runtime = (
                    self._docker() if name == "docker" else Local(self._sandbox, bundle.mounts)
                )
                await runtime.check()
                await runtime.sweep(await kept())
                self._known[name] = runtime
            return self._known[name]

    def _docker(self) -> Runtime:
        # Here, not above: most workers have no team in a container, and it is large.
        from agentos.integrations.runtimes.docker import Docker

        settings = self._settings
        docker = Docker(
            settings.docker_host,
            settings.docker_image,
            self._installation,
            settings.docker_mounts,
        )
        self._closing.append(docker.close)
        return docker

    async def close(self) -> None:
        for close in self._closing:
            await close()
        if self._bundle is not None:
            self._bundle.close()


@dataclass(frozen=True)
class CrewParts:
    settings: Settings
    db: Database
    platform_db: Database
    bus: Bus
    # Where sidecars are led to: the addresses of NATS and of the gateway.
    bus_url: str
    gateway_url: str
    authority: BusAuthority
    tokens: Tokens
    outbox: Outbox
    clock: Clock
    objects: ObjectStore
    vault: Vault
    workspaces: Workspaces
    runtimes: Runtimes
