"""How history is read: in short transactions, none of which waits for the object store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request

from agentos.execution.pulse import journal
from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.errors import SessionNotFound, StepNotFound
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.paths import InForce
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.payloads import Payloads
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId
from agentos.kernel.objects import ObjectStore
from agentos.tenancy.principals import Principal, Scope
from agentos.tenancy.tokens import Unauthenticated


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and where it is read from."""

    principal: Principal
    db: Database
    store: ObjectStore
    front: PulseFront

    @property
    def tenant_id(self) -> TenantId:
        return self.principal.tenant_id

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction of the caller. Raises Forbidden unless it may read sessions."""
        self.principal.require(Scope.SESSIONS_READ)
        async with self.db.transaction(
            tenant_id=self.tenant_id, user_id=self.principal.user_id
        ) as tx:
            yield tx


async def _reader(request: Request) -> Reader:
    principal = cast(Principal | None, request.state.principal)
    if principal is None:
        raise Unauthenticated()
    state = request.app.state
    return Reader(principal, state.parts.db, state.objects, state.pulse)


CurrentReader = Annotated[Reader, Depends(_reader)]


async def tip_of(tx: Transaction, tenant_id: TenantId, session_id: UUID) -> int:
    """The newest step of a session. Raises SessionNotFound."""
    tip = await repository.tip(tx, tenant_id, session_id)
    if tip is None:
        raise SessionNotFound()
    return tip


def check_step(seq: int, tip: int, least: int = 1) -> int:
    """Raises StepNotFound unless a session has such a step."""
    if not least <= seq <= tip:
        raise StepNotFound(f"The session has no step {seq}; its newest one is {tip}.")
    return seq


async def in_force(tx: Transaction, tenant_id: TenantId, session_id: UUID, tip: int) -> InForce:
    return InForce.of(await sessions.rollbacks(tx, tenant_id, session_id), tip)


async def path_to(
    tx: Transaction, payloads: Payloads, tenant_id: TenantId, session_id: UUID, seq: int
) -> list[Step]:
    """The steps that lead to one, first to last, answers of the model in full."""
    steps = await journal.read_path(tx, session_id, seq)
    return [
        await payloads.load(tenant_id, step) if step.kind == "model" else step for step in steps
    ]
