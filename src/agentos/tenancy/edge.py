"""What endpoints ask the gateway for. It fills `request.state` before a route runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Protocol, cast

from fastapi import Depends, Request

from agentos.kernel.database import Transaction
from agentos.tenancy.tokens import Unauthenticated
from agentos.tenancy.work import Alone, PlatformWork, Work


class ForeignOrigin(Unauthenticated):
    """A page of another origin may not use this browser's sign-in."""

    code = "foreign_origin"
    hint = "Use a bearer token, or call from the origin AgentOS is served on."


class UnitOfWork(Protocol):
    """One request is one transaction: opened on first use, ended by the gateway."""

    async def work(self) -> Work:
        """The transaction of an authenticated request, bound to its principal and tenant."""
        ...

    def alone(self) -> Alone | None:
        """For a request that is one statement. None: it is not, it has an Idempotency-Key."""
        ...

    async def platform(self) -> PlatformWork:
        """The transaction of a platform admin's request, which sees all tenants."""
        ...

    async def transaction(self) -> Transaction:
        """The transaction of a request that nobody has signed in for; it sees no tenant."""
        ...


class OwnPages(Protocol):
    """Knows the pages that may use a browser's sign-in; the gateway puts it into the state."""

    def is_own_page(self, headers: Iterable[tuple[bytes, bytes]]) -> bool: ...


def from_own_page(request: Request) -> bool:
    """Whether a page of ours sends this request, as far as its browser says so."""
    pages = cast(OwnPages, request.app.state.own_pages)
    return pages.is_own_page(request.scope["headers"])


def require_own_page(request: Request) -> None:
    """Refuses what other pages have a browser do: signing it in, or using its sign-in."""
    if not from_own_page(request):
        raise ForeignOrigin()


def _unit(request: Request) -> UnitOfWork:
    return cast(UnitOfWork, request.state.unit)


async def _current_unit(request: Request) -> UnitOfWork:
    return _unit(request)


async def _work(request: Request) -> Work:
    return await _unit(request).work()


async def _platform(request: Request) -> PlatformWork:
    return await _unit(request).platform()


async def _transaction(request: Request) -> Transaction:
    return await _unit(request).transaction()


CurrentUnit = Annotated[UnitOfWork, Depends(_current_unit)]
CurrentWork = Annotated[Work, Depends(_work)]
CurrentPlatformWork = Annotated[PlatformWork, Depends(_platform)]
AnonymousTransaction = Annotated[Transaction, Depends(_transaction)]

# The tokens of a browser that asked for them as cookies.
ACCESS_COOKIE = "agentos_access"
REFRESH_COOKIE = "agentos_refresh"

# Marks an operation that works without a credential; everything else is refused at the edge.
PUBLIC: dict[str, list[str]] = {"security": []}
