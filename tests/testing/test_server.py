"""What every test server does, whichever vendor it plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ClientResponse, ClientSession

from agentos.testing import SERVERS, Fault, OpenAIServer, Reply, VendorServer

CHAT = "/chat/completions"


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    # Kept until the end: one that is forgotten while its connection is open is a warning.
    kept: list[ClientResponse] = []

    class Kept(ClientResponse):
        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            kept.append(self)

    async with ClientSession(response_class=Kept) as session:
        yield session
        for response in kept:
            response.close()


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def body(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "one two three"}]
    return {"model": "gpt-4o-mini", "messages": messages, **more}


def call(session: ClientSession, server: VendorServer, **more: Any) -> Awaitable[ClientResponse]:
    headers = {"Authorization": f"Bearer {server.key}", "X-Mine": "yes"}
    return session.post(server.url + CHAT, json=body(**more), headers=headers)


async def events(response: ClientResponse) -> list[bytes]:
    return (await response.read()).split(b"\n\n")[:-1]


async def test_requests_are_recorded(server: OpenAIServer, session: ClientSession) -> None:
    await call(session, server)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["x-mine"] == "yes"
    assert request.json == body()
    assert request.body.startswith(b'{"model"')
    assert request.at > 0
    assert (request.status, request.ended, request.cancelled) == (200, True, False)


async def test_what_is_not_json_is_recorded_as_bytes(
    server: OpenAIServer, session: ClientSession
) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    response = await session.post(server.url + CHAT, data=b"{no", headers=headers)
    assert response.status == 400
    assert (server.requests[0].body, server.requests[0].json) == (b"{no", None)


async def test_the_queue_comes_first_and_then_the_reply(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.reply(Reply("always"))
    server.queue(Reply("first"), Fault.rate_limit(), Reply("third"))
    answers = []
    for _ in range(4):
        answer = await (await call(session, server)).json()
        answers.append(answer["choices"][0]["message"]["content"] if "choices" in answer else None)
    assert answers == ["first", None, "third", "always"]


async def test_refused_requests_leave_the_queue_alone(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.queue(Fault.overload())
    wrong = await session.post(server.url + CHAT, json=body(), headers={"Authorization": "no"})
    assert wrong.status == 401
    assert (await call(session, server, model="nothing")).status == 404
    listed = await session.get(
        f"{server.url}/models", headers={"Authorization": f"Bearer {server.key}"}
    )
    assert listed.status == 200
    assert (await call(session, server)).status == 503


async def test_an_endpoint_can_have_its_own_queue(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.queue(Fault.auth(), on="models")
    assert (await call(session, server)).status == 200
    headers = {"Authorization": f"Bearer {server.key}"}
    assert (await session.get(f"{server.url}/models", headers=headers)).status == 401
    assert (await session.get(f"{server.url}/models", headers=headers)).status == 200


async def test_chunks_and_their_number(server: OpenAIServer, session: ClientSession) -> None:
    server.queue(Reply("abcdef", chunks=3), Reply("a b c d e f", chunks=2, delay=0.001))
    assert len(await events(await call(session, server, stream=True))) == 3 + 3
    assert len(await events(await call(session, server, stream=True))) == 2 + 3
    assert [request.chunks for request in server.requests] == [3, 2]


async def test_a_stall_lasts_until_it_is_released(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.queue(Fault.stall(), Fault.stall(after_chunks=1), Fault.stall(after_chunks=1))
    silent = asyncio.ensure_future(call(session, server))
    await server.wait_stalled(1)
    begun = await call(session, server, stream=True)
    await begun.content.readuntil(b"one ")
    half = await call(session, server)
    await server.wait_stalled(3)
    assert not silent.done()
    assert server.open == 3
    server.release()
    assert (await (await silent).json())["choices"][0]["message"]["content"] == "one two three"
    assert (await begun.read()).endswith(b"data: [DONE]\n\n")
    assert (await half.json())["choices"][0]["message"]["content"] == "one two three"
    await server.wait_open(0)
    assert server.most_open == 3
    assert server.stalled == 0


async def test_clients_that_leave_are_noted(server: OpenAIServer, session: ClientSession) -> None:
    server.queue(Reply("done"), Fault.stall(after_chunks=2), Fault.stall())
    await (await call(session, server, stream=True)).read()
    leaving = await call(session, server, stream=True)
    await server.wait_stalled()
    leaving.close()
    gone = await server.wait_cancelled()
    assert gone is server.requests[1]
    assert (gone.status, gone.chunks) == (200, 2)

    waiting = asyncio.ensure_future(call(session, server))
    await server.wait_stalled()
    waiting.cancel()
    assert await server.wait_cancelled(count=2) is server.requests[2]
    assert server.requests[2].status is None
    assert [request.cancelled for request in server.requests] == [False, True, True]


async def test_a_client_that_leaves_between_chunks_is_noted(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.reply(Reply("one two", delay=60))
    leaving = await call(session, server, stream=True)
    await leaving.content.readuntil(b"one ")
    leaving.close()
    assert (await server.wait_cancelled()).chunks == 1


async def test_waiting_gives_up(server: OpenAIServer) -> None:
    with pytest.raises(TimeoutError):
        await server.wait_cancelled(timeout=0.01)
    with pytest.raises(TimeoutError):
        await server.wait_requests(timeout=0.01)


async def test_stopping_does_not_count_as_a_client_that_leaves() -> None:
    async with ClientSession() as session:
        async with OpenAIServer() as server:
            server.queue(Fault.stall())
            waiting = asyncio.ensure_future(call(session, server))
            await server.wait_stalled()
        with pytest.raises(ClientConnectionError):
            await waiting
    assert not server.requests[0].cancelled


@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_is_no_client_that_leaves(
    server: OpenAIServer, session: ClientSession, reset: bool
) -> None:
    server.queue(Fault.cut(after_chunks=1, reset=reset))
    with pytest.raises((ClientPayloadError, ClientConnectionError)):
        await (await call(session, server, stream=True)).read()
    await server.wait_open(0)
    assert not server.requests[0].cancelled


async def test_half_of_a_whole_answer_comes_through(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.queue(Fault.cut(after_chunks=1), Fault.malformed())
    cut = await call(session, server)
    assert cut.content_length is not None
    got, whole = b"", True
    try:
        async for data in cut.content.iter_any():
            got += data
    except ClientPayloadError:
        whole = False
    assert not whole
    assert len(got) == cut.content_length // 2
    broken = await (await call(session, server)).read()
    assert broken.startswith(b"{")
    assert not broken.rstrip().endswith(b"}")


async def test_a_slow_answer_is_a_good_one(server: OpenAIServer, session: ClientSession) -> None:
    server.queue(Fault.slow(first_byte=0.001, reply=Reply("worth it")))
    answer = await (await call(session, server)).json()
    assert answer["choices"][0]["message"]["content"] == "worth it"


async def test_a_fault_can_have_a_reply_of_its_own(
    server: OpenAIServer, session: ClientSession
) -> None:
    server.queue(Fault.stream_error(after_chunks=2, reply=Reply("a b c")))
    got = await events(await call(session, server, stream=True))
    assert len(got) == 4
    assert b'"content":"b "' in got[2]
    assert b'"error"' in got[3]


async def test_keys_and_models_can_be_chosen(session: ClientSession) -> None:
    async with OpenAIServer(key="sk-mine", models=["mine"]) as server:
        answer = await (await call(session, server, model="mine")).json()
    assert answer["model"] == "mine"
    assert OpenAIServer.key != "sk-mine"


async def test_the_port_can_be_chosen() -> None:
    async with OpenAIServer() as first:
        port = first.port
    async with OpenAIServer(port=port) as second:
        assert second.url == f"http://127.0.0.1:{port}/v1"


@pytest.mark.parametrize("vendor", sorted(SERVERS))
async def test_base_urls_look_like_the_vendors_own(vendor: str) -> None:
    prefixes = {
        "openai": "/v1",
        "anthropic": "",
        "google": "/v1beta",
        "mistral": "/v1",
        "groq": "/openai/v1",
        "openrouter": "/api/v1",
        "ollama": "",
        "custom": "/v1",
    }
    async with SERVERS[vendor]() as server:
        assert server.url == f"http://127.0.0.1:{server.port}{prefixes[vendor]}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": "hi"},
        {"messages": ["hi"]},
        {"messages": [], "max_tokens": 5},
        {"max_tokens": "many"},
        {"max_completion_tokens": 0},
        {"n": {}},
        {"model": 7},
    ],
)
async def test_requests_of_the_wrong_shape_are_refused(
    server: OpenAIServer, session: ClientSession, wrong: dict[str, Any]
) -> None:
    response = await call(session, server, **wrong)
    assert response.status == 400
    assert (await response.json())["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("events_before", [0, 1, 2, 3, 4, 5, 99])
async def test_a_malformed_stream_is_so_wherever_it_breaks(
    server: OpenAIServer, session: ClientSession, events_before: int
) -> None:
    server.queue(Fault.malformed(after_events=events_before))
    got = await events(await call(session, server, stream=True))
    assert len(got) == min(events_before, 5) + 1
    with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
        json.loads(got[-1].removeprefix(b"data: "))
