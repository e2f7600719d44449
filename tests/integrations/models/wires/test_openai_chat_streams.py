from __future__ import annotations

import json
from typing import Any

import pytest

from agentos.integrations.models.conversation import (
    Broken,
    Finish,
    Finished,
    Started,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    Usage,
)
from agentos.integrations.models.wires.base import Glance, MalformedAnswer
from agentos.integrations.models.wires.openai_chat import CHAT

ASKED = Glance("m", stream=True, max_output=None, wants_usage=True)
NOT_ASKED = Glance("m", stream=True, max_output=None, wants_usage=False)


def chunk(delta: Any = None, finish: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-4o"}
    return (
        b"data: "
        + json.dumps({**head, "choices": choices, **fields}, ensure_ascii=False).encode()
        + b"\n\n"
    )


OPENING = chunk({"role": "assistant", "content": "", "refusal": None}, usage=None)
TEXT = chunk({"content": 'Grüße 😀 "usage":{"prompt_tokens":9}'}, usage=None)
LAST = chunk({}, "stop", usage=None)
TOLD = chunk(usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})
DONE = b"data: [DONE]\n\n"
STREAM = OPENING + TEXT + LAST + TOLD + DONE
USAGE = Usage(input=5, output=7)


# Passing through


def test_every_byte_goes_on_at_once_for_those_who_asked() -> None:
    for cut in range(len(STREAM)):
        meter = CHAT.meter(ASKED)
        assert meter.pass_on(STREAM[:cut]) == STREAM[:cut]
        assert meter.pass_on(STREAM[cut:]) == STREAM[cut:]
        assert (meter.usage, meter.ended) == (USAGE, True)


def test_usage_is_kept_from_those_who_did_not_ask() -> None:
    for cut in range(len(STREAM)):
        meter = CHAT.meter(NOT_ASKED)
        passed = meter.pass_on(STREAM[:cut]) + meter.pass_on(STREAM[cut:])
        assert passed == OPENING + TEXT + LAST + DONE
        assert (meter.usage, meter.ended) == (USAGE, True)


def test_at_most_the_event_that_is_not_complete_is_held_back() -> None:
    for cut in range(len(STREAM)):
        meter = CHAT.meter(NOT_ASKED)
        complete = STREAM[:cut].rfind(b"\n\n") + 2 if b"\n\n" in STREAM[:cut] else 0
        assert len(meter.pass_on(STREAM[:cut])) >= len(STREAM[:complete].replace(TOLD, b""))


def test_one_byte_at_a_time() -> None:
    for glance, expected in ((ASKED, STREAM), (NOT_ASKED, STREAM.replace(TOLD, b""))):
        meter = CHAT.meter(glance)
        assert b"".join(meter.pass_on(bytes([byte])) for byte in STREAM) == expected
        assert (meter.usage, meter.ended) == (USAGE, True)


@pytest.mark.parametrize("glance", [ASKED, NOT_ASKED])
def test_streams_with_carriage_returns(glance: Glance) -> None:
    stream = (OPENING + TEXT + TOLD + DONE).replace(b"\n", b"\r\n")
    meter = CHAT.meter(glance)
    passed = b"".join(meter.pass_on(stream[at : at + 7]) for at in range(0, len(stream), 7))
    hidden = b"" if glance is NOT_ASKED else TOLD.replace(b"\n", b"\r\n")
    assert passed == (OPENING + TEXT).replace(b"\n", b"\r\n") + hidden + b"data: [DONE]\r\n\r\n"
    assert (meter.usage, meter.ended) == (USAGE, True)


def test_usage_that_comes_with_a_choice_is_not_hidden() -> None:
    last = chunk({"content": ""}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 7})
    meter = CHAT.meter(NOT_ASKED)
    assert meter.pass_on(OPENING + last + DONE) == OPENING + last + DONE
    assert meter.usage == USAGE


def test_groqs_usage() -> None:
    last = chunk(
        {}, "stop", x_groq={"id": "r", "usage": {"prompt_tokens": 5, "completion_tokens": 7}}
    )
    meter = CHAT.meter(ASKED)
    meter.pass_on(OPENING + TEXT + last)
    assert meter.usage == USAGE


@pytest.mark.parametrize("glance", [ASKED, NOT_ASKED])
def test_an_end_without_a_blank_line_is_an_end(glance: Glance) -> None:
    meter = CHAT.meter(glance)
    passed = meter.pass_on(OPENING + TEXT) + meter.pass_on(b"data: [DO") + meter.pass_on(b"NE]\n")
    assert passed == OPENING + TEXT + b"data: [DONE]\n"
    assert meter.ended


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    "told",
    [
        TOLD,
        TOLD + TOLD,
        b": a comment\n" + TOLD,
        TOLD.replace(b'"usage": {', b'"usage"  :  {'),
        b"event: chunk\n" + TOLD.replace(b"data: ", b"data:"),
    ],
)
def test_only_what_tells_usage_is_taken_out_of_many_events_at_once(told: bytes, end: bytes) -> None:
    before, after = OPENING + TEXT * 3, b": still here\n\n" + LAST + DONE
    for stream in (before + told + after, told + before + after, before + after + told):
        sent = stream.replace(b"\n", end)
        asked, not_asked = CHAT.meter(ASKED), CHAT.meter(NOT_ASKED)
        assert asked.pass_on(sent) == sent
        assert not_asked.pass_on(sent) == (before + after).replace(b"\n", end)
        assert (asked.usage, asked.ended) == (not_asked.usage, not_asked.ended) == (USAGE, True)


@pytest.mark.parametrize("glance", [ASKED, NOT_ASKED])
def test_an_end_that_is_only_talked_about_is_none(glance: Glance) -> None:
    talk = OPENING + chunk({"content": "data: [DONE]"}) + b": [DONE]\n\n"
    meter = CHAT.meter(glance)
    assert meter.pass_on(talk) == talk
    assert not meter.ended
    assert meter.pass_on(DONE + talk) == DONE + talk
    assert meter.ended


def test_estimates() -> None:
    meter = CHAT.meter(ASKED)
    assert meter.estimate() == 0
    meter.pass_on(OPENING)
    assert meter.estimate() == 0
    meter.pass_on(chunk({"content": "x" * 399}))
    assert meter.estimate() == 100
    few = CHAT.meter(ASKED)
    for _ in range(10):
        few.pass_on(chunk({"content": "x"}))
    assert few.estimate() == 10


def test_estimates_of_long_streams_go_by_their_beginning() -> None:
    meter = CHAT.meter(ASKED)
    piece = chunk({"content": "x" * 40})
    for _ in range(5000):
        meter.pass_on(piece)
    assert 49_000 <= meter.estimate() <= 51_000


# Reading


def read(stream: bytes) -> list[StreamEvent]:
    return CHAT.reader().feed(stream)


EVENTS: list[StreamEvent] = [
    Started("chatcmpl-1", "gpt-4o"),
    TextDelta(0, 'Grüße 😀 "usage":{"prompt_tokens":9}'),
    Finished(Finish.STOP, USAGE),
]


def test_reading_gives_the_same_events_wherever_the_stream_is_cut() -> None:
    for cut in range(len(STREAM)):
        reader = CHAT.reader()
        events = reader.feed(STREAM[:cut])
        assert not reader.ended
        assert events + reader.feed(STREAM[cut:]) == EVENTS
        assert reader.ended


def test_reading_thinking_text_and_tools() -> None:
    stream = (
        OPENING
        + chunk({"reasoning_content": "h"})
        + chunk({"reasoning": "m"})
        + chunk({"content": "I "})
        + chunk({"content": "will"})
        + chunk(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "f", "arguments": ""},
                    }
                ]
            }
        )
        + chunk(
            {
                "tool_calls": [
                    {
                        "index": 1,
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "g", "arguments": ""},
                    }
                ]
            }
        )
        + chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]})
        + chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]})
        + chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})
        + chunk({}, "tool_calls")
        + DONE
    )
    assert read(stream) == [
        Started("chatcmpl-1", "gpt-4o"),
        ThinkingDelta(0, "h"),
        ThinkingDelta(0, "m"),
        TextDelta(1, "I "),
        TextDelta(1, "will"),
        ToolStarted(2, "call_1", "f"),
        ToolStarted(3, "call_2", "g"),
        ToolDelta(2, '{"a":'),
        ToolDelta(3, "{}"),
        ToolDelta(2, "1}"),
        Finished(Finish.TOOL_USE, Usage()),
    ]


def test_reading_tool_calls_without_an_index_of_their_own() -> None:
    calls = [
        {"index": 0, "id": f"call_{n}", "function": {"name": "f", "arguments": "{}"}}
        for n in range(2)
    ]
    missing = [{"id": "call_2", "function": {"name": "f", "arguments": "{}"}}]
    stream = OPENING + chunk({"tool_calls": calls}) + chunk({"tool_calls": missing}, "stop") + DONE
    assert read(stream)[1:] == [
        ToolStarted(0, "call_0", "f"),
        ToolDelta(0, "{}"),
        ToolStarted(1, "call_1", "f"),
        ToolDelta(1, "{}"),
        ToolStarted(2, "call_2", "f"),
        ToolDelta(2, "{}"),
        Finished(Finish.TOOL_USE, Usage()),
    ]


def test_other_choices_are_left_out() -> None:
    other = b'data: {"id":"1","choices":[{"index":1,"delta":{"content":"x"}}]}\n\n'
    assert [type(event) for event in read(OPENING + other + DONE)] == [Started, Finished]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b'{"error":{"message":"Down","code":502},"choices":[]}', "overload"),
        (b'{"error":{"message":"Down","code":429}}', "rate_limit"),
        (b'{"error":{"message":"Down","type":"server_error","code":null}}', "overload"),
        (b'{"error":"Down"}', "overload"),
    ],
)
def test_reading_an_error(error: bytes, kind: str) -> None:
    reader = CHAT.reader()
    assert reader.feed(OPENING + b"data: " + error + b"\n\n")[-1] == Broken(kind, "Down")
    assert not reader.ended


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"choices":5}', b"\xff"])
def test_reading_nonsense(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read(b"data: " + data + b"\n\n")


# Writing


def decoded(stream: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_writing() -> None:
    writer = CHAT.writer(ASKED)
    events: list[StreamEvent] = [
        Started("a", "m"),
        ThinkingDelta(0, "hm"),
        ThinkingDelta(0, "", "signature"),
        TextDelta(1, "Hi"),
        ToolStarted(2, "call_1", "f"),
        ToolDelta(2, "{}"),
        ToolStarted(3, "call_2", "g"),
        Finished(Finish.TOOL_USE, Usage(input=3, output=4)),
    ]
    *chunks, last, usage, done = decoded(b"".join(writer.write(event) for event in events))
    assert [each["choices"][0]["delta"] for each in chunks] == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": "Hi"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "g", "arguments": ""},
                }
            ]
        },
    ]
    assert last["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "tool_calls",
    }
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 7
    assert done == "[DONE]"
    assert {(each["id"], each["model"], each["object"]) for each in [*chunks, last, usage]} == {
        ("a", "m", "chat.completion.chunk")
    }


def test_usage_is_written_only_for_those_who_asked() -> None:
    writer = CHAT.writer(NOT_ASKED)
    stream = writer.write(Started("a", "m")) + writer.write(Finished(Finish.STOP, USAGE))
    assert b"usage" not in stream
    assert stream.endswith(DONE)


def test_writing_an_error() -> None:
    assert decoded(CHAT.writer(ASKED).write(Broken("rate_limit", "Slow."))) == [
        {
            "error": {
                "message": "Slow.",
                "type": "rate_limit_error",
                "param": None,
                "code": "rate_limit",
            }
        }
    ]
