"""What a gateway is assembled from."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.kernel.bus import Bus
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.objects import ObjectStore
from agentos.kernel.settings import Settings
from agentos.tenancy.vault.keyring import KeyEncryption


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
