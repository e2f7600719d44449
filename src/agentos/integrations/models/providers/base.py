"""What a provider is: where its wires are, how its key is sent, which models it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentos.integrations.models.failures import Failure
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName


@dataclass(frozen=True, slots=True)
class ModelInfo:
    id: str
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a provider for one tenant. The key never leaves this process but to it."""

    base_url: str
    key: str | None

    def __repr__(self) -> str:
        return f"Connection({self.base_url!r}, key={'…' if self.key else None})"


class ProviderFailed(Exception):
    """A provider could not be asked; carries why."""

    def __init__(self, failure: Failure):
        self.failure = failure
        super().__init__(failure.message)


class Provider(Protocol):
    kind: str
    title: str
    # None: every connection names its own.
    base_url: str | None
    needs_key: bool
    # Under which names genai-prices knows the provider; empty: its prices are never known.
    price_ids: Sequence[str]
    # Nobody charges for it: a machine of one's own.
    free: bool
    # Which wires it speaks, best first, and the path of each under the base URL.
    paths: Mapping[WireName, str]

    def url(self, connection: Connection, wire: WireName, model: str, *, stream: bool) -> str: ...

    def headers(self, connection: Connection) -> dict[str, str]: ...

    def owns(self, model: str) -> bool:
        """Whether a bare model name is this provider's, by its look (`claude-…`)."""
        ...

    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        """Raises ProviderFailed. Also the test of a key: it costs nothing."""
        ...
