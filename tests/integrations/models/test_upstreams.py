"""Both HTTP clients towards providers, against servers that say exactly what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentos.integrations.models.aiohttp_upstream import AiohttpUpstream
from agentos.integrations.models.http_upstream import HttpUpstream
from agentos.integrations.models.upstream import Upstream, UpstreamLost, UpstreamTimeout

Script = Callable[["Peer"], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nRetry-After: 7\r\n\r\nhello"


@dataclass
class Peer:
    """The server's side of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        return head + await self.reader.readexactly(length)

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def until_gone(self) -> None:
        while await self.reader.read(1000):
            pass


@dataclass
class Place:
    url: str = ""
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Place]:
    place = Place()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place.connections += 1
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            place.gone.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    place.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1/x?a=b"
    try:
        yield place
    finally:
        server.close()


@pytest.fixture(params=[HttpUpstream, AiohttpUpstream], ids=["own", "aiohttp"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[Upstream]:
    client: Upstream = request.param()
    yield client
    await client.close()


@pytest.fixture
async def own() -> AsyncIterator[HttpUpstream]:
    client = HttpUpstream()
    yield client
    await client.close()


async def ask(upstream: Upstream, url: str, timeout: float = 5) -> bytes:
    async with upstream.send(
        "POST", url, headers={"x-key": "k"}, body=b"{}", timeout=timeout
    ) as answer:
        return await answer.body(1_000_000)


async def forever(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.say(OK)


async def test_what_is_sent(upstream: Upstream) -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    async with (
        serving(script) as place,
        upstream.send("POST", place.url, headers={"x-key": "k"}, body=b'{"a":1}') as answer,
    ):
        assert answer.status == 200
        assert answer.header("retry-after") == "7"
        assert answer.header("nothing") is None
        assert await answer.body(100) == b"hello"
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /v1/x?a=b http/1.1"
    assert b"x-key: k" in lines
    assert b"accept-encoding: identity" in lines
    assert place.url.split("/")[2].encode() in head
    assert body == b'{"a":1}'


async def test_a_connection_is_used_again(upstream: Upstream) -> None:
    async with serving(forever) as place:
        for _ in range(5):
            assert await ask(upstream, place.url) == b"hello"
        assert place.connections == 1
        await asyncio.gather(*(ask(upstream, place.url) for _ in range(3)))
        assert place.connections <= 3


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_chunks_however_they_are_cut(upstream: Upstream, size: int) -> None:
    whole = (
        b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4\r\ndata\r\n6;ext=1\r\n: more\r\n0\r\nx-trailer: 1\r\n\r\n"
    )

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*(whole[i : i + size] for i in range(0, len(whole), size)))
        await peer.until_gone()

    async with serving(script) as place:
        assert await ask(upstream, place.url) == b"data: more"


async def test_chunks_come_as_they_arrive(upstream: Upstream) -> None:
    turn = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await turn.wait()
        await peer.say(b"3\r\ntwo\r\n0\r\n\r\n")

    async with (
        serving(script) as place,
        upstream.send("POST", place.url, headers={}, body=b"") as answer,
    ):
        chunks = answer.chunks()
        assert await anext(chunks) == b"one"
        turn.set()
        assert await anext(chunks) == b"two"
        assert [chunk async for chunk in chunks] == []


async def test_a_body_without_a_length_ends_with_the_connection(upstream: Upstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it")

    async with serving(script) as place:
        assert await ask(upstream, place.url) == b"all of it"


@pytest.mark.parametrize(
    "half",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
    ids=["length", "chunked"],
)
async def test_a_body_that_is_cut_is_lost(upstream: Upstream, half: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(half)

    async with (
        serving(script) as place,
        upstream.send("POST", place.url, headers={}, body=b"", timeout=5) as answer,
    ):
        chunks = answer.chunks()
        assert await anext(chunks) == b"hello"
        with pytest.raises(UpstreamLost):
            await anext(chunks)


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-"])
async def test_no_answer_at_all_is_lost(upstream: Upstream, said: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)

    async with serving(script) as place:
        with pytest.raises(UpstreamLost):
            await ask(upstream, place.url)


async def test_nobody_listens(upstream: Upstream) -> None:
    async with serving(forever) as place:
        url = place.url
    with pytest.raises(UpstreamLost):
        await ask(upstream, url)
    with pytest.raises(UpstreamLost):
        await ask(upstream, "http://no-such-host.invalid/")


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello"], ids=["first", "between"]
)
async def test_silence_is_a_timeout(upstream: Upstream, said: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        await peer.until_gone()

    async with serving(script) as place:
        with pytest.raises(UpstreamTimeout):
            await ask(upstream, place.url, timeout=0.2)
        async with asyncio.timeout(5):
            await place.gone.wait()


async def test_leaving_early_closes_the_connection(upstream: Upstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await peer.until_gone()

    async with serving(script) as place:
        async with upstream.send("POST", place.url, headers={}, body=b"", timeout=9) as answer:
            assert await anext(answer.chunks()) == b"hello"
        async with asyncio.timeout(5):
            await place.gone.wait()


async def test_cancelling_while_waiting_closes_the_connection(upstream: Upstream) -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.until_gone()

    async with serving(script) as place:
        task = asyncio.create_task(ask(upstream, place.url, timeout=30))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await place.gone.wait()


async def test_a_long_body_is_refused(upstream: Upstream) -> None:
    async with (
        serving(forever) as place,
        upstream.send("POST", place.url, headers={}, body=b"") as answer,
    ):
        with pytest.raises(UpstreamLost):
            await answer.body(4)


async def test_a_large_body_waits_for_its_reader(upstream: Upstream) -> None:
    size = 20_000_000

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode(), b"x" * size)

    async with (
        serving(script) as place,
        upstream.send("POST", place.url, headers={}, body=b"", timeout=9) as answer,
    ):
        # Read slowly: what is not read must not be taken for silence, nor be lost.
        await asyncio.sleep(0.1)
        assert sum([len(chunk) async for chunk in answer.chunks()]) == size


async def test_redirects_are_not_followed(upstream: Upstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(
            b"HTTP/1.1 307 Gone\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
        )

    async with (
        serving(script) as place,
        upstream.send("POST", place.url, headers={"x-api-key": "k"}, body=b"") as answer,
    ):
        assert answer.status == 307


async def test_metadata_addresses_are_never_reached(upstream: Upstream) -> None:
    with pytest.raises(UpstreamLost):
        await ask(upstream, "http://169.254.169.254/latest")


# What our own does besides


async def test_a_kept_connection_that_was_closed_is_replaced(own: HttpUpstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        # Closed while it is idle.

    async with serving(script) as place:
        for _ in range(3):
            assert await ask(own, place.url) == b"hello"


async def test_a_request_is_sent_twice_only_on_a_kept_connection(own: HttpUpstream) -> None:
    requests = 0

    async def script(peer: Peer) -> None:
        nonlocal requests
        while True:
            await peer.request()
            requests += 1
            if requests in (2, 3):
                return
            await peer.say(OK)

    async with serving(script) as place:
        assert await ask(own, place.url) == b"hello"
        # Kept, and closed on receiving the second request: tried on a new one, which fails, too.
        with pytest.raises(UpstreamLost):
            await ask(own, place.url)
        assert requests == 3


async def test_what_nobody_asked_for_is_not_an_answer(own: HttpUpstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + OK.replace(b"hello", b"WRONG"))
        await peer.until_gone()

    async with serving(script) as place:
        for _ in range(3):
            assert await ask(own, place.url) == b"hello"
        assert place.connections == 3


async def test_connection_close_is_respected(own: HttpUpstream) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK.replace(b"Retry-After: 7", b"connection: close"))
        await peer.until_gone()

    async with serving(script) as place:
        assert await ask(own, place.url) == b"hello"
        assert await ask(own, place.url) == b"hello"
        assert place.connections == 2


async def test_a_header_with_a_line_end_is_not_sent(own: HttpUpstream) -> None:
    with pytest.raises(UpstreamLost):
        own.send("POST", "http://127.0.0.1:1/", headers={"x": "a\r\nx-other: b"})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


async def test_tls(certificate: Path) -> None:
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(certificate)
    trusting = HttpUpstream(tls=ssl.create_default_context(cafile=certificate))
    doubting = HttpUpstream()
    async with serving(forever, theirs) as place:
        for _ in range(3):
            assert await ask(trusting, place.url) == b"hello"
        assert place.connections == 1
        with pytest.raises(UpstreamLost, match="SSLCertVerificationError"):
            await ask(doubting, place.url)
        await trusting.close()


@pytest.mark.parametrize(
    "scenario",
    [
        test_what_is_sent,
        test_a_connection_is_used_again,
        test_chunks_come_as_they_arrive,
        test_a_body_without_a_length_ends_with_the_connection,
        test_nobody_listens,
        test_leaving_early_closes_the_connection,
        test_cancelling_while_waiting_closes_the_connection,
        test_a_large_body_waits_for_its_reader,
        test_a_kept_connection_that_was_closed_is_replaced,
        test_a_request_is_sent_twice_only_on_a_kept_connection,
        test_what_nobody_asked_for_is_not_an_answer,
        test_connection_close_is_respected,
    ],
)
def test_the_same_on_the_loop_of_the_gateway(
    scenario: Callable[[HttpUpstream], Coroutine[None, None, None]],
) -> None:
    async def run() -> None:
        client = HttpUpstream()
        await scenario(client)
        await client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_tls_on_the_loop_of_the_gateway(certificate: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_tls(certificate))
