"""`http_fetch` and `http_send`: only where the session may go, hop by hop."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.integrations.tools.conftest import Kept, Session
from tests.integrations.tools.servers import WebServer, web_server

from agentos.integrations.sandboxes.base import Limits
from agentos.integrations.tools.http_client import http_client
from agentos.integrations.tools.routes import Routes


async def test_a_page_is_fetched(session: Session, web: WebServer) -> None:
    reaching = session.reaching(web.place)
    done = await reaching.call("http_fetch", url=web.url("/a?b=c"), headers={"X-Mine": "1"})
    assert done.text.splitlines() == [
        "200 OK",
        f"url: {web.url('/a?b=c')}",
        "content-type: text/plain; charset=utf-8",
        "",
        "hello from /a?b=c",
    ]
    [(_, _, headers, _)] = web.asked
    assert headers["x-mine"] == "1"
    assert "idempotency-key" not in headers
    head = await reaching.call("http_fetch", url=web.url(), method="HEAD")
    assert head.text.startswith("200 OK")
    missing = await reaching.call("http_fetch", url=web.url("/missing"))
    assert missing.failed
    assert missing.text.startswith("404 Not Found")
    assert missing.text.endswith("no such page")


async def test_without_allowed_hosts_nothing_is_fetched(session: Session, web: WebServer) -> None:
    done = await session.call("http_fetch", url=web.url())
    assert (done.failed, done.text) == (
        True,
        "This session may not reach any host: none is allowed.",
    )
    assert web.asked == []


async def test_redirects_are_checked_hop_by_hop(session: Session, web: WebServer) -> None:
    reaching = session.reaching(web.place)
    followed = await reaching.call("http_fetch", url=web.url("/to?/b"))
    assert followed.text.endswith("hello from /b")
    async with web_server() as other:
        inward = await reaching.call("http_fetch", url=web.url(f"/to?{other.url('/secret')}"))
        assert inward.failed
        assert f"{other.place} is not among the hosts" in inward.text
        assert other.asked == []
        both = session.reaching(web.place, other.place)
        crossed = await both.call(
            "http_fetch",
            url=web.url(f"/to?{other.url('/c')}"),
            headers={"Authorization": "Bearer mine", "X-Api-Key": "mine"},
        )
        assert crossed.text.endswith("hello from /c")
        # What was meant for the first host is not given to the second.
        [(_, _, headers, _)] = other.asked
        assert {"authorization", "x-api-key"} & set(headers) == set()
    metadata = await reaching.call(
        "http_fetch", url=web.url("/to?http://169.254.169.254/latest/meta-data/")
    )
    assert metadata.failed
    files = await reaching.call("http_fetch", url=web.url("/to?file:///etc/passwd"))
    assert files.failed
    assert "root:" not in files.text
    endless = web.url("/x")
    for _ in range(7):
        endless = web.url(f"/to?{endless}")
    assert "redirects" in (await reaching.call("http_fetch", url=endless)).text


async def test_sending_carries_the_idempotency_key(session: Session, web: WebServer) -> None:
    reaching = session.reaching(web.place)
    done = await reaching.call(
        "http_send",
        url=web.url("/orders"),
        method="POST",
        body='{"n": 1}',
        headers={"Idempotency-Key": "forged", "Host": "forged"},
    )
    assert not done.failed
    [(method, _, headers, body)] = web.asked
    assert (method, body) == ("POST", b'{"n": 1}')
    assert headers["idempotency-key"] == "session:7"
    assert headers["content-type"] == "application/json"
    assert headers["host"] == web.place
    moved = await reaching.call("http_send", url=web.url("/to?/b"), method="PUT")
    assert moved.text.splitlines()[0] == "302 Found"
    assert "location: /b" in moved.text
    assert [path for _, path, _, _ in web.asked] == ["/orders", "/to?/b"]


async def test_what_bodies_look_like(session: Session, web: WebServer, kept: Kept) -> None:
    reaching = session.reaching(web.place)

    async def fetched(path: str) -> str:
        return (await reaching.call("http_fetch", url=web.url(path))).text

    assert (await fetched("/latin")).endswith("grün")
    assert (await fetched("/zipped")).endswith("unpacked")
    assert "Binary output of 60 bytes" in await fetched("/binary")
    assert kept.outputs == [b"\x89PNG\0\0" * 10]
    assert await fetched("/huge") == "The answer is longer than 8.0 MiB and was not read."
    assert "when unpacked" in await fetched("/bomb")


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "ftp://a.test/"},
        {"url": "file:///etc/passwd"},
        {"url": "http://"},
        {"url": "http://user:pass@a.test/"},
        {"url": "http://a.test/", "method": "POST"},
        {"url": "http://a.test/", "headers": {"A\r\nB": "c"}},
        {"url": "http://a.test/", "headers": {"A": "b\r\nc: d"}},
        {"url": "http://a.test:99999/"},
        {"url": "http://[::1/"},
        {"url": "http://nowhere.test/"},
        {"url": "http://a.test/\ud800"},
    ],
)
async def test_what_cannot_be_fetched(session: Session, arguments: dict[str, Any]) -> None:
    done = await session.reaching("a.test", "nowhere.test").call("http_fetch", **arguments)
    assert done.failed


async def test_a_server_that_says_nothing(session: Session) -> None:
    hung = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    quick = Session(replace(session.reaching(place).context, limits=Limits(seconds=0.2)))
    done = await quick.call("http_send", url=f"http://{place}/", method="POST")
    assert (done.failed, done.text) == (True, "There was no answer within 0.2 seconds.")
    # It may have been received: the engine must not simply try again.
    assert done.details["uncertain"] is True
    hung.set()
    server.close()
    refused = await quick.call("http_send", url=f"http://{place}/", method="POST")
    assert refused.failed
    assert "does not answer" in refused.text
    assert "uncertain" not in refused.details


async def test_a_server_that_answers_a_byte_at_a_time(session: Session) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b".")
            await asyncio.sleep(0.02)
        writer.close()
        hung_up.set()

    hung_up = asyncio.Event()
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    quick = Session(replace(session.reaching(place).context, limits=Limits(seconds=0.3)))
    done = await quick.call("http_fetch", url=f"http://{place}/")
    assert (done.failed, done.text) == (True, "There was no answer within 0.3 seconds.")
    assert "uncertain" not in done.details
    await hung_up.wait()
    server.close()


async def test_tls_asks_for_the_name_though_the_address_is_given(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(directory, "good.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("agentos.integrations.tools.http_client._tls", lambda: trusting)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]

    class Loopback:
        def check(self, host: str, port: int) -> None:
            """All names."""

        def refuses(self, host: str, address: str) -> bool:
            return False

    async def names(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    routes = Routes(Loopback(), names)
    async with http_client(routes, read_seconds=5, most_bytes=100) as client:
        assert (await client.get(f"https://good.test:{port}/")).text == "hi"
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(f"https://evil.test:{port}/")
    server.close()
    await server.wait_closed()


def _certificate(directory: Path, name: str) -> Path:
    """Key and self-signed certificate of a name in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path
