"""The official Google SDK against our Google server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from aiohttp import ClientSession
from google import genai
from google.genai import errors, types

from agentos.testing import Fault, Reply, ToolCall
from agentos.testing.vendors import GoogleServer

MODEL = "gemini-2.5-flash"
HELLO = "hello there world"


@pytest.fixture
async def server() -> AsyncIterator[GoogleServer]:
    async with GoogleServer() as server:
        yield server


@asynccontextmanager
async def client_of(server: GoogleServer, key: str) -> AsyncIterator[genai.Client]:
    # Given from outside, for the one that the SDK makes itself is left open.
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(
            base_url=server.origin, api_version="v1beta", httpx_async_client=http
        )
        client = genai.Client(api_key=key, http_options=options)
        yield client
        client.close()


@pytest.fixture
async def client(server: GoogleServer) -> AsyncIterator[genai.Client]:
    async with client_of(server, server.key) as client:
        yield client


async def chunks(client: genai.Client) -> list[types.GenerateContentResponse]:
    stream = await client.aio.models.generate_content_stream(model=MODEL, contents=HELLO)
    return [chunk async for chunk in stream]


async def test_content_echoes_the_last_user_and_counts_words(client: genai.Client) -> None:
    answer = await client.aio.models.generate_content(
        model=MODEL,
        contents=HELLO,
        config=types.GenerateContentConfig(system_instruction="be brief"),
    )
    assert answer.text == HELLO
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count) == (5, 3)
    assert usage.total_token_count == 8


async def test_thinking_tools_and_scripted_numbers(
    server: GoogleServer, client: genai.Client
) -> None:
    server.reply(
        Reply(
            thinking="let me see",
            tool_calls=[ToolCall("weather", {"city": "Graz"})],
            input_tokens=100,
            cached_tokens=60,
            output_tokens=20,
        )
    )
    answer = await client.aio.models.generate_content(model=MODEL, contents=HELLO)
    assert answer.function_calls is not None
    assert [(c.name, c.args) for c in answer.function_calls] == [("weather", {"city": "Graz"})]
    usage = answer.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (100, 60)
    assert (usage.thoughts_token_count, usage.candidates_token_count) == (3, 17)


async def test_the_maximum_of_tokens_cuts_the_text(client: genai.Client) -> None:
    answer = await client.aio.models.generate_content(
        model=MODEL, contents=HELLO, config=types.GenerateContentConfig(max_output_tokens=2)
    )
    assert answer.text == "hello there"
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


async def test_a_stream(client: genai.Client) -> None:
    got = await chunks(client)
    assert [chunk.text for chunk in got] == ["hello ", "there ", "world", ""]
    assert got[-1].candidates is not None
    assert got[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert got[-1].usage_metadata is not None
    assert got[-1].usage_metadata.candidates_token_count == 3


async def test_tokens_and_models(server: GoogleServer, client: genai.Client) -> None:
    counted = await client.aio.models.count_tokens(model=MODEL, contents=HELLO)
    assert counted.total_tokens == 3
    pager = await client.aio.models.list(config={"page_size": 2})
    assert [model.name async for model in pager] == [f"models/{name}" for name in server.models]


@pytest.mark.parametrize(
    ("fault", "status", "name"),
    [
        (Fault.rate_limit(retry_after=7), 429, "RESOURCE_EXHAUSTED"),
        (Fault.no_credit(), 429, "RESOURCE_EXHAUSTED"),
        (Fault.auth(), 400, "INVALID_ARGUMENT"),
        (Fault.context_length(), 400, "INVALID_ARGUMENT"),
        (Fault.model_not_found(), 404, "NOT_FOUND"),
        (Fault.overload(), 503, "UNAVAILABLE"),
        (Fault.server_error(), 500, "INTERNAL"),
        (Fault.html(502), 502, "Bad Gateway"),
    ],
)
async def test_error_answers(
    server: GoogleServer, client: genai.Client, fault: Fault, status: int, name: str
) -> None:
    server.queue(fault, fault)
    with pytest.raises(errors.APIError) as raised:
        await client.aio.models.generate_content(model=MODEL, contents=HELLO)
    assert (raised.value.code, raised.value.status) == (status, name)
    with pytest.raises(errors.APIError) as raised:
        await chunks(client)
    assert raised.value.code == status


async def test_a_rate_limit_says_how_long_to_wait(
    server: GoogleServer, client: genai.Client
) -> None:
    server.queue(Fault.rate_limit(retry_after=7))
    with pytest.raises(errors.ClientError) as raised:
        await client.aio.models.generate_content(model=MODEL, contents=HELLO)
    assert raised.value.details["error"]["details"][-1] == {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": "7s",
    }


async def test_an_error_in_the_stream(server: GoogleServer, client: genai.Client) -> None:
    server.queue(Fault.stream_error(after_chunks=1))
    with pytest.raises(errors.APIError, match="overloaded") as raised:
        await chunks(client)
    assert raised.value.code == 503


@pytest.mark.parametrize("fault", [Fault.cut(), Fault.cut(after_chunks=1)])
async def test_what_is_cut(server: GoogleServer, client: genai.Client, fault: Fault) -> None:
    server.queue(fault, fault)
    with pytest.raises(httpx.RemoteProtocolError):
        await chunks(client)
    with pytest.raises(httpx.RemoteProtocolError):
        await client.aio.models.generate_content(model=MODEL, contents=HELLO)


async def test_a_malformed_stream(server: GoogleServer, client: genai.Client) -> None:
    server.queue(Fault.malformed(after_chunks=1))
    with pytest.raises(errors.UnknownApiResponseError):
        await chunks(client)


async def test_bad_requests(server: GoogleServer, client: genai.Client) -> None:
    with pytest.raises(errors.ClientError, match="models/gemini-none is not found"):
        await client.aio.models.generate_content(model="gemini-none", contents=HELLO)
    async with client_of(server, "AIza-wrong") as wrong:
        with pytest.raises(errors.ClientError, match="API_KEY_INVALID"):
            await wrong.aio.models.generate_content(model=MODEL, contents=HELLO)


async def test_the_key_may_be_in_the_query_and_the_stream_a_list(server: GoogleServer) -> None:
    url = f"{server.url}/models/{MODEL}:streamGenerateContent"
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    async with ClientSession() as session:
        async with session.post(url, json=body) as response:
            assert response.status == 403
        async with session.post(url, json=body, params={"key": server.key}) as response:
            whole = await response.json()
        query = {"key": server.key, "alt": "sse"}
        async with session.post(url, json=body, params=query) as response:
            lines = await response.text()
    assert whole[0]["candidates"][0]["content"]["parts"] == [{"text": "hi"}]
    assert lines.startswith('data: {"candidates":[{"content":{"parts":[{"text":"hi"}]')
    assert lines.endswith("}\r\n\r\n")
