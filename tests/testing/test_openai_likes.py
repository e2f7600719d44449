"""The OpenAI SDK against the vendors that follow OpenAI, and what is peculiar to each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp import ClientSession
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from agentos.testing import (
    CustomServer,
    Fault,
    GroqServer,
    MistralServer,
    OllamaServer,
    OpenRouterServer,
    Reply,
    ToolCall,
    VendorServer,
)

LIKES: list[type[VendorServer]] = [
    MistralServer,
    GroqServer,
    OpenRouterServer,
    OllamaServer,
    CustomServer,
]
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there world"}]
EVERYTHING = Reply(
    "fine thanks",
    thinking="let me see",
    tool_calls=[ToolCall("weather", {"city": "Graz"})],
    input_tokens=100,
    output_tokens=20,
)


@pytest.fixture(params=LIKES, ids=lambda kind: kind.vendor)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[VendorServer]:
    async with request.param() as server:
        yield server


@asynccontextmanager
async def client_of(server: VendorServer) -> AsyncIterator[AsyncOpenAI]:
    url = f"{server.url}/v1" if server.vendor == "ollama" else server.url
    async with AsyncOpenAI(base_url=url, api_key=server.key or "none", max_retries=0) as client:
        yield client


@pytest.fixture
async def client(server: VendorServer) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(server) as client:
        yield client


async def chunks(server: VendorServer, client: AsyncOpenAI) -> list[ChatCompletionChunk]:
    stream = await client.chat.completions.create(
        model=server.models[0], messages=HELLO, stream=True
    )
    return [chunk async for chunk in stream]


async def raw(server: VendorServer, **more: Any) -> str:
    body = {"model": server.models[0], "messages": HELLO, "stream": True, **more}
    url = f"{server.url}{'/v1' if server.vendor == 'ollama' else ''}/chat/completions"
    headers = {"Authorization": f"Bearer {server.key}"}
    async with ClientSession() as session, session.post(url, json=body, headers=headers) as got:
        return await got.text()


async def test_text_and_usage(server: VendorServer, client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=server.models[0], messages=HELLO)
    assert answer.choices[0].message.content == "hello there world"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 3)


async def test_tools(server: VendorServer, client: AsyncOpenAI) -> None:
    server.reply(EVERYTHING)
    answer = await client.chat.completions.create(model=server.models[0], messages=HELLO)
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.name == "weather"
    assert calls[0].function.arguments == '{"city":"Graz"}'
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_a_stream(server: VendorServer, client: AsyncOpenAI) -> None:
    server.reply(
        Reply("one two three", tool_calls=[ToolCall("weather", {"city": "Graz"})], chunks=3)
    )
    got = [chunk.choices[0] for chunk in await chunks(server, client) if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in got) == "one two three"
    calls = [call for choice in got for call in choice.delta.tool_calls or []]
    functions = [call.function for call in calls if call.function is not None]
    assert "".join(function.name or "" for function in functions) == "weather"
    assert "".join(function.arguments or "" for function in functions) == '{"city":"Graz"}'
    assert [choice.finish_reason for choice in got if choice.finish_reason] == ["tool_calls"]


async def test_the_maximum_of_tokens_cuts_the_text(
    server: VendorServer, client: AsyncOpenAI
) -> None:
    answer = await client.chat.completions.create(
        model=server.models[0], messages=HELLO, max_tokens=2
    )
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "length"


async def test_models(server: VendorServer, client: AsyncOpenAI) -> None:
    assert [model.id for model in (await client.models.list()).data] == list(server.models)


STATUSES = {
    # auth, rate limit, overload, server error, context length, unknown model, no credit
    "mistral": (401, 429, 503, 500, 400, 400, 402),
    "groq": (401, 429, 503, 500, 400, 404, 400),
    "openrouter": (401, 429, 503, 500, 400, 400, 402),
    "ollama": (401, 429, 503, 500, 400, 404, 403),
    "custom": (401, 429, 503, 500, 400, 404, 402),
}


@pytest.mark.parametrize("stream", [False, True])
async def test_error_answers(server: VendorServer, client: AsyncOpenAI, stream: bool) -> None:
    faults = (
        Fault.auth(),
        Fault.rate_limit(retry_after=3),
        Fault.overload(),
        Fault.server_error(),
        Fault.context_length(),
        Fault.model_not_found(),
        Fault.no_credit(),
    )
    server.queue(*faults)
    for fault, status in zip(faults, STATUSES[server.vendor], strict=True):
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(
                model=server.models[0], messages=HELLO, stream=stream
            )
        assert (fault.kind, raised.value.status_code) == (fault.kind, status)
        waits = raised.value.response.headers.get("retry-after")
        assert waits == ("3" if fault.retry_after else None)


async def test_an_error_in_the_stream(server: VendorServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.stream_error(after_chunks=1))
    text = await raw(server)
    assert "hello" in text
    assert "[DONE]" not in text
    server.queue(Fault.stream_error(after_chunks=1))
    # Mistral's error has no `error` in it, so that this SDK takes it for a chunk.
    if server.vendor != "mistral":
        with pytest.raises(openai.APIError):
            await chunks(server, client)


@pytest.mark.parametrize("delivered", [0, 1])
async def test_cut_streams(server: VendorServer, client: AsyncOpenAI, delivered: int) -> None:
    server.queue(Fault.cut(after_chunks=delivered))
    with pytest.raises(openai.APIConnectionError):
        await chunks(server, client)
    assert server.requests[0].chunks == delivered


async def test_malformed_streams(server: VendorServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.malformed(after_chunks=1))
    with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
        await chunks(server, client)


async def test_bad_keys_and_models(server: VendorServer, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        await client.chat.completions.create(model="nothing", messages=HELLO)
    assert raised.value.status_code == STATUSES[server.vendor][5]
    wrong = client.with_options(api_key="sk-wrong")
    if server.vendor == "ollama":
        await wrong.models.list()
    else:
        with pytest.raises(openai.AuthenticationError):
            await wrong.models.list()


async def test_mistral_tells_usage_unasked_in_its_last_chunk() -> None:
    async with MistralServer() as server, client_of(server) as client:
        last = (await chunks(server, client))[-1]
    assert last.choices[0].finish_reason == "stop"
    assert last.usage is not None
    assert last.usage.completion_tokens == 3


@pytest.mark.parametrize(
    "field",
    [{"stream_options": {"include_usage": True}}, {"max_completion_tokens": 5}, {"seed": 1}],
)
async def test_mistral_takes_no_field_it_does_not_know(field: dict[str, Any]) -> None:
    async with MistralServer() as server:
        text = await raw(server, **field)
    assert server.requests[0].status == 422
    assert f'"type":"extra_forbidden","loc":["body","{next(iter(field))}"]' in text


async def test_mistral_wants_tool_ids_of_nine_letters() -> None:
    def turn(id: str) -> list[dict[str, Any]]:
        function = {"name": "weather", "arguments": "{}"}
        call = {"id": id, "type": "function", "function": function}
        return [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": "sunny"},
        ]

    async with MistralServer() as server, client_of(server) as client:
        server.queue(EVERYTHING)
        answer = await client.chat.completions.create(model=server.models[0], messages=HELLO)
        assert answer.choices[0].message.tool_calls is not None
        own = answer.choices[0].message.tool_calls[0].id
        assert (len(own), own.isalnum()) == (9, True)
        await raw(server, messages=turn(own))
        await raw(server, messages=turn("call_0123456789"))
    assert [request.status for request in server.requests] == [200, 200, 400]


async def test_groq_tells_usage_twice() -> None:
    async with GroqServer() as server, client_of(server) as client:
        last = (await chunks(server, client))[-1]
        asked = await raw(server, stream_options={"include_usage": True})
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    assert last.model_extra is not None
    assert last.model_extra["x_groq"]["usage"]["completion_tokens"] == 3
    assert '"choices":[],"usage"' in asked


async def test_openrouter_keeps_the_stream_awake() -> None:
    async with OpenRouterServer() as server:
        text = await raw(server)
    assert text.startswith(": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: {")
    assert '"provider":"Test"' in text
    assert '"usage":{"prompt_tokens":3,"completion_tokens":3' in text
    assert all("/" in model for model in server.models)


async def test_openrouter_breaks_off_within_a_chunk() -> None:
    async with OpenRouterServer() as server:
        server.queue(Fault.stream_error(after_chunks=1))
        text = await raw(server)
    assert '"error":{"code":502' in text
    assert '"finish_reason":"error"' in text


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (GroqServer, "reasoning"),
        (OpenRouterServer, "reasoning"),
        (OllamaServer, "reasoning"),
        (CustomServer, "reasoning_content"),
    ],
)
async def test_thinking_has_a_field_of_its_own(kind: type[VendorServer], field: str) -> None:
    async with kind() as server, client_of(server) as client:
        server.reply(EVERYTHING)
        answer = await client.chat.completions.create(model=server.models[0], messages=HELLO)
        got = await chunks(server, client)
    assert (answer.choices[0].message.model_extra or {})[field] == "let me see"
    deltas = [(chunk.choices[0].delta.model_extra or {}).get(field) or "" for chunk in got]
    assert "".join(deltas) == "let me see"


async def test_mistral_thinks_in_its_content() -> None:
    async with MistralServer() as server, ClientSession() as session:
        server.reply(Reply("fine", thinking="let me see"))
        headers = {"Authorization": f"Bearer {server.key}"}
        body = {"model": server.models[0], "messages": HELLO}
        url = f"{server.url}/chat/completions"
        async with session.post(url, json=body, headers=headers) as response:
            answer = await response.json()
        streamed = await raw(server)
    assert answer["choices"][0]["message"]["content"] == [
        {
            "type": "thinking",
            "thinking": [{"type": "text", "text": "let me see"}],
            "closed": True,
        },
        {"type": "text", "text": "fine"},
    ]
    assert '"content":[{"type":"thinking","thinking":[{"type":"text","text":"let "}]}]' in streamed


async def test_ollama_tells_its_tags_and_version_to_everyone() -> None:
    async with OllamaServer() as server, ClientSession() as session:
        async with session.get(f"{server.url}/api/tags") as response:
            tags = await response.json()
        async with session.get(f"{server.url}/api/version") as response:
            version = await response.json()
    assert [tag["name"] for tag in tags["models"]] == list(server.models)
    assert version == {"version": "0.13.5"}


async def test_ollama_knows_its_models_without_their_tag() -> None:
    async with OllamaServer() as server, client_of(server) as client:
        answer = await client.chat.completions.create(model="llama3.2", messages=HELLO)
        vectors = await client.embeddings.create(model="nomic-embed-text", input="hi")
    assert answer.model == "llama3.2"
    assert len(vectors.data[0].embedding) == 16
