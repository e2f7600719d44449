"""The sidecar's HTTP client, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agentos.sidecar.http import EventReader, HttpClient, HttpFailed, HttpRefused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[HttpClient]:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield HttpClient(int(runner.addresses[0][1]), **options)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[HttpClient]:
    """A server that says these bytes, whatever it is asked, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield HttpClient(server.sockets[0].getsockname()[1])


async def test_json_goes_there_and_back() -> None:
    async def echo(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Basic abc"
        assert request.headers["Host"].startswith("127.0.0.1:")
        said = {"method": request.method, "path": request.path_qs, "body": await request.json()}
        return web.json_response(said)

    async with serving(echo, headers={"Authorization": "Basic abc"}) as client:
        body = {"text": "Grüße " * 50_000}
        answer = await client.post("/a/b?c=d", body)
    assert answer == {"method": "POST", "path": "/a/b?c=d", "body": body}


async def test_nothing_is_none() -> None:
    async def nothing(_: web.Request) -> web.Response:
        return web.Response(status=204)

    async with serving(nothing) as client:
        assert await client.post("/") is None
        assert await client.get("/") is None


async def test_an_error_status_is_refused_with_what_was_said() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=404, text="no such session")

    async with serving(refuse) as client:
        with pytest.raises(HttpRefused, match="404: no such session") as refused:
            await client.get("/")
        assert refused.value.status == 404
        with pytest.raises(HttpRefused):
            await anext(client.events("/"))


async def test_events_come_one_by_one() -> None:
    more = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b': hello\n\nid: 1\ndata: {"n": 1}\n\ndata: not json\n\nda')
        await more.wait()
        await response.write(b'ta: {"n":\r\ndata: 2}\r\n\r\ndata: {"n": 3}\n')
        return response

    async with serving(stream) as client:
        events = client.events("/event")
        assert await anext(events) == {"n": 1}
        more.set()
        # What is not ended by an empty line was not sent whole.
        assert [event async for event in events] == [{"n": 2}]


async def test_a_silent_server_counts_as_gone() -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(silent, silence=0.05) as client:
        with pytest.raises(HttpFailed, match="GET /x"):
            await client.get("/x")


async def test_nobody_there() -> None:
    async with saying(b"") as client:
        pass
    with pytest.raises(HttpFailed):
        await client.get("/")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
async def test_broken_answers_fail(answer: bytes) -> None:
    async with saying(answer) as client:
        with pytest.raises(HttpFailed):
            await client.get("/")


async def test_an_answer_of_unknown_length_ends_with_the_connection() -> None:
    async with saying(b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}') as client:
        assert await client.get("/") == {"a": 1}


async def test_halves_of_surrogate_pairs_are_replaced() -> None:
    broken = b'{"a": ["\\ud83d", "\\ud83d\\ude00", "\\\\ud83d"]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(broken)}\r\n\r\n".encode()
    async with saying(head + broken) as client:
        assert await client.get("/") == {"a": ["\ufffd", "\U0001f600", "\\ud83d"]}


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))), st.integers(1, 7)
)
def test_events_do_not_depend_on_how_they_are_cut(texts: list[str], size: int) -> None:
    whole = b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)
    reader = EventReader()
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    found = [data for piece in pieces for data in reader.feed(piece)]
    assert found == [text.encode() for text in texts]
