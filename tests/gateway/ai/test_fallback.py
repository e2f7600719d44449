"""Every error class, streamed or not, through every face: the documented result, nothing twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.ai.conftest import CLAUDE, GEMINI, GPT, Lab, Labs
from tests.gateway.ai.faces import CHAT, FACES, MESSAGES, Face

from agentos.testing import Fault, Reply
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors import AnthropicServer, GoogleServer, OpenAIServer

TEXT = "one two three four five six seven eight"
# Slowly, so that the beginning is delivered before anything fails.
LONG = Reply(text=TEXT, chunks=8, delay=0.05)
FAULTS: dict[str, list[Fault]] = {
    "overload": [
        Fault.overload(),
        Fault.server_error(),
        Fault.html(),
        Fault.refuse(),
        Fault.cut(),
        Fault.malformed(),
    ],
    "rate_limit": [Fault.rate_limit(retry_after=60)],
    "auth": [Fault.auth(), Fault.no_credit()],
    "timeout": [Fault.stall()],
    "context_length": [Fault.context_length()],
}
# What the caller gets if the chain does not fall back on the class, by face.
STATUS = {
    "overload": {"chat": 503, "responses": 503, "messages": 529},
    "rate_limit": dict.fromkeys(("chat", "responses", "messages"), 429),
    "auth": dict.fromkeys(("chat", "responses", "messages"), 403),
    "timeout": dict.fromkeys(("chat", "responses", "messages"), 504),
    "context_length": dict.fromkeys(("chat", "responses", "messages"), 400),
}
CASES = [
    pytest.param(name, fault, id=f"{name}-{fault.kind}")
    for name, faults in FAULTS.items()
    for fault in faults
]
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


async def chained(lab: Lab, first: AnthropicServer, second: OpenAIServer, *on: str) -> None:
    await lab.connect("anthropic", first)
    await lab.connect("openai", second)
    await lab.chain(f"anthropic/{CLAUDE}", f"openai/{GPT}", on=on)


@STREAMED
@pytest.mark.parametrize(("error_class", "fault"), CASES)
async def test_the_chain_takes_over(
    labs: Labs,
    anthropic_server: AnthropicServer,
    openai_server: OpenAIServer,
    error_class: str,
    fault: Fault,
    stream: bool,
) -> None:
    openai_server.reply(Reply(text=TEXT))
    for face in FACES:
        lab = await labs.tenant()
        await chained(lab, anthropic_server, openai_server, error_class)
        # Refused connections are tried twice: most are kept ones that were just being closed.
        anthropic_server.queue(*[fault] * (2 if fault.kind == FaultKind.REFUSE else 1))
        answer = await face.call(lab.models, CLAUDE, stream=stream)
        assert answer.status_code == 200, (face.name, answer.text)
        assert face.read(answer, stream=stream) == TEXT, face.name
        assert answer.headers["x-agentos-provider"] == "openai"
        assert answer.headers["x-agentos-model"] == GPT
        assert answer.headers["x-agentos-attempts"] == "2"
        failed, answered = await lab.calls()
        assert (failed["outcome"], failed["error_class"]) == ("failed", error_class)
        assert (answered["outcome"], answered["provider"]) == ("answered", "openai")


@STREAMED
@pytest.mark.parametrize(("error_class", "fault"), CASES)
async def test_a_class_that_is_not_in_the_chain_is_an_error(
    labs: Labs,
    anthropic_server: AnthropicServer,
    openai_server: OpenAIServer,
    error_class: str,
    fault: Fault,
    stream: bool,
) -> None:
    others = [name for name in FAULTS if name != error_class]
    for face in FACES:
        lab = await labs.tenant()
        await chained(lab, anthropic_server, openai_server, *others)
        # Refused connections are tried twice: most are kept ones that were just being closed.
        anthropic_server.queue(*[fault] * (2 if fault.kind == FaultKind.REFUSE else 1))
        answer = await face.call(lab.models, CLAUDE, stream=stream)
        assert answer.status_code == STATUS[error_class][face.name], (face.name, answer.text)
        assert f"anthropic/{CLAUDE}" in answer.json()["error"]["message"]
    assert openai_server.requests == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault.cut(after_chunks=3, reply=LONG),
        Fault.stall(after_chunks=3, reply=LONG),
        Fault.malformed(after_chunks=3, reply=LONG),
        Fault.stream_error(after_chunks=3, reply=LONG),
    ],
    ids=lambda fault: fault.kind,
)
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
async def test_a_stream_that_has_delivered_is_never_started_again(
    lab: Lab,
    anthropic_server: AnthropicServer,
    openai_server: OpenAIServer,
    face: Face,
    fault: Fault,
) -> None:
    await chained(lab, anthropic_server, openai_server, *FAULTS)
    anthropic_server.queue(fault)
    answer = await face.call(lab.models, CLAUDE, stream=True)
    assert answer.status_code == 200
    if face is MESSAGES and fault.kind == FaultKind.MALFORMED:
        # Passed through as it came: the caller's SDK sees what the provider sent.
        assert openai_server.requests == []
        return
    said = face.read(answer, stream=True)
    assert said
    assert TEXT.startswith(said)
    assert face.error(answer) is not None, answer.text
    assert openai_server.requests == []
    (call,) = await lab.calls()
    assert call["outcome"] == "failed"
    assert call["output_tokens"] > 0


async def test_an_error_in_the_opening_of_a_stream_falls_back(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    # A stream of status 200 whose second event is the error: nothing was said yet.
    await chained(lab, anthropic_server, openai_server, "overload")
    anthropic_server.queue(Fault.stream_error(after_events=1))
    openai_server.reply(Reply(text=TEXT))
    for face in (CHAT, MESSAGES):
        anthropic_server.queue(Fault.stream_error(after_events=1))
        answer = await face.call(lab.models, CLAUDE, stream=True)
        assert face.read(answer, stream=True) == TEXT
        assert face.error(answer) is None


async def test_an_invalid_request_is_not_tried_elsewhere(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await chained(lab, anthropic_server, openai_server, *FAULTS)
    anthropic_server.queue(Fault.model_not_found())
    answer = await CHAT.call(lab.models, CLAUDE, stream=False)
    assert answer.status_code == 404
    assert openai_server.requests == []


async def test_the_chain_goes_on_after_the_model_that_was_asked_for(
    lab: Lab,
    anthropic_server: AnthropicServer,
    openai_server: OpenAIServer,
    google_server: GoogleServer,
) -> None:
    for kind, server in (
        ("anthropic", anthropic_server),
        ("openai", openai_server),
        ("google", google_server),
    ):
        await lab.connect(kind, server)
    await lab.chain(f"anthropic/{CLAUDE}", f"openai/{GPT}", f"google/{GEMINI}", on=("overload",))
    google_server.reply(Reply(text=TEXT))
    openai_server.queue(Fault.overload(), Fault.overload())
    for stream in (False, True):
        answer = await MESSAGES.call(lab.models, GPT, stream=stream)
        assert MESSAGES.read(answer, stream=stream) == TEXT
        assert answer.headers["x-agentos-provider"] == "google"
    assert anthropic_server.requests == []


async def test_auto_is_the_first_of_the_chain(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    answer = await CHAT.call(lab.models, "auto", stream=False)
    assert answer.headers["x-agentos-provider"] == "demo"
    await chained(lab, anthropic_server, openai_server, "overload")
    answer = await CHAT.call(lab.models, "auto", stream=False)
    assert answer.headers["x-agentos-provider"] == "anthropic"


async def test_a_rate_limit_is_waited_for_when_there_is_nowhere_else(
    lab: Lab, openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server)
    openai_server.reply(Reply(text=TEXT))
    openai_server.queue(Fault.rate_limit(retry_after=1))
    answers = await asyncio.gather(*(CHAT.call(lab.models, GPT, stream=False) for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5


async def test_a_key_in_cool_down_is_not_called(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await chained(lab, anthropic_server, openai_server, "rate_limit")
    anthropic_server.queue(Fault.rate_limit(retry_after=60))
    for _ in range(3):
        answer = await CHAT.call(lab.models, CLAUDE, stream=False)
        assert answer.headers["x-agentos-provider"] == "openai"
    assert len(anthropic_server.requests) == 1


async def test_the_breaker_opens_after_failures_in_a_row(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await chained(lab, anthropic_server, openai_server, "overload")
    anthropic_server.queue(*[Fault.overload()] * 8)
    for _ in range(8):
        answer = await CHAT.call(lab.models, CLAUDE, stream=False)
        assert answer.headers["x-agentos-provider"] == "openai"
    assert len(anthropic_server.requests) == 5
