"""The official OpenAI SDK against our OpenAI server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from agentos.testing import Fault, Reply, ToolCall
from agentos.testing.vendors import OpenAIServer

MODEL = "gpt-4o-mini"
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there world"}]
BROKEN = r"Unterminated|delimiter|Expecting"
WEATHER = Reply(tool_calls=[ToolCall("weather", {"city": "Graz"}), ToolCall("time")])


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(server: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url, api_key=server.key, max_retries=0) as client:
        yield client


async def chunks(client: AsyncOpenAI, **more: Any) -> list[ChatCompletionChunk]:
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **more)
    return [chunk async for chunk in stream]


async def read_until_cut(client: AsyncOpenAI) -> tuple[int, str]:
    """The number of events, and the text in them, before the connection was lost."""
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    seen, said = 0, ""
    try:
        async for chunk in stream:
            seen += 1
            said += chunk.choices[0].delta.content or ""
    except openai.APIConnectionError:
        return seen, said
    raise AssertionError("the stream came to its end")


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


async def test_a_chat_echoes_the_last_user_and_counts_words(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "be brief"}, *HELLO],
    )
    assert answer.choices[0].message.content == "hello there world"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 3)
    assert answer.usage.total_tokens == 8


async def test_a_chat_stream_tells_usage_only_to_those_who_ask(client: AsyncOpenAI) -> None:
    plain = await chunks(client)
    assert text_of(plain) == "hello there world"
    assert [c.choices[0].delta.content for c in plain] == ["", "hello ", "there ", "world", None]
    assert plain[-1].choices[0].finish_reason == "stop"
    assert all(c.usage is None for c in plain)

    asked = await chunks(client, stream_options={"include_usage": True})
    assert asked[-1].choices == []
    assert asked[-1].usage is not None
    assert asked[-1].usage.completion_tokens == 3
    assert all(c.usage is None for c in asked[:-1])


async def test_tool_calls(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.reply(WEATHER)
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO)
    calls = answer.choices[0].message.tool_calls
    assert answer.choices[0].message.content is None
    assert answer.choices[0].finish_reason == "tool_calls"
    assert calls is not None
    assert [c.function.name for c in calls if c.type == "function"] == ["weather", "time"]
    assert [c.function.arguments for c in calls if c.type == "function"] == [
        '{"city":"Graz"}',
        "{}",
    ]


async def test_streamed_tool_calls_come_in_pieces(
    server: OpenAIServer, client: AsyncOpenAI
) -> None:
    server.reply(WEATHER)
    async with client.chat.completions.stream(model=MODEL, messages=HELLO) as stream:
        final = await stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert [(c.function.name, c.function.arguments) for c in calls] == [
        ("weather", '{"city":"Graz"}'),
        ("time", "{}"),
    ]
    assert calls[0].id != calls[1].id


async def test_the_maximum_of_tokens_cuts_the_text(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=HELLO, max_completion_tokens=2
    )
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2


async def test_scripted_numbers_reach_the_usage(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.reply(
        Reply("ok", thinking="let me see", input_tokens=900, cached_tokens=512, output_tokens=40)
    )
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO)
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.completion_tokens_details is not None
    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (900, 512)
    assert (usage.completion_tokens, usage.completion_tokens_details.reasoning_tokens) == (40, 3)


async def test_several_choices_cost_several_times(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO, n=2)
    assert [c.message.content for c in answer.choices] == ["hello there world"] * 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6


async def test_a_response(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.queue(Reply("fine", thinking="hm hm", tool_calls=[ToolCall("weather", {"a": 1})]))
    answer = await client.responses.create(model=MODEL, input="how are you", instructions="kind")
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]
    assert answer.output_text == "fine"
    assert answer.status == "completed"
    assert answer.usage is not None
    assert answer.usage.input_tokens == 4
    assert answer.usage.output_tokens_details.reasoning_tokens == 2


async def test_a_streamed_response_has_every_event_in_order(
    server: OpenAIServer, client: AsyncOpenAI
) -> None:
    server.queue(Reply("fine thanks", thinking="hm", tool_calls=[ToolCall("weather", {"a": 1})]))
    stream = await client.responses.create(model=MODEL, input="how are you", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))


async def test_the_sdk_puts_a_streamed_response_together(
    server: OpenAIServer, client: AsyncOpenAI
) -> None:
    server.reply(Reply("one two three", chunks=3))
    async with client.responses.stream(model=MODEL, input="x") as stream:
        final = await stream.get_final_response()
    assert final.output_text == "one two three"
    assert final.usage is not None
    assert final.usage.total_tokens == 4


async def test_a_response_that_reached_its_maximum_is_incomplete(client: AsyncOpenAI) -> None:
    stream = await client.responses.create(
        model=MODEL, input="one two three", max_output_tokens=2, stream=True
    )
    last = [event async for event in stream][-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == "one two"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


async def test_a_response_stream_can_break(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.stream_error(after_chunks=1))
    stream = await client.responses.create(model=MODEL, input="how are you", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events][-3:] == [
        "response.output_text.delta",
        "error",
        "response.failed",
    ]


async def test_embeddings_are_the_same_as_floats_and_as_base64(client: AsyncOpenAI) -> None:
    model = "text-embedding-3-small"
    # The SDK asks for base64 unless told otherwise, and decodes it.
    packed = await client.embeddings.create(model=model, input=["one", "two words"])
    plain = await client.embeddings.create(
        model=model, input=["one", "two words"], encoding_format="float"
    )
    assert packed.data[1].embedding == pytest.approx(plain.data[1].embedding, abs=1e-6)
    assert packed.data[0].embedding != packed.data[1].embedding
    assert plain.usage.prompt_tokens == 3


async def test_models(server: OpenAIServer, client: AsyncOpenAI) -> None:
    page = await client.models.list()
    assert [model.id for model in page.data] == list(server.models)


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (Fault.rate_limit(retry_after=2.5), openai.RateLimitError, "rate_limit_exceeded"),
        (Fault.no_credit(), openai.RateLimitError, "insufficient_quota"),
        (Fault.auth(), openai.AuthenticationError, "invalid_api_key"),
        (Fault.context_length(), openai.BadRequestError, "context_length_exceeded"),
        (Fault.model_not_found(), openai.NotFoundError, "model_not_found"),
        (Fault.overload(), openai.InternalServerError, None),
        (Fault.server_error(), openai.InternalServerError, None),
        (Fault.html(), openai.InternalServerError, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_error_answers(
    server: OpenAIServer,
    client: AsyncOpenAI,
    fault: Fault,
    error: type[openai.APIStatusError],
    code: str | None,
    stream: bool,
) -> None:
    server.queue(fault)
    with pytest.raises(error) as raised:
        await client.chat.completions.create(model=MODEL, messages=HELLO, stream=stream)
    assert raised.value.code == code
    expected = f"{fault.retry_after:g}" if fault.retry_after else None
    assert raised.value.response.headers.get("retry-after") == expected


@pytest.mark.parametrize(
    "fault",
    [Fault.cut(), Fault.cut(after_chunks=1), Fault.cut(after_chunks=1, reset=True), Fault.refuse()],
)
async def test_whole_answers_that_are_cut(
    server: OpenAIServer, client: AsyncOpenAI, fault: Fault
) -> None:
    server.queue(fault)
    with pytest.raises(openai.APIConnectionError):
        await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert not server.requests[0].cancelled


@pytest.mark.parametrize(
    ("fault", "events", "text"),
    [
        (Fault.cut(), 0, ""),
        (Fault.cut(after_events=1), 1, ""),
        (Fault.cut(after_chunks=1), 2, "hello "),
        (Fault.cut(after_chunks=2), 3, "hello there "),
        (Fault.cut(after_chunks=99), 4, "hello there world"),
    ],
)
async def test_streams_that_are_cut(
    server: OpenAIServer, client: AsyncOpenAI, fault: Fault, events: int, text: str
) -> None:
    server.queue(fault)
    assert await read_until_cut(client) == (events, text)


async def test_an_error_in_the_stream(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.stream_error(after_chunks=1))
    with pytest.raises(openai.APIError, match="had an error") as raised:
        await chunks(client)
    assert not isinstance(raised.value, openai.APIConnectionError)


async def test_malformed_answers(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.malformed(after_chunks=1), Fault.malformed())
    with pytest.raises(ValueError, match=BROKEN):
        await chunks(client)
    with pytest.raises(ValueError, match=BROKEN):
        await client.chat.completions.create(model=MODEL, messages=HELLO)


async def test_slow_answers_time_out(server: OpenAIServer, client: AsyncOpenAI) -> None:
    server.queue(Fault.slow(first_byte=30))
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(model=MODEL, messages=HELLO, timeout=0.2)
    gone = await server.wait_cancelled()
    assert gone is server.requests[0]


async def test_bad_requests(server: OpenAIServer, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="`gpt-none` does not exist"):
        await client.chat.completions.create(model="gpt-none", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="'messages'"):
        await client.chat.completions.create(model=MODEL, messages=[])
    with pytest.raises(openai.NotFoundError, match="Invalid URL"):
        await client.files.list()
    wrong = client.with_options(api_key="sk-wrong-key-of-some-length")
    with pytest.raises(openai.AuthenticationError, match=r"sk-wrong\*+ngth"):
        await wrong.chat.completions.create(model=MODEL, messages=HELLO)
    assert [request.status for request in server.requests] == [404, 400, 404, 401]
