"""Who may open an event socket."""

from __future__ import annotations

from starlette.types import Scope as AsgiScope

from agentos.gateway.admission import Admission
from agentos.gateway.authentication import Identity
from agentos.gateway.events.tickets import Tickets
from agentos.gateway.headers import Headers
from agentos.tenancy.principals import Scope
from agentos.tenancy.tokens import Unauthenticated


class Doorkeeper:
    """Authenticates the handshake of a socket."""

    def __init__(self, admission: Admission, tickets: Tickets):
        self._admission = admission
        self._tickets = tickets

    async def admit(self, scope: AsgiScope, ticket: str | None) -> tuple[str, Identity]:
        """The credential behind a handshake and whose it is.

        Raises Unauthenticated, Forbidden or RateLimited.
        """
        headers = Headers(scope["headers"])
        credential = headers.bearer()
        if credential is None and ticket is not None:
            await self._admission.count_visitor(scope, headers)
            credential = await self._tickets.redeem(ticket)
        if credential is None:
            # No CORS protects a socket, so even reading must come from a page of ours.
            credential = self._admission.cookie(headers, harmless=False)
        if credential is None:
            raise Unauthenticated()
        identity = await self._admission.identify(credential, scope, headers)
        identity.principal.require(Scope.EVENTS_READ)
        await self._admission.count(identity)
        return credential, identity
