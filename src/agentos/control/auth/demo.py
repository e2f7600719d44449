"""The demo owner's way in without typing a password, for whoever sits at this machine."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import Request

from agentos.control.auth import repository
from agentos.control.auth.schemas import SignIn
from agentos.kernel.database import Transaction
from agentos.kernel.settings import Settings
from agentos.tenancy.passwords import verify_password

# A name that leads elsewhere could lead here tomorrow (DNS rebinding); these cannot.
_THIS_MACHINE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
# What a proxy adds: whoever is behind one need not be on this machine.
_OF_PROXIES = frozenset({"forwarded", "via", "x-real-ip"})


@dataclass
class DemoEntrance:
    """Open while the demo owner still has the password that `agentos up` prints."""

    email: str
    password: str = field(repr=False)
    # The stored hash that the password is known to fit: checking it takes time, on purpose.
    _fits: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Settings, email: str, password: str) -> DemoEntrance | None:
        """None for an installation that others may reach: it must not have a door without a key."""
        public = urlsplit(settings.url).hostname or ""
        if not (_is_loopback(settings.host) and _is_loopback(public)):
            return None
        return cls(email, password)

    def credentials(self) -> SignIn:
        return SignIn(email=self.email, password=self.password, tenant=None)

    async def is_open(self, tx: Transaction) -> bool:
        user = await repository.user_by_email(tx, self.email)
        if user is None:
            return False
        stored: str = user["password_hash"]
        if stored != self._fits and await verify_password(stored, self.password):
            self._fits = stored
        return stored == self._fits


def asks_from_this_machine(request: Request) -> bool:
    """Whether a request comes from this machine, to an address that only this machine has."""
    client, hosts = request.client, request.headers.getlist("host")
    return (
        client is not None
        and _is_loopback(client.host)
        and len(hosts) == 1
        and _THIS_MACHINE.fullmatch(hosts[0]) is not None
        and not any(_is_of_proxy(name) for name in request.headers)
    )


def is_page_of_host(request: Request) -> bool:
    """Whether a page of the very address asked sends this; no other origin is trusted here."""
    scheme, _, place = request.headers.get("origin", "").partition("://")
    return scheme in ("http", "https") and place == request.headers.get("host")


def _is_of_proxy(header: str) -> bool:
    return header in _OF_PROXIES or header.startswith("x-forwarded")


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
