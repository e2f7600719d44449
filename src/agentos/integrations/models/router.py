"""The router: one model call from the caller's bytes to the provider's, metered and escrowed.

Both faces use it: the HTTP proxy and native agents. What a call may cost is reserved before each
attempt; what it did cost is settled before its last byte is handed on. An attempt that fails
before anything was delivered may be followed by one at the next target of the chain; once text
has gone out, a call is never started again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentos.integrations.models.directory import Directory, TenantModels
from agentos.integrations.models.health import Health
from agentos.integrations.models.open_call import OpenCall
from agentos.integrations.models.prices import FREE, Catalogue, Rates, may_carry_sound
from agentos.integrations.models.providers.demo import CONTEXT_WINDOW as DEMO_WINDOW
from agentos.integrations.models.routing import Target
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import Glance, Wire
from agentos.kernel.clock import Clock
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.escrow import Escrow
from agentos.tenancy.rate_limits import RateLimiter

# What a model may write or read at most when nobody knows: no model in the catalogue does more.
_UNKNOWN_OUTPUT = 131_072
_UNKNOWN_WINDOW = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A call as it came: the bytes, the wire they are written in, and who pays."""

    face: Wire
    body: bytes
    glance: Glance
    spender: Spender
    principal_kind: str
    principal_id: str
    # Headers that belong to the face's wire, such as its version: for providers that speak it.
    forwarded: Mapping[str, str] = field(default_factory=dict)
    # Takes over from Escrow.settle, for callers that book in a transaction of their own.
    book: Callable[[Reservation, FinishedCall], None] | None = None


@dataclass(frozen=True)
class RouterSettings:
    timeout_seconds: float
    queue_seconds: float


class ModelRouter:
    def __init__(
        self,
        *,
        directory: Directory,
        catalogue: Catalogue,
        escrow: Escrow,
        upstream: Upstream,
        limiter: RateLimiter,
        clock: Clock,
        settings: RouterSettings,
    ):
        self.directory = directory
        self.catalogue = catalogue
        self.escrow = escrow
        self.upstream = upstream
        self.limiter = limiter
        self.clock = clock
        self.settings = settings
        self.health = Health()

    def open(self, request: ModelRequest) -> OpenCall:
        """A call that begins when the block is entered and is settled when it ends.

        Entering raises ModelNotFound, FaceNotServed, ModelCallFailed and what Escrow.reserve does.
        """
        return OpenCall(self, request)

    def rates(self, models: TenantModels, request: ModelRequest, target: Target) -> Rates | None:
        """What a target charges; None if nobody knows."""
        own = models.prices.get((target.provider.name, target.model))
        if own is not None:
            return own
        provider = target.provider.provider
        if provider.free:
            return FREE
        return self.catalogue.rates(
            provider.price_ids,
            target.model,
            request.glance.service_tier,
            sound=request.glance.open_ended or may_carry_sound(request.body),
        )

    def worst(self, request: ModelRequest, target: Target, rates: Rates | None) -> Amount:
        """The most a call can take: a token is at least a byte, and no model reads more than its
        window.
        """
        provider = target.provider.provider
        window = (
            DEMO_WINDOW
            if provider.kind == "demo"
            else self.catalogue.context_window(provider.price_ids, target.model)
        )
        glance = request.glance
        read = len(request.body)
        if glance.open_ended:
            read = max(read, window or _UNKNOWN_WINDOW)
        elif window is not None:
            read = min(read, window)
        written = glance.max_output
        if written is None:
            written = min(window or _UNKNOWN_OUTPUT, _UNKNOWN_OUTPUT)
        micros = None if rates is None else rates.worst(read, written)
        return Amount(micros, read + written)
