"""The official Anthropic SDK against our Anthropic server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anthropic
import httpx2
import pytest
from aiohttp import ClientSession
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, RawMessageStreamEvent

from agentos.testing import Fault, Reply, ToolCall
from agentos.testing.vendors import AnthropicServer

MODEL = "claude-sonnet-5-5"
HELLO: list[MessageParam] = [{"role": "user", "content": "hello there world"}]


@pytest.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer() as server:
        yield server


@pytest.fixture
async def client(server: AnthropicServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key=server.key, max_retries=0) as client:
        yield client


async def events(client: AsyncAnthropic) -> list[RawMessageStreamEvent]:
    stream = await client.messages.create(model=MODEL, messages=HELLO, max_tokens=100, stream=True)
    return [event async for event in stream]


async def test_a_message_echoes_the_last_user_and_counts_words(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(
        model=MODEL, messages=HELLO, max_tokens=100, system="be brief"
    )
    assert [block.to_dict() for block in answer.content] == [
        {"type": "text", "text": "hello there world"}
    ]
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (5, 3)


async def test_the_maximum_of_tokens_cuts_the_text(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(model=MODEL, messages=HELLO, max_tokens=2)
    assert answer.content[0].type == "text"
    assert answer.content[0].text == "hello there"
    assert answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 2


async def test_cached_tokens_are_counted_apart(
    server: AnthropicServer, client: AsyncAnthropic
) -> None:
    server.reply(Reply("ok", input_tokens=1000, cached_tokens=700, cache_write_tokens=200))
    answer = await client.messages.create(model=MODEL, messages=HELLO, max_tokens=100)
    assert answer.usage.input_tokens == 100
    assert answer.usage.cache_read_input_tokens == 700
    assert answer.usage.cache_creation_input_tokens == 200


async def test_a_stream_has_every_event_in_order(
    server: AnthropicServer, client: AsyncAnthropic
) -> None:
    server.queue(
        Reply("fine thanks", thinking="hm", tool_calls=[ToolCall("weather", {"city": "Graz"})])
    )
    # The SDK keeps pings to itself.
    assert [event.type for event in await events(client)] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_the_sdk_puts_a_stream_together(
    server: AnthropicServer, client: AsyncAnthropic
) -> None:
    server.queue(
        Reply(
            "fine thanks",
            thinking="let me see",
            tool_calls=[ToolCall("weather", {"city": "Graz"}, id="toolu_mine"), ToolCall("time")],
            input_tokens=50,
            cached_tokens=10,
            output_tokens=30,
        )
    )
    async with client.messages.stream(model=MODEL, messages=HELLO, max_tokens=100) as stream:
        final = await stream.get_final_message()
    thinking, text, weather, time = final.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("let me see", "test-signature-1")
    assert text.type == "text"
    assert text.text == "fine thanks"
    assert weather.type == "tool_use"
    assert (weather.id, weather.name, weather.input) == ("toolu_mine", "weather", {"city": "Graz"})
    assert time.type == "tool_use"
    assert time.input == {}
    assert final.stop_reason == "tool_use"
    assert (final.usage.input_tokens, final.usage.output_tokens) == (40, 30)


async def test_the_wire_itself(server: AnthropicServer) -> None:
    server.queue(Reply("hi", input_tokens=4))
    headers = {"x-api-key": server.key, "anthropic-version": "2023-06-01"}
    body = {"model": MODEL, "max_tokens": 9, "stream": True, "messages": HELLO}
    async with (
        ClientSession() as session,
        session.post(f"{server.url}/v1/messages", json=body, headers=headers) as response,
    ):
        lines = (await response.text()).split("\n\n")
    assert response.content_type == "text/event-stream"
    assert [line.split("\n")[0] for line in lines if line] == [
        "event: message_start",
        "event: content_block_start",
        "event: ping",
        "event: content_block_delta",
        "event: content_block_stop",
        "event: message_delta",
        "event: message_stop",
    ]
    assert lines[2] == 'event: ping\ndata: {"type":"ping"}'
    assert (
        lines[3] == "event: content_block_delta\n"
        'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}'
    )


async def test_tokens_are_counted_without_using_the_queue(
    server: AnthropicServer, client: AsyncAnthropic
) -> None:
    server.queue(Fault.overload())
    counted = await client.messages.count_tokens(model=MODEL, messages=HELLO, system="be brief")
    assert counted.input_tokens == 5
    server.queue(Fault.auth(), on="count_tokens")
    with pytest.raises(anthropic.AuthenticationError):
        await client.messages.count_tokens(model=MODEL, messages=HELLO)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        await client.messages.create(model=MODEL, messages=HELLO, max_tokens=9)


async def test_models_come_in_pages(server: AnthropicServer, client: AsyncAnthropic) -> None:
    page = await client.models.list(limit=2)
    assert len(page.data) == 2
    assert [model.id async for model in client.models.list(limit=2)] == list(server.models)


@pytest.mark.parametrize(
    ("fault", "status", "type"),
    [
        (Fault.rate_limit(retry_after=7), 429, "rate_limit_error"),
        (Fault.no_credit(), 400, "invalid_request_error"),
        (Fault.auth(), 401, "authentication_error"),
        (Fault.context_length(), 400, "invalid_request_error"),
        (Fault.model_not_found(), 404, "not_found_error"),
        (Fault.overload(retry_after=3), 529, "overloaded_error"),
        (Fault.server_error(), 500, "api_error"),
        (Fault.html(503), 503, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_error_answers(
    server: AnthropicServer,
    client: AsyncAnthropic,
    fault: Fault,
    status: int,
    type: str | None,
    stream: bool,
) -> None:
    server.queue(fault)
    with pytest.raises(anthropic.APIStatusError) as raised:
        await client.messages.create(model=MODEL, messages=HELLO, max_tokens=9, stream=stream)
    assert raised.value.status_code == status
    assert raised.value.type == type
    expected = f"{fault.retry_after:g}" if fault.retry_after else None
    assert raised.value.response.headers.get("retry-after") == expected


async def test_an_error_in_the_stream(server: AnthropicServer, client: AsyncAnthropic) -> None:
    server.queue(Fault.stream_error(after_chunks=1))
    with pytest.raises(anthropic.APIStatusError) as raised:
        await events(client)
    assert raised.value.type == "overloaded_error"
    assert raised.value.status_code == 200


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (Fault.cut(), []),
        (Fault.cut(after_events=1), ["message_start"]),
        (
            Fault.cut(after_chunks=1),
            ["message_start", "content_block_start", "content_block_delta"],
        ),
    ],
)
async def test_streams_that_are_cut(
    server: AnthropicServer, client: AsyncAnthropic, fault: Fault, seen: list[str]
) -> None:
    server.queue(fault)
    stream = await client.messages.create(model=MODEL, messages=HELLO, max_tokens=100, stream=True)
    types = ""
    try:
        async for event in stream:
            types += f"{event.type} "
    except httpx2.RemoteProtocolError:
        types += "cut"
    assert types.split() == [*seen, "cut"]


@pytest.mark.parametrize("fault", [Fault.cut(), Fault.cut(after_chunks=1), Fault.refuse()])
async def test_whole_answers_that_are_cut(
    server: AnthropicServer, client: AsyncAnthropic, fault: Fault
) -> None:
    server.queue(fault)
    with pytest.raises(anthropic.APIConnectionError):
        await client.messages.create(model=MODEL, messages=HELLO, max_tokens=9)


async def test_a_malformed_stream(server: AnthropicServer, client: AsyncAnthropic) -> None:
    server.queue(Fault.malformed(after_chunks=1))
    with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
        await events(client)


async def test_stalls_time_out(server: AnthropicServer, client: AsyncAnthropic) -> None:
    server.queue(Fault.stall())
    with pytest.raises(anthropic.APITimeoutError):
        await client.messages.create(model=MODEL, messages=HELLO, max_tokens=9, timeout=0.2)
    await server.wait_cancelled()


async def test_bad_requests(server: AnthropicServer, client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model: claude-none"):
        await client.messages.create(model="claude-none", messages=HELLO, max_tokens=9)
    with pytest.raises(anthropic.BadRequestError, match="at least one message"):
        await client.messages.create(model=MODEL, messages=[], max_tokens=9)
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        await client.with_options(api_key="sk-ant-wrong").models.list()


async def test_what_no_sdk_would_send(server: AnthropicServer) -> None:
    key, bearer = {"x-api-key": server.key}, {"Authorization": f"Bearer {server.key}"}
    old, new = {"anthropic-version": "2023-06-01"}, {"anthropic-version": "2026-10-21"}
    good: dict[str, object] = {"model": MODEL, "max_tokens": 9, "messages": HELLO}
    cases: list[tuple[dict[str, str], object, int, str | None]] = [
        (old, good, 401, "x-api-key header is required"),
        (key, good, 400, "anthropic-version: header is required"),
        (
            key | {"anthropic-version": "1999-01-01"},
            good,
            400,
            'anthropic-version: "1999-01-01" is not a valid version',
        ),
        (key | old, {"model": MODEL, "messages": HELLO}, 400, "max_tokens: Field required"),
        (key | old, [1], 400, "The request body is not valid JSON"),
        (key | old, good, 200, None),
        (bearer | new, good, 200, None),
        (key | old, good | {"temperature": 1}, 200, None),
        (
            key | new,
            good | {"temperature": 1},
            400,
            "temperature: Extra inputs are not permitted",
        ),
    ]
    async with ClientSession() as session:
        for headers, body, status, message in cases:
            url = f"{server.url}/v1/messages"
            async with session.post(url, json=body, headers=headers) as response:
                error = (await response.json()).get("error", {})
            assert (response.status, error.get("message")) == (status, message)
