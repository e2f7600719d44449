"""Ends what goes on for long once its credential is no longer good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg

from agentos.gateway.authentication import Authenticator
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.logs import get_logger
from agentos.tenancy.principals import Scope

log = get_logger(__name__)

# A revoked credential is to be noticed within a second, the reading included.
_EVERY_SECONDS = 0.4
_AT_ONCE = 4

End = Callable[[AgentOSError], None]


class CredentialWatch:
    """Ends streams whose credential expired, was revoked or lost its scope: a few looks a second
    per credential, however many streams it has open.
    """

    def __init__(self, authenticator: Authenticator):
        self._authenticator = authenticator
        self._watched: dict[tuple[str, Scope], set[End]] = {}
        self._sweeping: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, credential: str, scope: Scope, end: End) -> Iterator[None]:
        """Calls `end` with the reason if the credential stops being good while the block runs."""
        key = (credential, scope)
        ends = self._watched.setdefault(key, set())
        ends.add(end)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            ends.discard(end)
            if not ends and self._watched.get(key) is ends:
                del self._watched[key]

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _sweep(self) -> None:
        while self._watched:
            await asyncio.sleep(_EVERY_SECONDS)
            watched = list(self._watched)
            for start in range(0, len(watched), _AT_ONCE):
                await asyncio.gather(
                    *(self._look(*key) for key in watched[start : start + _AT_ONCE])
                )

    async def _look(self, credential: str, scope: Scope) -> None:
        try:
            identity = await self._authenticator.confirm(credential)
            identity.principal.require(scope)
        except AgentOSError as error:
            # Only a clear answer ends a stream; a database that is away must not end them all.
            if error.kind in (Kind.UNAUTHENTICATED, Kind.FORBIDDEN):
                for end in list(self._watched.get((credential, scope), ())):
                    end(error)
        except (asyncpg.PostgresError, OSError) as error:
            log.warning("could not check a stream's credential", error=repr(error))
