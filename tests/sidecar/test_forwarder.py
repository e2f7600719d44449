"""The model endpoint of the agent, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agentos.sidecar.forwarder import Forwarder
from agentos.sidecar.links import Link, proxy_environment

Serving = Callable[["Request", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Request:
    """What arrived at the gateway."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        pairs = [line.split(": ", 1) for line in lines if line]
        self.headers = {name.lower(): value for name, value in pairs}
        self.names = [name.lower() for name, _ in pairs]
        self.body = b""


class FakeGateway:
    """Answers on a unix socket as a test says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[Request] = []
        self.gone = asyncio.Event()
        self.connections = 0
        self.serving: Serving = say_hello

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = Request(await reader.readuntil(b"\r\n\r\n"))
            if "content-length" in request.headers:
                request.body = await reader.readexactly(int(request.headers["content-length"]))
            elif request.headers.get("transfer-encoding") == "chunked":
                while size := int(await reader.readline(), 16):
                    request.body += await reader.readexactly(size)
                    await reader.readline()
                await reader.readline()
            self.requests.append(request)
            await self.serving(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


async def say_hello(
    _: Request, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    fake = FakeGateway(tmp_path / "gateway.sock")
    server = await asyncio.start_unix_server(fake.serve, fake.path)
    yield fake
    server.close()


@pytest.fixture
async def forwarder(gateway: FakeGateway) -> AsyncIterator[Forwarder]:
    opened = await Forwarder.open(gateway.path)
    opened.token = "token-1"
    yield opened
    await opened.close()


class Client:
    """The agent's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, forwarder: Forwarder) -> Client:
        port = int(forwarder.url.split(":")[2].split("/")[0])
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "Host: x", "", ""]).encode() + body)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = [line.split(": ", 1) for line in lines if line]
        return int(first.split(" ")[1]), {name.lower(): value for name, value in pairs}

    async def whole(self) -> tuple[int, bytes]:
        status, headers = await self.head()
        async with asyncio.timeout(10):
            return status, await self.reader.readexactly(int(headers["content-length"]))

    async def chunk(self) -> bytes:
        async with asyncio.timeout(10):
            size = int(await self.reader.readline(), 16)
            data = await self.reader.readexactly(size)
            await self.reader.readline()
            return data


@pytest.fixture
async def client(forwarder: Forwarder) -> AsyncIterator[Client]:
    opened = await Client.to(forwarder)
    yield opened
    opened.writer.close()


async def test_the_token_takes_the_place_of_every_key(
    forwarder: Forwarder, client: Client, gateway: FakeGateway
) -> None:
    await client.send(
        "POST /api/ai/anthropic/v1/messages?beta=true HTTP/1.1",
        "Authorization: Bearer stolen",
        "X-Api-Key: stolen",
        "Anthropic-Version: 2023-06-01",
        "Content-Length: 2",
        body=b"{}",
    )
    assert await client.whole() == (200, b"hello")
    [request] = gateway.requests
    assert request.method == "POST"
    assert request.target == "/api/ai/anthropic/v1/messages?beta=true"
    assert request.headers["authorization"] == "Bearer token-1"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.body == b"{}"
    assert "x-api-key" not in request.headers
    assert request.names.count("authorization") == 1
    assert forwarder.url.endswith("/api/ai")


async def test_one_connection_carries_many_requests_each_with_the_newest_token(
    forwarder: Forwarder, client: Client, gateway: FakeGateway
) -> None:
    for n in range(3):
        forwarder.token = f"token-{n}"
        await client.send("GET /api/ai/openai/v1/models HTTP/1.1")
        assert await client.whole() == (200, b"hello")
    assert [request.headers["authorization"] for request in gateway.requests] == [
        f"Bearer token-{n}" for n in range(3)
    ]


async def test_requests_sent_ahead_are_answered_in_turn(
    client: Client, gateway: FakeGateway
) -> None:
    for n in range(3):
        await client.send(f"GET /api/ai/{n} HTTP/1.1")
    for _ in range(3):
        assert await client.whole() == (200, b"hello")
    assert [request.target for request in gateway.requests] == [f"/api/ai/{n}" for n in range(3)]


async def test_a_chunked_request_arrives_whole(client: Client, gateway: FakeGateway) -> None:
    await client.send("POST /api/ai/x HTTP/1.1", "Transfer-Encoding: chunked")
    for piece in (b"one", b"two" * 50_000):
        client.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await client.writer.drain()
    client.writer.write(b"0\r\n\r\n")
    assert await client.whole() == (200, b"hello")
    assert gateway.requests[0].body == b"one" + b"two" * 50_000


async def test_a_client_that_waits_for_leave_gets_it(client: Client, gateway: FakeGateway) -> None:
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 3", "Expect: 100-continue")
    assert (await client.head())[0] == 100
    client.writer.write(b"abc")
    assert await client.whole() == (200, b"hello")
    assert gateway.requests[0].body == b"abc"
    assert "expect" not in gateway.requests[0].headers


async def test_each_piece_of_a_stream_is_passed_on_as_it_comes(
    client: Client, gateway: FakeGateway
) -> None:
    more: asyncio.Queue[bytes] = asyncio.Queue()

    async def stream(
        _: Request, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        while data := await more.get():
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    gateway.serving = stream
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 0")
    more.put_nowait(b"data: 0\n\n")
    status, headers = await client.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert await client.chunk() == b"data: 0\n\n"
    # Each is seen before the next one is even written.
    for n in range(1, 5):
        more.put_nowait(b"data: %d\n\n" % n)
        assert await client.chunk() == b"data: %d\n\n" % n
    more.put_nowait(b"")
    assert await client.chunk() == b""
    # The stream has ended, the connection has not.
    gateway.serving = say_hello
    await client.send("GET /api/ai/x HTTP/1.1")
    assert await client.whole() == (200, b"hello")


async def test_a_client_that_hangs_up_ends_the_model_call(
    client: Client, gateway: FakeGateway
) -> None:
    begun = asyncio.Event()

    async def endless(
        _: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        begun.set()
        # Says nothing more: only the end of the connection can end it.
        assert await reader.read() == b""

    gateway.serving = endless
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 0")
    await begun.wait()
    await client.head()
    client.writer.close()
    async with asyncio.timeout(10):
        await gateway.gone.wait()


async def test_half_a_stream_does_not_look_whole(client: Client, gateway: FakeGateway) -> None:
    async def broken(
        _: Request, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await writer.drain()

    gateway.serving = broken
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 0")
    await client.head()
    rest = b""
    with contextlib.suppress(ConnectionResetError):
        while data := await client.reader.read(100):
            rest += data
    assert not rest.endswith(b"0\r\n\r\n")


async def test_without_any_token_the_call_is_refused_in_words(
    forwarder: Forwarder, client: Client, gateway: FakeGateway
) -> None:
    forwarder.token = ""
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 3", body=b"abc")
    status, body = await client.whole()
    assert status == 401
    assert json.loads(body) == {
        "type": "error",
        "error": {
            "type": "authentication_error",
            "message": "No message is being answered, so there is nothing to book a model call to.",
            "code": "authentication_error",
        },
    }
    assert gateway.requests == []
    # The connection is still good.
    forwarder.token = "t"
    await client.send("GET /api/ai/x HTTP/1.1")
    assert await client.whole() == (200, b"hello")


async def test_only_the_model_endpoints_are_there(client: Client, gateway: FakeGateway) -> None:
    await client.send("GET /api/teams HTTP/1.1")
    assert (await client.whole())[0] == 404
    assert gateway.requests == []


async def test_a_gateway_that_is_away_is_a_502(client: Client, gateway: FakeGateway) -> None:
    gateway.path.unlink()
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 3", body=b"abc")
    status, body = await client.whole()
    assert status == 502
    assert json.loads(body)["error"]["type"] == "api_error"


async def test_a_connection_is_open_before_it_is_needed(
    forwarder: Forwarder, gateway: FakeGateway
) -> None:
    forwarder.use("t")
    async with asyncio.timeout(10):
        while gateway.connections == 0:  # noqa: ASYNC110 - counted elsewhere
            await asyncio.sleep(0.01)
    client = await Client.to(forwarder)
    await client.send("GET /api/ai/x HTTP/1.1")
    assert await client.whole() == (200, b"hello")
    assert gateway.connections == 1
    client.writer.close()


async def test_a_connection_that_has_ended_meanwhile_is_not_used(
    forwarder: Forwarder, gateway: FakeGateway
) -> None:
    async def closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    gateway.path.unlink()
    server = await asyncio.start_unix_server(closes, gateway.path)
    forwarder.use("t")
    await asyncio.sleep(0.1)
    server.close()
    gateway.path.unlink()
    server = await asyncio.start_unix_server(gateway.serve, gateway.path)
    client = await Client.to(forwarder)
    await client.send("GET /api/ai/x HTTP/1.1")
    assert await client.whole() == (200, b"hello")
    client.writer.close()
    server.close()


async def test_a_gateway_that_says_nothing_is_a_502(client: Client, gateway: FakeGateway) -> None:
    async def silent(
        _: Request, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter
    ) -> None:
        return

    gateway.serving = silent
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 3", body=b"abc")
    assert (await client.whole())[0] == 502


async def test_an_answer_before_the_end_of_the_request_is_passed_on(
    forwarder: Forwarder, gateway: FakeGateway
) -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        writer.close()

    gateway.path.unlink()
    server = await asyncio.start_unix_server(hasty, gateway.path)
    client = await Client.to(forwarder)
    await client.send("POST /api/ai/x HTTP/1.1", "Content-Length: 100000", body=b"begin")
    assert await client.whole() == (413, b"no")
    client.writer.close()
    server.close()


async def test_what_is_not_http_is_refused(client: Client) -> None:
    client.writer.write(b"\x16\x03\x01 not http\r\n\r\n")
    assert (await client.head())[0] == 400


async def test_a_link_carries_both_ways_and_ends_with_its_end(tmp_path: Path) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.write(b"!")
        writer.close()

    server = await asyncio.start_unix_server(shout, tmp_path / "a.sock")
    link = await Link.open(tmp_path / "a.sock")
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    async with asyncio.timeout(10):
        assert await reader.readexactly(5) == b"HELLO"
        writer.write_eof()
        assert await reader.read() == b"!"
    writer.close()
    still_open, other = await asyncio.open_connection("127.0.0.1", link.port)
    await link.close()
    async with asyncio.timeout(10):
        assert await still_open.read() == b""
    other.close()
    server.close()


async def test_a_link_to_nowhere_closes_its_connections(tmp_path: Path) -> None:
    link = await Link.open(tmp_path / "none.sock")
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    await link.close()


async def test_a_taken_port_is_replaced(tmp_path: Path) -> None:
    first = await Link.open(tmp_path / "a.sock")
    second = await Link.open(tmp_path / "a.sock", first.port)
    assert second.port != first.port
    env = proxy_environment(second.port)
    assert env["HTTPS_PROXY"] == env["http_proxy"] == f"http://127.0.0.1:{second.port}"
    assert "127.0.0.1" in env["no_proxy"]
    await first.close()
    await second.close()
