from __future__ import annotations

import socket

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.integrations.models.errors import BadBaseUrl, HostNotAllowed
from agentos.integrations.models.hosts import checked_base_url, guarded_socket, refused
from agentos.kernel.errors import Invalid


@pytest.mark.parametrize(
    ("given_url", "kept"),
    [
        ("https://models.example.com/v1", "https://models.example.com/v1"),
        ("https://Models.Example.com:8443/V1/", "https://models.example.com:8443/V1"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://ollama:11434/", "http://ollama:11434"),
    ],
)
def test_a_good_address_keeps_its_path(given_url: str, kept: str) -> None:
    assert checked_base_url(given_url, "any") == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "models.example.com",
        "ftp://models.example.com",
        "file:///etc/passwd",
        "https://",
        "https://user:password@models.example.com",
        "https://user@models.example.com",
        "https://models.example.com/v1?key=1",
        "https://models.example.com/v1?",
        "https://models.example.com/v1#part",
        "https://models.example.com/v1#",
        "https://models.example.com:0",
        "https://models.example.com:99999",
        "https://models.example.com:x",
        "https://[::1",
        "https://models.example.com/a b",
        "https://models.example.com/a\nb",
        "https://models.example.com\\@evil.example",
        "https://models.example.com/v1/../admin",
        "https://mödels.example.com",
        "https://models.example.com/{model}",
        "https://models.example.com/" + "a" * 500,
    ],
)
def test_a_bad_address_is_refused(text: str) -> None:
    with pytest.raises(BadBaseUrl):
        checked_base_url(text, "any")


@given(st.text(max_size=40))
def test_nothing_else_comes_out(text: str) -> None:
    try:
        kept = checked_base_url(f"http://{text}", "any")
    except Invalid:
        return
    assert kept.startswith("http://")
    assert not set(kept) & set("@?#\\ \n\r\t")


PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "224.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fd12:3456::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]
METADATA = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "169.254.170.2",
    "fd00:ec2::254",
    "100.100.100.200",
]
PUBLIC = ["8.8.8.8", "160.79.104.10", "2607:6bc0::10", "::ffff:8.8.8.8"]


def test_private_addresses_are_the_operators_choice() -> None:
    assert [address for address in PRIVATE if refused(address, "any")] == []
    assert [address for address in PRIVATE if not refused(address, "public")] == []


def test_metadata_is_refused_always() -> None:
    assert [address for address in METADATA if not refused(address, "any")] == []


def test_the_internet_is_open() -> None:
    assert [address for address in PUBLIC if refused(address, "public")] == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:11434", "http://localhost", "http://a.localhost", "http://[::1]/v1"],
)
def test_a_private_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(HostNotAllowed):
        checked_base_url(url, "public")
    assert checked_base_url(url, "any")


def test_a_metadata_address_is_refused_at_once() -> None:
    with pytest.raises(HostNotAllowed):
        checked_base_url("http://169.254.169.254/latest", "any")


class _Elsewhere(aiohttp.abc.AbstractResolver):
    """A name that leads to this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port,
                "family": socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
        ]

    async def close(self) -> None:
        return None


@pytest.mark.parametrize(
    "host", ["innocent.example", "127.0.0.1", "2130706433", "0x7f.1", "017700000001", "127.1"]
)
async def test_what_is_connected_to_is_what_is_checked(host: str) -> None:
    """Whatever a name resolves to and however an address is written."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        connector = aiohttp.TCPConnector(
            resolver=_Elsewhere(), socket_factory=guarded_socket("public")
        )
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientError) as failed:
                await session.get(f"http://{host}:{port}/")
        if isinstance(failed.value, aiohttp.ClientConnectorError):
            assert isinstance(failed.value.os_error, PermissionError)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_is_allowed_gets_a_socket() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    made = guarded_socket("any")(info)
    assert made.family == socket.AF_INET
    made.close()
