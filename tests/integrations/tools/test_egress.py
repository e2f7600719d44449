"""The way out of a sandbox: to allowed hosts only, whatever names resolve to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integrations.tools.conftest import Session
from tests.integrations.tools.servers import WebServer

from agentos.integrations.tools.allowed_hosts import AllowedHosts
from agentos.integrations.tools.egress import egress_proxy
from agentos.integrations.tools.errors import BadAllowedHost, HostRefused, HostUnreachable
from agentos.integrations.tools.routes import AnyHost, Routes

FETCH = """
import urllib.request, urllib.error, sys
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=10).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
"""

TUNNEL = """
import http.client, sys
host, port = sys.argv[1].split(":")
there = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
there.set_tunnel(host, int(port))
try:
    there.request("GET", "/tunnel")
    print(there.getresponse().read().decode())
except OSError as error:
    print(error)
"""


async def test_commands_reach_what_is_allowed_and_nothing_else(
    session: Session, web: WebServer
) -> None:
    await session.context.workspace.write("fetch.py", FETCH.encode())
    inside = session.reaching(web.place)
    done = await inside.call(
        "shell", command=f"python3 fetch.py {web.url('/a')} http://127.0.0.1:1/ http://other.test/"
    )
    assert done.text.splitlines() == [
        "hello from /a",
        "403 AgentOS: 127.0.0.1:1 is not among the hosts this session may reach.",
        "403 AgentOS: other.test:80 is not among the hosts this session may reach.",
        "[Not allowed for this session: connections to 127.0.0.1:1, other.test:80.]",
    ]
    assert done.details["refused_hosts"] == ["127.0.0.1:1", "other.test:80"]
    [(method, path, headers, _)] = web.asked
    assert (method, path, headers["host"]) == ("GET", "/a", web.place)
    assert "proxy-connection" not in headers


async def test_tunnels(session: Session, web: WebServer) -> None:
    await session.context.workspace.write("tunnel.py", TUNNEL.encode())
    inside = session.reaching(web.place)
    done = await inside.call("shell", command=f"python3 tunnel.py {web.place}")
    assert done.text == "hello from /tunnel"
    refused = await inside.call("shell", command="python3 tunnel.py 127.0.0.1:1")
    assert "403 Forbidden" in refused.text


async def test_around_the_proxy_there_is_nothing(session: Session, web: WebServer) -> None:
    """The host's loopback is another one than the sandbox's."""
    inside = session.reaching(web.place)
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {web.port}), 5)"
    done = await inside.call("python", code=code)
    assert done.failed
    assert "refused" in done.text
    assert web.asked == []


async def test_the_exit_code_is_the_commands_own(session: Session, web: WebServer) -> None:
    inside = session.reaching(web.place)
    assert (await inside.call("shell", command="exit 7")).details["exit_code"] == 7
    # bash, and the few lines beside it, are all there is.
    counted = await inside.call("shell", command="ls -d /proc/[0-9]* | wc -l; echo $http_proxy")
    assert counted.text.endswith("http://127.0.0.1:3128")


class Names:
    """A resolver whose answers are written down, one after the other for the same name."""

    def __init__(self, **answers: list[list[str]]):
        self.answers = {name.replace("_", "."): list(lists) for name, lists in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self.answers[host].pop(0)


PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "169.254.169.254",
    "169.254.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "::1",
    "fe80::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    names = Names(inside_test=[[address], ["93.184.216.34", address], ["93.184.216.34"]])
    routes = Routes(AllowedHosts.parse(["inside.test"], "any"), names)
    for _ in range(2):
        with pytest.raises(HostRefused, match="leads to an address"):
            await routes.addresses("inside.test", 443)
    assert await routes.addresses("inside.test", 443) == ["93.184.216.34"]
    if address not in ("64:ff9b::7f00:1",):
        with pytest.raises(HostRefused):
            await Routes(AnyHost("public")).addresses(address, 443)


async def test_a_name_is_looked_up_once_and_that_address_is_used(web: WebServer) -> None:
    """DNS rebinding: the second answer, were it asked for, would lead inside."""
    names = Names(rebind_test=[["203.0.113.7"], ["127.0.0.1"]])
    routes = Routes(_Everything(), names)
    assert await routes.addresses("rebind.test", web.port) == ["203.0.113.7"]
    assert names.asked == ["rebind.test"]
    names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
    async with _proxy(Routes(_Everything(), names)) as ask:
        answer = await ask(f"GET http://rebind.test:{web.port}/x HTTP/1.1\r\n\r\n")
    # It was answered by the first address, and there was no second question.
    assert b"hello from /x" in answer
    assert names.asked == ["rebind.test"]
    assert web.asked[0][2]["host"] == f"rebind.test:{web.port}"


class _Everything:
    def check(self, host: str, port: int) -> None:
        """Everything is allowed."""

    def refuses(self, host: str, address: str) -> bool:
        return False


Ask = Callable[[str], Awaitable[bytes]]


@asynccontextmanager
async def _proxy(routes: Routes) -> AsyncIterator[Ask]:
    """A way to send bytes to a proxy of its own and read until it hangs up."""
    async with egress_proxy(routes) as egress:

        async def ask(text: str) -> bytes:
            reader, writer = await asyncio.open_unix_connection(egress.socket)
            writer.write(text.encode("latin-1"))
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return answer

        yield ask


async def test_one_request_a_connection(web: WebServer) -> None:
    """A second one could be in the name of a host that shares the machine with the allowed one."""
    async with _proxy(Routes(AllowedHosts.parse([web.place], "any"))) as ask:
        answer = await ask(
            f"POST {web.url('/first')} HTTP/1.1\r\nHost: liar.test\r\nContent-Length: 2\r\n"
            "Connection: keep-alive\r\n\r\nhi"
            "GET /second HTTP/1.1\r\nHost: neighbour.test\r\n\r\n"
        )
    assert b"hello from /first" in answer
    [(method, path, headers, body)] = web.asked
    assert (method, path, body) == ("POST", "/first", b"hi")
    assert headers["host"] == web.place
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"),
        ("GET https://example.com/ HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT example.com HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT :443 HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT a:99999 HTTP/1.1\r\n\r\n", "400"),
        ("G\nT http://ok.test/ HTTP/1.1\r\n\r\n", "400"),
        ("GET http://ok.test/ HTTP/2\r\n\r\n", "505"),
        ("GET http://ok.test/ HTTP/1.1\r\nbroken\r\n\r\n", "400"),
        ("GET http://ok.test/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", "400"),
        ("POST http://ok.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411"),
        ("POST http://ok.test/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"),
        (
            "POST http://ok.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "400",
        ),
        ("GET http://ok.test/ HTTP/1.1\r\n\r\n", "502"),
        ("CONNECT ok.test:443 HTTP/1.1\r\n\r\n", "502"),
        ("CONNECT ok.test:22 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT 2130706433:80 HTTP/1.1\r\n\r\n", "403"),
        ("GET http://ok.test@evil.test/ HTTP/1.1\r\n\r\n", "403"),
        ("GET http://evil.test/?ok.test HTTP/1.1\r\n\r\n", "403"),
    ],
)
async def test_what_the_proxy_answers(request_text: str, status: str) -> None:
    async with _proxy(Routes(AllowedHosts.parse(["ok.test"]))) as ask:
        answer = await ask(request_text)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_an_endless_head_is_hung_up_on() -> None:
    async with _proxy(Routes(AllowedHosts())) as ask:
        assert await ask("x" * 200_000) == b""


async def test_the_proxy_ends_with_its_block(web: WebServer) -> None:
    routes = Routes(AllowedHosts.parse([web.place], "any"))
    async with egress_proxy(routes) as egress:
        reader, writer = await asyncio.open_unix_connection(egress.socket)
        writer.write(f"CONNECT {web.place} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert await asyncio.wait_for(reader.read(), 10) == b"\r\n"
    writer.close()
    assert not egress.socket.parent.exists()


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        (
            "example.com",
            ["example.com:443", "EXAMPLE.com.:80"],
            ["example.com:22", "a.example.com:443"],
        ),
        (
            "*.example.com",
            ["a.example.com:443", "b.a.example.com:80"],
            ["example.com:443", "aexample.com:443"],
        ),
        ("example.com:8443", ["example.com:8443"], ["example.com:443"]),
        ("*.example.com:22", ["git.example.com:22"], ["git.example.com:443"]),
        ("93.184.216.34", ["93.184.216.34:80"], ["93.184.216.35:80"]),
        ("[2606:2800::1]:8080", ["[2606:2800:0::1]:8080"], ["[2606:2800::1]:80"]),
    ],
)
def test_what_a_list_allows(entry: str, inside: list[str], outside: list[str]) -> None:
    allowed = AllowedHosts.parse([entry])
    for place in inside:
        host, _, port = place.rpartition(":")
        allowed.check(host, int(port))
    for place in outside:
        host, _, port = place.rpartition(":")
        with pytest.raises(HostRefused):
            allowed.check(host, int(port))


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "*.", "*.com", "a b", "http://a.test", "a.test/x", "user@a.test", "a.test:0"),
        *("a.test:x", "a.test:99999", "-a.test", "a..test", "2130706433", "1.2", "*.10.0.0.1"),
        *("169.254.169.254", "fe80::1", "[fe80::1]", "a.test?x", "a.test#x", "\na.test", "::1:80"),
    ],
)
def test_what_cannot_be_on_a_list(entry: str) -> None:
    with pytest.raises(BadAllowedHost):
        AllowedHosts.parse([entry], "any")


def test_private_addresses_only_where_the_installation_allows_them() -> None:
    for entry in ("127.0.0.1:8080", "10.0.0.1", "[::1]:80"):
        AllowedHosts.parse([entry], "any")
        with pytest.raises(BadAllowedHost):
            AllowedHosts.parse([entry])
    # Even if it got onto the list, it would not be connected to.
    sneaked = AllowedHosts(AllowedHosts.parse(["10.0.0.1"], "any").rules, "public")
    assert sneaked.refuses("10.0.0.1", "10.0.0.1")


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_refused(entry: str) -> None:
    try:
        allowed = AllowedHosts.parse([entry])
    except BadAllowedHost:
        return
    assert len(allowed.rules) == 1


async def test_names_that_are_not_found() -> None:
    routes = Routes(AllowedHosts.parse(["nowhere.test"]))
    with pytest.raises(HostUnreachable):
        await routes.addresses("nowhere.test", 443)
    with pytest.raises(HostRefused):
        await Routes(AllowedHosts()).addresses("nowhere.test", 443)
