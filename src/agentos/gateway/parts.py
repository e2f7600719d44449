"""What a gateway is assembled from."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.execution.relay import relay_waker
from agentos.integrations.models.parts import ModelParts, model_parts
from agentos.kernel.bus import Bus
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.objects import ObjectStore
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings
from agentos.tenancy.rate_limits import RateLimiter
from agentos.tenancy.vault.keyring import KeyEncryption
from agentos.tenancy.vault.service import Vault


@dataclass(frozen=True)
class Parts:
    settings: Settings
    secret_key: bytes
    clock: Clock
    db: Database
    platform_db: Database
    bus: Bus
    objects: ObjectStore
    keyring: KeyEncryption

    def outbox(self) -> Outbox:
        return Outbox(relay_waker(self.bus))

    def models(self, outbox: Outbox) -> ModelParts:
        """What model calls need. One of them for a process: it keeps the books of its calls."""
        return model_parts(
            self.settings,
            self.clock,
            db=self.db,
            platform_db=self.platform_db,
            vault=Vault(self.keyring),
            outbox=outbox,
            limiter=RateLimiter(self.db),
        )
