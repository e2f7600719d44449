"""Where AgentOS may connect to for a tenant: a provider's address must not lead into our network."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit

from agentos.integrations.models.errors import BadBaseUrl, HostNotAllowed

Hosts = Literal["any", "public"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

# Where clouds hand out the credentials of the machine itself to whoever asks from it. No model
# is ever served there, so this holds for every installation.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure and most others
            "169.254.170.2",  # AWS containers
            "169.254.170.23",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LONGEST = 500


def checked_base_url(text: str, hosts: Hosts) -> str:
    """A base URL in the form it is kept in. Raises BadBaseUrl, HostNotAllowed.

    A name is looked at only when it is connected to (`guarded_socket`): what it resolves to
    today says nothing about tomorrow.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadBaseUrl() from None
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\^`{|}#?@')
    if parts.scheme not in ("http", "https") or not host or port == 0 or not plain:
        raise BadBaseUrl()
    if len(text) > _LONGEST or ".." in parts.path.split("/"):
        raise BadBaseUrl()
    if _names_refused(host, hosts):
        raise HostNotAllowed()
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def refused(address: str, hosts: Hosts) -> bool:
    """Whether an IP address may not be connected to."""
    seen = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if seen in _METADATA:
        return True
    return hosts == "public" and (not seen.is_global or seen.is_multicast)


def guarded_socket(hosts: Hosts) -> Callable[[AddressInfo], socket.socket]:
    """Makes sockets for an HTTP client, but none to an address that is refused.

    Here the address is the one that is connected to, so neither a name that resolves to another
    address the second time nor an unusual way to write an address gets past it.
    """

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, place = info
        if refused(place[0], hosts):
            raise PermissionError(errno.EACCES, "this address is not allowed for providers")
        return socket.socket(family, kind, protocol)

    return make


def _names_refused(host: str, hosts: Hosts) -> bool:
    try:
        return refused(host, hosts)
    except ValueError:  # a name
        return hosts == "public" and (host == "localhost" or host.endswith(".localhost"))


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address that only carries it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    return inner or address
