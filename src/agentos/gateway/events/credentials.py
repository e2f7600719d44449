"""Who may open a stream, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import asyncpg
from starlette.types import Scope as AsgiScope

from agentos.gateway.authentication import Authenticator, Identity
from agentos.gateway.edge import ForeignOrigin
from agentos.gateway.events.errors import FORBIDDEN, Ending, credential_ended
from agentos.gateway.events.tickets import Tickets
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.logs import get_logger
from agentos.tenancy.edge import ACCESS_COOKIE
from agentos.tenancy.principals import Scope
from agentos.tenancy.tokens import Unauthenticated

log = get_logger(__name__)

_EVERY_SECONDS = 1.0
_AT_ONCE = 4

End = Callable[[Ending], None]


class Headers:
    """The headers of an ASGI scope, as far as credentials need them."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]):
        self._headers = dict(headers)

    def get(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def bearer(self) -> str | None:
        authorization = self.get(b"authorization")
        if authorization is None:
            return None
        scheme, _, credential = authorization.partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise Unauthenticated("The Authorization header must be `Bearer …`.")
        return credential.strip()

    def cookie(self) -> str | None:
        for part in (self.get(b"cookie") or "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == ACCESS_COOKIE:
                return value
        return None

    def credential(self) -> str:
        """What an HTTP request that the edge let through was authenticated by."""
        credential = self.bearer() or self.cookie()
        assert credential is not None, "the edge refuses requests without a credential"
        return credential


class Doorkeeper:
    """Authenticates the handshake of a socket, where the edge does not look."""

    def __init__(
        self,
        authenticator: Authenticator,
        tickets: Tickets,
        is_own_origin: Callable[[str, str | None], bool],
    ):
        self._authenticator = authenticator
        self._tickets = tickets
        self._is_own_origin = is_own_origin

    async def admit(self, scope: AsgiScope, ticket: str | None) -> tuple[str, Identity]:
        """The credential behind a handshake and whose it is; raises Unauthenticated or Forbidden."""
        headers = Headers(scope["headers"])
        credential = headers.bearer()
        if credential is None and ticket is not None:
            credential = await self._tickets.redeem(ticket)
        if credential is None:
            credential = self._cookie(headers)
        identity = await self._authenticator.identify(credential)
        identity.principal.require(Scope.EVENTS_READ)
        return credential, identity

    def _cookie(self, headers: Headers) -> str:
        cookie = headers.cookie()
        if cookie is None:
            raise Unauthenticated()
        # Browsers send cookies with the sockets of any page, and no CORS protects these.
        origin = headers.get(b"origin")
        if origin is None or not self._is_own_origin(origin, headers.get(b"host")):
            raise ForeignOrigin()
        return cookie


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
