"""Who may open a stream, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg
from starlette.types import Scope as AsgiScope

from agentos.gateway.admission import Admission
from agentos.gateway.authentication import Authenticator, Identity
from agentos.gateway.events.errors import FORBIDDEN, Ending, credential_ended
from agentos.gateway.events.tickets import Tickets
from agentos.gateway.headers import Headers
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.logs import get_logger
from agentos.tenancy.principals import Scope
from agentos.tenancy.tokens import Unauthenticated

log = get_logger(__name__)

_EVERY_SECONDS = 1.0
_AT_ONCE = 4

End = Callable[[Ending], None]


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


class CredentialWatch:
    """Ends streams whose credential expired or was revoked: one look a second per credential."""

    def __init__(self, authenticator: Authenticator):
        self._authenticator = authenticator
        self._watched: dict[str, set[End]] = {}
        self._sweeping: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, credential: str, end: End) -> Iterator[None]:
        """Calls `end` if the credential stops being good while the block runs."""
        ends = self._watched.setdefault(credential, set())
        ends.add(end)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            ends.discard(end)
            if not ends and self._watched.get(credential) is ends:
                del self._watched[credential]

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _sweep(self) -> None:
        while self._watched:
            await asyncio.sleep(_EVERY_SECONDS)
            credentials = list(self._watched)
            for start in range(0, len(credentials), _AT_ONCE):
                await asyncio.gather(*map(self._look, credentials[start : start + _AT_ONCE]))

    async def _look(self, credential: str) -> None:
        try:
            identity = await self._authenticator.identify(credential)
        except AgentOSError as error:
            # Only a clear answer ends a stream; a database that is away must not end them all.
            if error.kind is Kind.UNAUTHENTICATED:
                self._end(credential, credential_ended(error))
        except (asyncpg.PostgresError, OSError) as error:
            log.warning("could not check a stream's credential", error=repr(error))
        else:
            if Scope.EVENTS_READ not in identity.principal.scopes:
                self._end(credential, FORBIDDEN)

    def _end(self, credential: str, ending: Ending) -> None:
        for end in list(self._watched.get(credential, ())):
            end(ending)
