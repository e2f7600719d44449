"""Tickets: how a browser page opens a socket, on which it cannot set a header.

A ticket works once. It holds the credential it was got with, sealed under a key that only the
ticket's text yields: the row is worth nothing to whoever reads the table, and the stream lives and
dies with the credential, as if that had been presented itself.
"""

from __future__ import annotations

from datetime import timedelta

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentos.gateway.events import repository
from agentos.gateway.events.errors import TicketInvalid
from agentos.gateway.events.schemas import TicketRead
from agentos.kernel.clock import Clock
from agentos.kernel.crypto import derive
from agentos.kernel.database import Database
from agentos.tenancy.opaque_tokens import OpaqueToken, new_token, parse_token
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

PREFIX = "tkt"
_LIFE = timedelta(seconds=30)
# The key is used for one message only, so the nonce need not differ.
_NONCE = bytes(12)


async def issue_ticket(work: Work, credential: str) -> TicketRead:
    """A ticket that stands for `credential`, which the caller has just been admitted with."""
    work.require(Scope.EVENTS_READ)
    token = new_token(PREFIX, work.tenant_id)
    sealed = _cipher(token).encrypt(_NONCE, credential.encode(), None)
    expires_at = work.now() + _LIFE
    await repository.insert_ticket(work.tx, work.tenant_id, token.digest, sealed, expires_at)
    return TicketRead(ticket=token.text, expires_at=expires_at)


class Tickets:
    def __init__(self, db: Database, clock: Clock):
        self._db = db
        self._clock = clock

    async def redeem(self, text: str) -> str:
        """The credential behind a ticket, which is used up now; raises TicketInvalid."""
        token = parse_token(PREFIX, text)
        if token is None:
            raise TicketInvalid()
        async with self._db.transaction(tenant_id=token.tenant_id) as tx:
            sealed = await repository.take_ticket(
                tx, token.tenant_id, token.digest, self._clock.now()
            )
        if sealed is None:
            raise TicketInvalid()
        return _cipher(token).decrypt(_NONCE, sealed, None).decode()


def _cipher(token: OpaqueToken) -> AESGCM:
    return AESGCM(derive(token.text.encode(), "socket ticket"))
