"""Which models a tenant can use, and how: its providers with their keys, its chain, its prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.prices import Rates
from agentos.integrations.models.providers.base import Connection, Provider


@dataclass(frozen=True, slots=True)
class ConnectedProvider:
    id: UUID
    name: str
    provider: Provider
    connection: Connection
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class FallbackChain:
    """Targets are `provider/model`, in the order in which they are tried."""

    targets: tuple[str, ...] = ()
    fall_back_on: frozenset[ErrorClass] = frozenset()


@dataclass(frozen=True, slots=True)
class TenantModels:
    """The built-in provider is always among the providers, as the last."""

    providers: tuple[ConnectedProvider, ...]
    chain: FallbackChain
    # By (provider name, model).
    prices: Mapping[tuple[str, str], Rates]
