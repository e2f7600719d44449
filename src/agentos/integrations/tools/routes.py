"""The way out: a host is looked up once, and the address that was checked is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from agentos.integrations.models.hosts import Hosts, refused
from agentos.integrations.tools.allowed_hosts import AllowedHosts, is_address, plain
from agentos.integrations.tools.errors import HostRefused, HostUnreachable

Resolve = Callable[[str, int], Awaitable[list[str]]]

# A name with many addresses is tried at a few; a dead one must not cost the whole time.
_MOST_ADDRESSES = 4
_LOOKUP_SECONDS = 5.0


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the machine's resolver knows them."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A name with an empty or overlong label is no name.
    except (OSError, UnicodeError, TimeoutError):
        raise HostUnreachable(f"The name {host} was not found.") from None
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Policy(Protocol):
    """What may be connected to."""

    def check(self, host: str, port: int) -> None:
        """Raises HostRefused."""
        ...

    def refuses(self, host: str, address: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class AnyHost:
    """Every host of the internet; private ones, too, if the installation allows them."""

    hosts: Hosts = "public"

    def check(self, host: str, port: int) -> None:
        """Every name and port is fine; where it leads to is looked at."""

    def refuses(self, host: str, address: str) -> bool:  # noqa: ARG002 - the address decides
        return refused(address, self.hosts)


@dataclass(frozen=True, slots=True)
class Routes:
    """Leads to hosts that a policy allows, and to no others."""

    policy: Policy
    resolve: Resolve = resolve

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses to connect to. Raises HostRefused, HostUnreachable.

        If one of a name's addresses is refused, all are: a name that leads both out and in was
        made to get past a check like this one.
        """
        host = plain(host)
        self.policy.check(host, port)
        found = [host] if is_address(host) else await self.resolve(host, port)
        if any(self.policy.refuses(host, address) for address in found):
            raise HostRefused(f"{host} leads to an address that may not be reached from here.")
        if not found:
            raise HostUnreachable(f"The name {host} was not found.")
        return found[:_MOST_ADDRESSES]


def session_routes(allowed_hosts: tuple[str, ...], hosts: Hosts = "public") -> Routes:
    """The ways out of a session."""
    return Routes(AllowedHosts.parse(allowed_hosts, hosts))
