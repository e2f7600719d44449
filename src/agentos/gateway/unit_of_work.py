"""One request is one transaction: opened by the route, ended before the answer leaves."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from agentos.gateway.idempotency import Idempotency
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.outbox import Outbox
from agentos.tenancy.principals import Forbidden, Principal
from agentos.tenancy.tokens import Unauthenticated
from agentos.tenancy.work import Alone, PlatformWork, Work


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that came with an Idempotency-Key."""

    key: str
    fingerprint: bytes


class _RolledBack(Exception):
    """Makes the database roll back; never leaves this module."""


class RequestUnit:
    """What `tenancy.edge` promises to endpoints."""

    def __init__(
        self,
        db: Database,
        platform_db: Database,
        outbox: Outbox,
        clock: Clock,
        idempotency: Idempotency,
        principal: Principal | None,
        request_id: str,
        keyed: KeyedRequest | None,
    ):
        self._db = db
        self._platform_db = platform_db
        self._outbox = outbox
        self._clock = clock
        self._idempotency = idempotency
        self._principal = principal
        self._request_id = request_id
        self._keyed = keyed
        self._row_key: bytes | None = None
        self._opened: AbstractAsyncContextManager[Transaction] | None = None
        self._tx: Transaction | None = None
        self._work: Work | None = None

    async def work(self) -> Work:
        if self._work is None:
            principal = self._signed_in()
            tx = await self._open(
                self._db.transaction(tenant_id=principal.tenant_id, user_id=principal.user_id)
            )
            self._work = await self._begin(tx, principal)
        return self._work

    def alone(self) -> Alone | None:
        principal = self._signed_in()
        if self._keyed is not None:
            return None
        return Alone(self._db, principal, self._outbox, self._clock, self._request_id)

    async def platform(self) -> PlatformWork:
        principal = self._signed_in()
        if not principal.platform_admin:
            raise Forbidden("Only a platform admin can do this.")
        tx = await self._open(self._platform_db.transaction())
        self._work = await self._begin(tx, principal)
        return PlatformWork(tx, principal, self._outbox, self._clock, self._request_id)

    async def transaction(self) -> Transaction:
        return self._tx or await self._open(self._db.transaction())

    def _signed_in(self) -> Principal:
        if self._principal is None:
            raise Unauthenticated()
        return self._principal

    async def _begin(self, tx: Transaction, principal: Principal) -> Work:
        work = Work(tx, principal, self._outbox, self._clock, self._request_id)
        if self._keyed is not None:
            self._row_key = await self._idempotency.begin(
                work, self._keyed.key, self._keyed.fingerprint
            )
        return work

    @property
    def keeps_response(self) -> bool:
        return self._row_key is not None

    async def keep_response(
        self, status: int, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        assert self._work is not None
        assert self._row_key is not None
        await self._idempotency.keep(self._work, self._row_key, status, headers, body)

    async def end(self, *, failed: bool) -> None:
        """Commits, or rolls back if the request failed and nothing is to be kept of it."""
        opened, self._opened = self._opened, None
        if opened is None or self._tx is None:
            return
        if not failed or self._tx.kept_on_error:
            await opened.__aexit__(None, None, None)
            return
        try:
            await opened.__aexit__(_RolledBack, _RolledBack(), None)
        except _RolledBack:
            return

    async def _open(self, opened: AbstractAsyncContextManager[Transaction]) -> Transaction:
        self._tx = await opened.__aenter__()
        self._opened = opened
        return self._tx
