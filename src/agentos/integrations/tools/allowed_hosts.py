"""Which hosts a session may reach, as its configuration lists them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentos.integrations.models.hosts import Hosts, refused
from agentos.integrations.tools.errors import BadAllowedHost, HostRefused

# What a host may be reached on if the list does not say: the web.
_WEB_PORTS = frozenset({80, 443})
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_ENTRY = re.compile(
    r"(?P<beneath>\*\.)?(?P<host>\[[0-9a-f:.]+\]|[^][:/?#@\s]+)(?::(?P<port>[0-9]{1,5}))?"
)
_MOST = 100


@dataclass(frozen=True, slots=True)
class _Rule:
    host: str
    ports: frozenset[int]
    # `*.example.com`: everything beneath it, but not itself.
    beneath: bool = False

    def covers(self, host: str, port: int) -> bool:
        if port not in self.ports:
            return False
        return host.endswith("." + self.host) if self.beneath else host == self.host


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """An allow-list. What it does not name cannot be reached; an empty one lets nothing out."""

    rules: tuple[_Rule, ...] = ()
    # public: not even an address that is listed may be a private one.
    hosts: Hosts = "public"

    @classmethod
    def parse(cls, entries: Iterable[str], hosts: Hosts = "public") -> AllowedHosts:
        """Raises BadAllowedHost. `hosts` says whether this installation lets private addresses in.

        A private address has to be listed as an address. A name that leads to one is refused in
        any case: whoever owns the name could have it lead anywhere.
        """
        rules = tuple(_rule(entry, hosts) for entry in entries)
        if len(rules) > _MOST:
            raise BadAllowedHost(f"More than {_MOST} allowed hosts.", hint="Use *.suffix.")
        return cls(rules, hosts)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def check(self, host: str, port: int) -> None:
        """Raises HostRefused unless the list names this host and port."""
        host = plain(host)
        if not any(rule.covers(host, port) for rule in self.rules):
            raise HostRefused(f"{host}:{port} is not among the hosts this session may reach.")

    def refuses(self, host: str, address: str) -> bool:
        """Whether a host that is named may still not be connected to, because of where it leads."""
        if _is_link_local(address):
            return True
        return refused(address, self.hosts if is_address(plain(host)) else "public")


def plain(host: str) -> str:
    """One way to write a host: lower case, no final dot, no brackets, addresses in short form."""
    host = host.lower().rstrip(".")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _rule(entry: str, hosts: Hosts) -> _Rule:
    parts = _ENTRY.fullmatch(entry.lower())
    if parts is None:
        raise _bad(entry)
    beneath, host = parts["beneath"] is not None, plain(parts["host"])
    port = None if parts["port"] is None else int(parts["port"])
    if port == 0 or (port is not None and port > 65535):
        raise _bad(entry)
    if is_address(host):
        if beneath or _is_link_local(host) or refused(host, hosts):
            raise _bad(entry)
    # The last label of a name is never a number; what looks so is an address in an odd form.
    elif not _NAME.fullmatch(host) or host.rpartition(".")[2].isdigit():
        raise _bad(entry)
    # `*.com` would be everything there is under it.
    if len(host) > 253 or (beneath and "." not in host):
        raise _bad(entry)
    return _Rule(host, _WEB_PORTS if port is None else frozenset({port}), beneath)


def _is_link_local(address: str) -> bool:
    seen = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(seen, "ipv4_mapped", None)
    return seen.is_link_local or (mapped is not None and mapped.is_link_local)


def _bad(entry: str) -> BadAllowedHost:
    return BadAllowedHost(f"'{entry[:100]}' cannot be an allowed host.")
