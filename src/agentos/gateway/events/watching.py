"""What an event socket brings besides events: the chat of teams, the words of sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import msgspec

from agentos.gateway.authentication import Identity
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.hub import EventHub
from agentos.gateway.events.rooms import Rooms
from agentos.kernel.errors import AgentOSError
from agentos.tenancy.principals import Scope

_MOST_WATCHED = 20  # teams, and as many sessions, that one socket brings


class _Piece(Protocol):
    @property
    def frame(self) -> Frame: ...


P = TypeVar("P", bound=_Piece)
Write = Callable[[bytes], bool]


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    watch: UUID | None = None
    unwatch: UUID | None = None
    watch_session: UUID | None = None
    unwatch_session: UUID | None = None


_order = msgspec.json.Decoder(_Order)


class Watching:
    """What one client watches.

    A piece goes out at once or, to a client that is behind, not at all: it has no place in history.
    Of a chat, the client sees by its number that one is missing.
    """

    def __init__(
        self,
        hub: EventHub,
        watch: CredentialWatch,
        credential: str,
        identity: Identity,
        write: Write,
    ):
        client = _Client(watch, credential, identity, write)
        self._teams = _Watched(hub.chats, Scope.MESSAGES_READ, client)
        self._sessions = _Watched(hub.words, Scope.SESSIONS_READ, client)

    async def obey(self, text: str) -> None:
        """Does what `{"watch": "<team>"}`, `{"watch_session": "<session>"}` and their opposites
        `unwatch` and `unwatch_session` say; ignores all else."""
        try:
            order = _order.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return
        if order.watch is not None:
            await self._teams.begin(order.watch)
        elif order.unwatch is not None:
            await self._teams.end(order.unwatch)
        elif order.watch_session is not None:
            await self._sessions.begin(order.watch_session)
        elif order.unwatch_session is not None:
            await self._sessions.end(order.unwatch_session)

    async def close(self) -> None:
        await self._teams.close()
        await self._sessions.close()


class _Client:
    """Who watches, and where it is told."""

    def __init__(
        self, watch: CredentialWatch, credential: str, identity: Identity, write: Write
    ) -> None:
        self.watch = watch
        self.credential = credential
        self.principal = identity.principal
        self.write = write


class _Watched(Generic[P]):
    """The teams, or the sessions, that a client watches."""

    def __init__(self, rooms: Rooms[P], scope: Scope, client: _Client) -> None:
        self._rooms = rooms
        self._scope = scope
        self._client = client
        self._may = scope in client.principal.scopes
        self._open: dict[UUID, AsyncExitStack] = {}

    async def begin(self, thing_id: UUID) -> None:
        """Nothing happens if there is no such thing, or it may not be watched, or too much is."""
        if not self._may or thing_id in self._open or len(self._open) >= _MOST_WATCHED:
            return
        client, tenant_id = self._client, self._client.principal.tenant_id
        with suppress(AgentOSError):
            if not await self._rooms.exists(tenant_id, thing_id):
                return
            async with AsyncExitStack() as stack:
                stack.enter_context(
                    client.watch.watching(client.credential, self._scope, self._lost)
                )
                await stack.enter_async_context(
                    self._rooms.listening(tenant_id, thing_id, self._tell)
                )
                self._open[thing_id] = stack.pop_all()

    async def end(self, thing_id: UUID) -> None:
        if (stack := self._open.pop(thing_id, None)) is not None:
            await stack.aclose()

    async def close(self) -> None:
        while self._open:
            await self._open.popitem()[1].aclose()

    def _tell(self, piece: P) -> None:
        if self._may:
            self._client.write(piece.frame.framed)

    def _lost(self, _: AgentOSError) -> None:
        """The credential may not read this any more; events it may still, or ends by them."""
        self._may = False
