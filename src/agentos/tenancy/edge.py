"""What endpoints ask the gateway for. It fills `request.state` before a route runs."""

from __future__ import annotations

from typing import Annotated, Protocol, cast

from fastapi import Depends, Request

from agentos.kernel.database import Transaction
from agentos.tenancy.work import PlatformWork, Work


class UnitOfWork(Protocol):
    """One request is one transaction: opened on first use, ended by the gateway."""

    async def work(self) -> Work:
        """The transaction of an authenticated request, bound to its principal and tenant."""
        ...

    async def platform(self) -> PlatformWork:
        """The transaction of a platform admin's request, which sees all tenants."""
        ...

    async def transaction(self) -> Transaction:
        """The transaction of a request that nobody has signed in for; it sees no tenant."""
        ...


def _unit(request: Request) -> UnitOfWork:
    return cast(UnitOfWork, request.state.unit)


async def _work(request: Request) -> Work:
    return await _unit(request).work()


async def _platform(request: Request) -> PlatformWork:
    return await _unit(request).platform()


async def _transaction(request: Request) -> Transaction:
    return await _unit(request).transaction()


CurrentWork = Annotated[Work, Depends(_work)]
CurrentPlatformWork = Annotated[PlatformWork, Depends(_platform)]
AnonymousTransaction = Annotated[Transaction, Depends(_transaction)]

# The access token of a browser that asked for it as a cookie.
ACCESS_COOKIE = "agentos_access"

# Marks an operation that works without a credential; everything else is refused at the edge.
PUBLIC: dict[str, list[str]] = {"security": []}
