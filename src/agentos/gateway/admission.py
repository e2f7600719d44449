"""Who comes in, and how often: the same for requests and for sockets."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.types import Scope

from agentos.gateway.authentication import Authenticator, Identity
from agentos.gateway.headers import Headers
from agentos.kernel.ids import TenantId
from agentos.tenancy.edge import ForeignOrigin
from agentos.tenancy.principals import Principal, PrincipalKind
from agentos.tenancy.rate_limits import Allowance, RateLimiter
from agentos.tenancy.tokens import Unauthenticated


@dataclass(frozen=True)
class AdmissionSettings:
    anonymous_per_minute: int
    trusted_proxies: frozenset[str]
    own_origins: frozenset[str]


class Admission:
    def __init__(
        self,
        authenticator: Authenticator,
        limiter: RateLimiter,
        settings: AdmissionSettings,
        meter: Callable[[TenantId], None] = lambda _: None,
    ):
        """`meter` is told of every request that was let in, for the bill."""
        self._authenticator = authenticator
        self._limiter = limiter
        self._settings = settings
        self._meter = meter

    @property
    def anonymous_per_minute(self) -> int:
        return self._settings.anonymous_per_minute

    def cookie(self, headers: Headers, *, harmless: bool) -> str | None:
        """The cookie's credential. Browsers send it for any page, so what is not harmless must
        come from a page of ours.
        """
        cookie = headers.cookie()
        if cookie is not None and not harmless and not self._is_own_origin(headers):
            raise ForeignOrigin()
        return cookie

    def is_own_page(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request says that a page of ours sends it, which no other page can."""
        return self._is_own_origin(Headers(headers))

    async def identify(self, credential: str, scope: Scope, headers: Headers) -> Identity:
        """Who a credential belongs to. A wrong one counts as an anonymous request, so that
        nobody can try them without end.
        """
        try:
            return await self._authenticator.identify(credential)
        except Unauthenticated:
            await self.count_visitor(scope, headers)
            raise

    async def count_visitor(self, scope: Scope, headers: Headers) -> Allowance:
        """One more request from an address; raises RateLimited."""
        bucket = f"address:{self._address(scope, headers)}"
        return await self._limiter.take(bucket, self._settings.anonymous_per_minute)

    async def count(self, identity: Identity) -> Allowance:
        """One more request of a principal; raises RateLimited."""
        allowance = await self._limiter.take(
            _bucket(identity.principal), identity.requests_per_minute
        )
        self._meter(identity.principal.tenant_id)
        return allowance

    def _is_own_origin(self, headers: Headers) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return False
        return origin in self._settings.own_origins or origin.partition("://")[2] == headers.get(
            b"host"
        )

    def _address(self, scope: Scope, headers: Headers) -> str:
        client = scope.get("client")
        address = str(client[0]) if client else "unknown"
        forwarded = headers.get(b"x-forwarded-for")
        if forwarded and address in self._settings.trusted_proxies:
            address = forwarded.rpartition(",")[2].strip()
        return _network(address)


def _network(address: str) -> str:
    """What one visitor has to himself: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        # Cut, because it becomes a key: whoever sends a longer one is limited all the same.
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def _bucket(principal: Principal) -> str:
    # Service tokens cost nothing to make, so a tenant's share one bucket.
    each = "" if principal.kind is PrincipalKind.SERVICE else principal.id
    return f"{principal.tenant_id}:{principal.kind}:{each}"
