"""What models answer native agents, whole and bit by bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from tests.integrations.models.test_native_requests import (
    CLAUDE,
    GPT,
    HELLO,
    Router,
    model_of,
    tools,
)

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
from agentos.integrations.models.failures import ErrorClass, ModelCallFailed
from agentos.integrations.models.native import AnswerBrokeOff, RouterModel
from agentos.integrations.models.wires.base import Glance
from agentos.integrations.models.wires.registry import TRANSLATING

MODELS = {"openai": GPT, "anthropic": CLAUDE}
SETTINGS = ModelSettings(max_tokens=1000)
PARAMS = ModelRequestParameters(function_tools=tools("look", "hear"))
EITHER = pytest.mark.parametrize("kind", ["openai", "anthropic"])

USAGE = Usage(input=100, output=20, cache_read=60, cache_write=30, cache_write_long=10, reasoning=5)
ANSWER = Answer(
    id="answer-1",
    model="theirs",
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
    Started("answer-1", "theirs", Usage(input=100, cache_read=60, cache_write=30)),
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


def talk(kind: str) -> tuple[RouterModel, Router]:
    return model_of(kind, MODELS[kind])


def streamed(kind: str, *events: StreamEvent) -> bytes:
    wire = TRANSLATING[model_of(kind, MODELS[kind])[0]._dialect.wire.name]
    writer = wire.writer(Glance("m", stream=True, max_output=100))
    return b"".join(writer.write(event) for event in events)


def cut(data: bytes, *places: int) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


async def asked(model: RouterModel) -> ModelResponse:
    return await model.request(HELLO, SETTINGS, PARAMS)


async def heard(model: RouterModel) -> tuple[ModelResponse, list[Any]]:
    async with model.request_stream(HELLO, SETTINGS, PARAMS) as stream:
        events = [event async for event in stream]
        return stream.get(), events


def told(parts: Any) -> list[Any]:
    """The parts, as far as the model made them."""
    found: list[Any] = []
    for part in parts:
        match part:
            case TextPart():
                found.append(part.content)
            case ThinkingPart():
                found.append((part.content, part.signature, part.provider_name))
            case ToolCallPart():
                found.append((part.tool_call_id, part.tool_name, part.args_as_dict()))
    return found


def check(response: ModelResponse, kind: str) -> None:
    signature = {"openai": None, "anthropic": "c2ln"}[kind]
    assert told(response.parts) == [
        ("hm", signature, kind),
        "Grüße 😀",
        ("call_1", "look", {"a": 1}),
        ("call_2", "hear", {}),
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (60, 30)
    if kind == "anthropic":
        assert usage.cache_write_1h_tokens == 10
    assert response.finish_reason == "tool_call"
    assert (response.model_name, response.provider_response_id) == ("theirs", "answer-1")
    assert response.provider_name == kind
    assert response.provider_details is not None
    assert response.provider_details["target"] == f"{kind}/{MODELS[kind]}"
    assert response.state == "complete"


@EITHER
async def test_a_whole_answer(kind: str) -> None:
    model, router = talk(kind)
    router.answer = ANSWER
    check(await asked(model), kind)


@EITHER
async def test_a_stream(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS)]
    response, events = await heard(model)
    check(response, kind)
    begun = [event.part.part_kind for event in events if isinstance(event, PartStartEvent)]
    assert begun == ["thinking", "text", "tool-call", "tool-call"]
    assert sum(isinstance(event, PartDeltaEvent) for event in events) >= 4, "bit by bit"
    assert router.closed == 1


@given(kind=st.sampled_from(["openai", "anthropic"]), places=st.lists(st.integers(0, 10_000)))
def test_a_stream_may_be_cut_anywhere(kind: str, places: list[int]) -> None:
    model, router = talk(kind)
    router.chunks = cut(streamed(kind, *EVENTS), *places)
    listening = heard(model)
    with pytest.raises(StopIteration) as ended:
        listening.send(None)  # it waits for nothing
    check(ended.value.value[0], kind)


async def test_some_streams_end_without_a_blank_line() -> None:
    model, router = talk("openai")
    router.chunks = [streamed("openai", *EVENTS).rstrip()]
    check((await heard(model))[0], "openai")


@EITHER
async def test_what_was_thought_survives_the_way_there_and_back(kind: str) -> None:
    model, router = talk(kind)
    router.answer = msgspec.structs.replace(ANSWER, parts=ANSWER.parts[:2])
    response = await asked(model)
    await model.request([*HELLO, response, *HELLO], SETTINGS, PARAMS)
    turn = msgspec.json.decode(router.requests[1].body)["messages"][1]
    if kind == "anthropic":
        assert turn["content"] == [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "Grüße 😀"},
        ]
    else:
        assert (turn["reasoning_content"], turn["content"]) == ("hm", "Grüße 😀")


async def test_an_answer_that_says_little() -> None:
    model, router = talk("openai")
    message = {
        "role": "assistant",
        "content": "<think>hm</think>Yes",
        "tool_calls": [{"function": {"name": "look"}}],
    }
    router.raw = msgspec.json.encode({"choices": [{"message": message}]})
    response = await asked(model)
    thought, text, call = response.parts
    assert isinstance(thought, ThinkingPart)
    assert (thought.content, thought.id) == ("hm", "content")
    assert isinstance(text, TextPart)
    assert text.content == "Yes"
    assert isinstance(call, ToolCallPart)
    assert call.tool_call_id, "it is given one"
    assert call.args_as_dict() == {}
    assert (response.model_name, response.provider_response_id) == (GPT, None)
    assert response.usage.unmeasured_requests == 1


async def test_thoughts_are_known_by_their_field() -> None:
    model, router = talk("openai")
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"reasoning": "hm"}}]}
    router.chunks = cut(b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]", 60)
    assert (await heard(model))[0].parts == [
        ThinkingPart("hm", id="reasoning", provider_name="openai")
    ]
    router.chunks = None
    choice = {"message": {"content": "Yes", "reasoning": "hm"}, "finish_reason": "stop"}
    router.raw = msgspec.json.encode({"choices": [choice]})
    thought = (await asked(model)).parts[0]
    assert isinstance(thought, ThinkingPart)
    assert (thought.content, thought.id) == ("hm", "reasoning")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal(stream: bool) -> None:
    model, router = talk("openai")
    said = {"content": None, "refusal": "I must not."}
    if stream:
        chunk = {"id": "1", "choices": [{"index": 0, "delta": said}]}
        end = {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        frames = [b"data: " + msgspec.json.encode(each) + b"\n\n" for each in (chunk, end)]
        router.chunks = [*frames, b"data: [DONE]\n\n"]
        response = (await heard(model))[0]
    else:
        choice = {"message": said, "finish_reason": "stop"}
        router.raw = msgspec.json.encode({"choices": [choice]})
        response = await asked(model)
        assert response.parts == []
    assert response.finish_reason == "content_filter"
    assert (response.provider_details or {})["refusal"] == "I must not."


@pytest.mark.parametrize(
    ("finish", "expected"),
    [(Finish.STOP, "stop"), (Finish.LENGTH, "length"), (Finish.FILTERED, "content_filter")],
)
@EITHER
async def test_why_it_ended(kind: str, finish: Finish, expected: str) -> None:
    model, router = talk(kind)
    router.answer = msgspec.structs.replace(ANSWER, parts=[Text("x")], finish=finish)
    assert (await asked(model)).finish_reason == expected


# Thoughts that only Claude can read

_HIDDEN = {"type": "redacted_thinking", "data": "ZW5j"}


def _hidden(parts: Any) -> list[ModelResponsePart]:
    return [part for part in parts if isinstance(part, ThinkingPart) and part.signature == "ZW5j"]


async def test_a_hidden_thought() -> None:
    model, router = talk("anthropic")
    text = {"type": "text", "text": "x"}
    message = {"id": "1", "model": "m", "content": [text, _HIDDEN, text], "stop_reason": "end_turn"}
    router.raw = msgspec.json.encode(message)
    parts = (await asked(model)).parts
    assert parts[1] == ThinkingPart(
        "", id="redacted_thinking", signature="ZW5j", provider_name="anthropic"
    )
    assert _hidden(parts) == [parts[1]]


@pytest.mark.parametrize("places", [(), (400,), (30, 31, 350)])
async def test_a_hidden_thought_in_a_stream(places: tuple[int, ...]) -> None:
    model, router = talk("anthropic")
    start = streamed("anthropic", EVENTS[0])
    block = {"type": "content_block_start", "index": 0, "content_block": _HIDDEN}
    hidden = b"event: content_block_start\ndata: " + msgspec.json.encode(block) + b"\n\n"
    said = streamed("anthropic", TextDelta(0, "Yes"), Finished(Finish.STOP, USAGE))
    said = said.replace(b'"index":0', b'"index":1')
    router.chunks = cut(start + hidden + said, *places)
    response = (await heard(model))[0]
    assert _hidden(response.parts) == [response.parts[0]]
    assert told(response.parts)[1:] == ["Yes"]


# What goes wrong


@EITHER
async def test_nonsense(kind: str) -> None:
    model, router = talk(kind)
    router.raw = b'{"choices": 3, "content": 4}'
    with pytest.raises(ModelCallFailed) as failed:
        await asked(model)
    assert failed.value.error_class is ErrorClass.OVERLOAD
    assert f"{kind}/{MODELS[kind]}" in failed.value.message
    assert router.closed == 1


@EITHER
async def test_nonsense_in_a_stream(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS[:3]), b'data: {"choices": 3, "delta": 4}\n\n']
    with pytest.raises(AnswerBrokeOff):
        await heard(model)
    assert router.closed == 1


@EITHER
async def test_a_stream_that_ends_before_its_end(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS[:-1])]
    with pytest.raises(AnswerBrokeOff):
        await heard(model)


@EITHER
async def test_a_stream_that_reports_an_error(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS[:3], Broken("overload", "too many of you"))]
    with pytest.raises(AnswerBrokeOff, match="too many of you"):
        await heard(model)


@EITHER
async def test_stopping_a_stream_closes_the_call_at_once(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS[:5]), streamed(kind, *EVENTS)]
    async with model.request_stream(HELLO, SETTINGS, PARAMS) as stream:
        async for _ in stream:
            await stream.cancel()
            assert router.closed == 1, "before the block is left"
        assert stream.get().state == "interrupted"


@EITHER
async def test_an_agents_own_error_is_not_the_providers(kind: str) -> None:
    model, router = talk(kind)
    router.chunks = [streamed(kind, *EVENTS)]

    async def act() -> None:
        async with model.request_stream(HELLO, SETTINGS, PARAMS):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await act()
    assert router.closed == 1
