"""The official SDKs understand what AgentOS writes."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx2
import openai
import pytest

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Finish,
    Finished,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    ToolUse,
    Usage,
)
from agentos.integrations.models.wires.anthropic_count_tokens import COUNT_TOKENS
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Glance, Translating
from agentos.integrations.models.wires.openai_chat import CHAT

GLANCE = Glance("m", stream=True, max_output=100)
USAGE = Usage(input=100, output=20, cache_read=60, cache_write=30, cache_write_long=10, reasoning=5)
ANSWER = Answer(
    id="answer-1",
    model="demo",
    parts=[
        Thinking("hm", "c2ln"),
        Text("Grüße 😀"),
        ToolUse("call_1", "look", '{"a": 1}'),
        ToolUse("call_2", "hear", "{}"),
    ],
    finish=Finish.TOOL_USE,
    usage=USAGE,
)
EVENTS: list[StreamEvent] = [
    Started("answer-1", "demo", Usage(input=100, cache_read=60, cache_write=30)),
    ThinkingDelta(0, "h"),
    ThinkingDelta(0, "m"),
    ThinkingDelta(0, "", "c2ln"),
    TextDelta(1, "Grü"),
    TextDelta(1, "ße 😀"),
    ToolStarted(2, "call_1", "look"),
    ToolDelta(2, '{"a"'),
    ToolDelta(2, ": 1}"),
    ToolStarted(3, "call_2", "hear"),
    ToolDelta(3, "{}"),
    Finished(Finish.TOOL_USE, USAGE),
]


class Server:
    """Answers every request alike."""

    def __init__(self) -> None:
        self.status = 200
        self.content = b""
        self.media_type = "application/json"
        self.transport = httpx2.MockTransport(self._answer)

    def streams(self, wire: Translating, *events: StreamEvent) -> None:
        writer = wire.writer(GLANCE)
        self.content = b"".join(writer.write(event) for event in events)
        self.media_type = "text/event-stream"

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": self.media_type}
        return httpx2.Response(self.status, headers=headers, content=self.content)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def chat(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key="sk_test",
        base_url="http://agentos.test/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=server.transport),
    ) as client:
        yield client


@pytest.fixture
def claude(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        api_key="sk_test",
        base_url="http://agentos.test",
        max_retries=0,
        http_client=httpx2.Client(transport=server.transport),
    ) as client:
        yield client


# openai


def ask(client: openai.OpenAI) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Hello"}]
    )


def test_openai_reads_an_answer(server: Server, chat: openai.OpenAI) -> None:
    server.content = CHAT.write_answer(ANSWER)
    completion = ask(chat)
    choice = completion.choices[0]
    assert (completion.id, completion.model, choice.finish_reason) == (
        "answer-1",
        "demo",
        "tool_calls",
    )
    assert choice.message.content == "Grüße 😀"
    assert [
        (call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or []
        if call.type == "function"
    ] == [("call_1", "look", '{"a": 1}'), ("call_2", "hear", "{}")]
    usage = completion.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 20, 120)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 60
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 5


def test_openai_reads_a_stream_with_its_helper(server: Server, chat: openai.OpenAI) -> None:
    server.streams(CHAT, *EVENTS)
    with chat.chat.completions.stream(
        model="demo", messages=[{"role": "user", "content": "Hello"}]
    ) as stream:
        kinds = [event.type for event in stream]
        completion = stream.get_final_completion()
    assert "content.delta" in kinds
    assert "content.done" in kinds
    assert kinds.count("tool_calls.function.arguments.done") == 2
    message = completion.choices[0].message
    assert message.content == "Grüße 😀"
    assert [call.function.arguments for call in message.tool_calls or []] == ['{"a": 1}', "{}"]
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 120


def test_openai_reads_an_error_inside_a_stream(server: Server, chat: openai.OpenAI) -> None:
    server.streams(CHAT, *EVENTS[:5], Broken("overload", "Busy."))
    stream = chat.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    with pytest.raises(openai.APIError) as raised:
        list(stream)
    assert raised.value.message == "Busy."
    assert raised.value.type == "server_error"


@pytest.mark.parametrize(
    ("status", "error_class", "expected"),
    [
        (400, "invalid", openai.BadRequestError),
        (400, "context_length", openai.BadRequestError),
        (401, "auth", openai.AuthenticationError),
        (403, "auth", openai.PermissionDeniedError),
        (404, "not_found", openai.NotFoundError),
        (429, "rate_limit", openai.RateLimitError),
        (503, "overload", openai.InternalServerError),
        (504, "timeout", openai.InternalServerError),
    ],
)
def test_openai_reads_errors(
    server: Server,
    chat: openai.OpenAI,
    status: int,
    error_class: str,
    expected: type[openai.APIStatusError],
) -> None:
    server.status = status
    server.content = CHAT.error(status, error_class, "our_code", "What to do.")
    with pytest.raises(openai.APIStatusError) as raised:
        ask(chat)
    assert type(raised.value) is expected
    assert raised.value.code == "our_code"
    assert "What to do." in raised.value.message
    assert raised.value.type


# anthropic


def say(client: anthropic.Anthropic) -> anthropic.types.Message:
    return client.messages.create(
        model="demo", max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
    )


def check(message: anthropic.types.Message) -> None:
    assert (message.id, message.model, message.stop_reason) == ("answer-1", "demo", "tool_use")
    thinking, text, look, hear = message.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("hm", "c2ln")
    assert text.type == "text"
    assert text.text == "Grüße 😀"
    assert look.type == "tool_use"
    assert (look.id, look.name, look.input) == ("call_1", "look", {"a": 1})
    assert hear.type == "tool_use"
    assert (hear.id, hear.name, hear.input) == ("call_2", "hear", {})
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 20)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (60, 30)
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == 5


def test_anthropic_reads_an_answer(server: Server, claude: anthropic.Anthropic) -> None:
    server.content = MESSAGES.write_answer(ANSWER)
    message = say(claude)
    check(message)
    assert message.usage.cache_creation is not None
    assert message.usage.cache_creation.ephemeral_1h_input_tokens == 10


def test_anthropic_reads_a_stream_with_its_helper(
    server: Server, claude: anthropic.Anthropic
) -> None:
    server.streams(MESSAGES, *EVENTS)
    with claude.messages.stream(
        model="demo", max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
    ) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    check(message)
    assert kinds.count("content_block_stop") == 4
    assert kinds.count("text") == 2
    assert kinds.count("input_json") == 3
    assert kinds[-1] == "message_stop"


def test_anthropic_reads_an_error_inside_a_stream(
    server: Server, claude: anthropic.Anthropic
) -> None:
    server.streams(MESSAGES, *EVENTS[:5], Broken("overload", "Busy."))
    stream = claude.messages.create(
        model="demo", max_tokens=100, messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    with pytest.raises(anthropic.APIStatusError) as raised:
        list(stream)
    assert raised.value.type == "overloaded_error"
    assert raised.value.api_message == "Busy."


def test_anthropic_reads_a_count(server: Server, claude: anthropic.Anthropic) -> None:
    server.content = COUNT_TOKENS.answer(2095)
    counted = claude.messages.count_tokens(
        model="demo", messages=[{"role": "user", "content": "Hello"}]
    )
    assert counted.input_tokens == 2095


@pytest.mark.parametrize(
    ("status", "error_class", "expected"),
    [
        (400, "invalid", "BadRequestError"),
        (400, "context_length", "BadRequestError"),
        (401, "auth", "AuthenticationError"),
        (403, "auth", "PermissionDeniedError"),
        (404, "not_found", "NotFoundError"),
        (413, "invalid", "ContentTooLargeError"),
        (429, "rate_limit", "RateLimitError"),
        (529, "overload", "OverloadedError"),
        (504, "timeout", "GatewayTimeoutError"),
        (500, "internal", "InternalServerError"),
    ],
)
def test_anthropic_reads_errors(
    server: Server, claude: anthropic.Anthropic, status: int, error_class: str, expected: str
) -> None:
    server.status = status
    server.content = MESSAGES.error(status, error_class, "our_code", "What to do.")
    with pytest.raises(anthropic.APIStatusError) as raised:
        say(claude)
    assert type(raised.value).__name__ == expected
    assert raised.value.error_code == "our_code"
    assert "What to do." in str(raised.value.api_message)
    assert raised.value.type
