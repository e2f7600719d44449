"""The wire `openai.responses`, by its own bytes and by OpenAI's SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Conversation,
    Finish,
    Finished,
    Media,
    Message,
    OutputFormat,
    Part,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolChoice,
    ToolDelta,
    ToolResult,
    ToolStarted,
    ToolUse,
    Usage,
)
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    MalformedRequest,
    Translating,
    WireName,
)
from agentos.integrations.models.wires.openai_responses import RESPONSES
from agentos.kernel.errors import Kind

GLANCE = Glance(model="gpt-5", stream=True, max_output=None)


def _body(**members: Any) -> bytes:
    return json.dumps({"model": "gpt-5", "input": "Hello", **members}).encode()


def _sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    )


def test_it_is_a_translating_wire() -> None:
    wire: Translating = RESPONSES
    assert wire.name is WireName.RESPONSES


# Glances


def test_a_glance_reads_what_routing_needs() -> None:
    body = _body(stream=True, max_output_tokens=300, service_tier="flex", store=False)
    assert RESPONSES.glance(body) == Glance(
        model="gpt-5", stream=True, max_output=300, service_tier="flex"
    )


@pytest.mark.parametrize(
    "members",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function", "name": "f"}, {"type": "file_search"}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "computer"}]},
        {"tools": [{"type": "mcp", "server_label": "x"}]},
        {"tools": [{"type": "image_generation"}]},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}],
                }
            ]
        },
    ],
)
def test_what_is_not_in_the_request_makes_it_open_ended(members: dict[str, Any]) -> None:
    assert RESPONSES.glance(_body(**members)).open_ended


@pytest.mark.parametrize(
    "members",
    [
        {"previous_response_id": None, "conversation": None, "prompt": None},
        {
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "parameters": {"type": "object", "properties": {"web_search": {}}},
                },
                {"type": "custom", "name": "g"},
            ]
        },
        {"input": 'the words "file_id": "x" and "image_url": "https://example.com"'},
        {
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}],
                }
            ]
        },
    ],
)
def test_what_is_in_the_request_does_not_make_it_open_ended(members: dict[str, Any]) -> None:
    assert not RESPONSES.glance(_body(**members)).open_ended


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "JSON"),
        (b"[]", "object"),
        (b'{"input": "x"}', "model"),
        (b'{"model": "", "input": "x"}', "model"),
        (b'{"model": 3, "input": "x"}', "model"),
        (b'{"model": "m"}', "input"),
        (b'{"model": "m", "input": null}', "input"),
        (b'{"model": "m", "tools": [{"type": "web_search"}]}', "input"),
        (b'{"model": "m", "input": "x", "max_output_tokens": 0}', "max_output_tokens"),
        (b'{"model": "m", "input": "x", "max_output_tokens": -5}', "max_output_tokens"),
        (b'{"model": "m", "input": "x", "background": true}', "background"),
        (b'{"model": "m\xff", "input": "x"}', "UTF-8"),
        (b'{"model": "m", "input": ' + b"[" * 100_000, "deeply"),
    ],
)
def test_a_malformed_request_is_refused_with_its_reason(body: bytes, word: str) -> None:
    with pytest.raises(MalformedRequest, match=word) as refused:
        RESPONSES.glance(body)
    assert refused.value.kind is Kind.INVALID


def test_words_that_are_hidden_by_escapes_are_found() -> None:
    body = b'{"model": "m", "input": [{"type": "item_r\\u0065ference", "id": "x"}]}'
    assert RESPONSES.glance(body).open_ended


def test_a_stored_prompt_or_an_earlier_response_needs_no_input() -> None:
    for member in ({"prompt": {"id": "p"}}, {"previous_response_id": "r"}):
        body = json.dumps({"model": "m", **member}).encode()
        assert RESPONSES.glance(body).open_ended


def test_the_body_passes_untouched_unless_the_model_is_called_otherwise() -> None:
    body = b'{ "input": "1.0 \\u00e9", "temperature": 1.00, "model": "openai/gpt-5" }'
    glance = RESPONSES.glance(body)
    assert RESPONSES.for_provider(body, glance, "openai/gpt-5") is body
    renamed = RESPONSES.for_provider(body, glance, "gpt-5")
    assert renamed == b'{"input":"1.0 \\u00e9","temperature":1.00,"model":"gpt-5"}'


# Usage


def test_usage_of_a_whole_answer() -> None:
    body = json.dumps(
        {
            "id": "resp_1",
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 20},
                "total_tokens": 150,
            },
        }
    ).encode()
    assert RESPONSES.usage(body) == Usage(
        input=100, output=50, cache_read=60, cache_write=30, reasoning=20
    )


@pytest.mark.parametrize("body", [b"", b"{}", b'{"usage": null}', b"<html>", b'{"usage": 3}'])
def test_no_usage_is_none_and_not_zero(body: bytes) -> None:
    assert RESPONSES.usage(body) is None


# A stream as OpenAI sends it

_USAGE_BODY = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 21,
}
_RESPONSE: dict[str, Any] = {
    "id": "resp_abc",
    "object": "response",
    "status": "in_progress",
    "model": "gpt-5",
    "metadata": {"type": "response.completed"},
    "output": [],
    "usage": None,
}
_CALL_ITEM = {
    "id": "fc_1",
    "type": "function_call",
    "status": "in_progress",
    "call_id": "call_xyz",
    "name": "weather",
    "arguments": "",
}
OPENING = _sse(
    {"type": "response.created", "sequence_number": 0, "response": _RESPONSE},
    {"type": "response.in_progress", "sequence_number": 1, "response": _RESPONSE},
    {
        "type": "response.output_item.added",
        "sequence_number": 2,
        "output_index": 0,
        "item": {"id": "rs_1", "type": "reasoning", "summary": []},
    },
)
DELTAS = _sse(
    {
        "type": "response.reasoning_summary_part.added",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 0,
        "part": {"type": "summary_text", "text": ""},
    },
    {
        "type": "response.reasoning_summary_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 0,
        "delta": "One",
    },
    {
        "type": "response.reasoning_summary_part.added",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 1,
        "part": {"type": "summary_text", "text": ""},
    },
    {
        "type": "response.reasoning_summary_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 1,
        "delta": "Two",
    },
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {"id": "ws_1", "type": "web_search_call", "status": "in_progress"},
    },
    {"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws_1"},
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 2,
        "content_index": 0,
        "delta": 'It says "event: response.completed" ✓',
        "logprobs": [],
    },
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 2,
        "content_index": 0,
        "delta": " done",
        "logprobs": [],
    },
    {"type": "response.output_item.added", "output_index": 3, "item": _CALL_ITEM},
    {
        "type": "response.function_call_arguments.delta",
        "item_id": "fc_1",
        "output_index": 3,
        "delta": '{"city":',
    },
    {
        "type": "response.function_call_arguments.delta",
        "item_id": "fc_1",
        "output_index": 3,
        "delta": '"Ulm"}',
    },
    {
        "type": "response.function_call_arguments.done",
        "item_id": "fc_1",
        "output_index": 3,
        "arguments": '{"city":"Ulm"}',
    },
    {
        "type": "response.output_item.done",
        "output_index": 3,
        "item": {**_CALL_ITEM, "arguments": '{"city":"Ulm"}', "status": "completed"},
    },
)
COMPLETED = _sse(
    {
        "type": "response.completed",
        "sequence_number": 30,
        "response": {**_RESPONSE, "status": "completed", "usage": _USAGE_BODY},
    },
)
STREAM = OPENING + DELTAS + COMPLETED
USAGE = Usage(input=9, output=12, cache_read=4, reasoning=5)
EVENTS: list[StreamEvent] = [
    Started("resp_abc", "gpt-5"),
    ThinkingDelta(0, "One"),
    ThinkingDelta(0, "\n\n"),
    ThinkingDelta(0, "Two"),
    TextDelta(1, 'It says "event: response.completed" ✓'),
    TextDelta(1, " done"),
    ToolStarted(2, "call_xyz", "weather"),
    ToolDelta(2, '{"city":'),
    ToolDelta(2, '"Ulm"}'),
    Finished(Finish.TOOL_USE, USAGE),
]


def test_a_stream_is_read() -> None:
    reader = RESPONSES.reader()
    assert reader.feed(STREAM[: -len(COMPLETED)]) == EVENTS[:-1]
    assert not reader.ended
    assert reader.feed(COMPLETED) == EVENTS[-1:]
    assert reader.ended


def test_a_stream_cut_at_any_byte_reads_the_same_and_is_metered_the_same() -> None:
    for cut in range(len(STREAM) + 1):
        reader, meter = RESPONSES.reader(), RESPONSES.meter(GLANCE)
        pieces = (STREAM[:cut], STREAM[cut:])
        assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS
        assert reader.ended
        assert b"".join(meter.pass_on(piece) for piece in pieces) == STREAM
        assert (meter.usage, meter.ended) == (USAGE, True)


def test_a_stream_byte_by_byte() -> None:
    reader, meter = RESPONSES.reader(), RESPONSES.meter(GLANCE)
    bits = [STREAM[i : i + 1] for i in range(len(STREAM))]
    assert [event for bit in bits for event in reader.feed(bit)] == EVENTS
    assert [meter.pass_on(bit) for bit in bits] == bits
    assert (meter.usage, meter.ended) == (USAGE, True)


def test_lines_may_end_in_carriage_returns() -> None:
    stream = STREAM.replace(b"\n", b"\r\n")
    reader, meter = RESPONSES.reader(), RESPONSES.meter(GLANCE)
    assert reader.feed(stream) == EVENTS
    assert meter.pass_on(stream) == stream
    assert meter.usage == USAGE


def test_events_need_not_be_named() -> None:
    lines = STREAM.split(b"\n")
    unnamed = b"\n".join(line for line in lines if not line.startswith(b"event:"))
    for stream in (unnamed, unnamed.replace(b'{"type": ', b'{"x": 1, "type": ')):
        reader, meter = RESPONSES.reader(), RESPONSES.meter(GLANCE)
        assert reader.feed(stream) == EVENTS
        meter.pass_on(stream)
        assert (meter.usage, meter.ended) == (USAGE, True)


@pytest.mark.parametrize(
    ("status", "ends"), [("completed", True), ("incomplete", True), ("failed", False)]
)
def test_an_answer_ends_a_metered_stream_and_a_failure_does_not(status: str, ends: bool) -> None:
    meter = RESPONSES.meter(GLANCE)
    event = {
        "type": f"response.{status}",
        "response": {**_RESPONSE, "status": status, "usage": _USAGE_BODY},
    }
    meter.pass_on(_sse(event))
    assert meter.ended is ends
    assert meter.usage == USAGE


def test_words_that_look_like_an_end_are_not_one() -> None:
    meter = RESPONSES.meter(GLANCE)
    meter.pass_on(OPENING + DELTAS)
    assert not meter.ended


def test_an_error_does_not_end_a_stream() -> None:
    meter = RESPONSES.meter(GLANCE)
    meter.pass_on(_sse({"type": "error", "code": "server_error", "message": "Sorry"}))
    assert not meter.ended


def test_an_end_without_usage_leaves_it_unknown() -> None:
    meter = RESPONSES.meter(GLANCE)
    meter.pass_on(_sse({"type": "response.failed", "response": {**_RESPONSE, "usage": None}}))
    assert meter.usage is None


def _text_delta(text: str) -> bytes:
    return _sse(
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        }
    )


def test_an_estimate_goes_by_length_and_not_by_the_opening() -> None:
    long_opening = _sse(
        {
            "type": "response.created",
            "response": {**_RESPONSE, "instructions": "Be brief. " * 20_000},
        }
    )
    meter = RESPONSES.meter(GLANCE)
    assert meter.estimate() == 0
    meter.pass_on(long_opening)
    assert meter.estimate() == 0
    meter.pass_on(_text_delta("x" * 401))
    assert meter.estimate() == 101
    assert meter.estimate() == 101


def test_an_estimate_of_a_long_stream_is_scaled() -> None:
    meter = RESPONSES.meter(GLANCE)
    for _ in range(2_000):
        meter.pass_on(_text_delta("x" * 400))
    assert abs(meter.estimate() - 200_000) < 200


def test_an_estimate_counts_the_arguments_of_tools() -> None:
    meter = RESPONSES.meter(GLANCE)
    meter.pass_on(OPENING)
    meter.pass_on(
        _sse(
            {"type": "response.output_item.added", "output_index": 0, "item": _CALL_ITEM},
            {
                "type": "response.function_call_arguments.delta",
                "output_index": 0,
                "delta": "x" * 400,
            },
        )
    )
    assert meter.estimate() == pytest.approx(100, abs=3)


# Reading streams that are different


def test_a_call_that_came_whole_is_read_once() -> None:
    item = {**_CALL_ITEM, "arguments": '{"a":1}', "status": "completed"}
    reader = RESPONSES.reader()
    assert reader.feed(
        _sse(
            {"type": "response.created", "response": _RESPONSE},
            {"type": "response.output_item.added", "output_index": 0, "item": _CALL_ITEM},
            {
                "type": "response.function_call_arguments.done",
                "output_index": 0,
                "arguments": '{"a":1}',
            },
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {
                "type": "response.output_item.done",
                "output_index": 1,
                "item": {**item, "call_id": "call_2"},
            },
        )
    ) == [
        Started("resp_abc", "gpt-5"),
        ToolStarted(0, "call_xyz", "weather"),
        ToolDelta(0, '{"a":1}'),
        ToolStarted(1, "call_2", "weather"),
        ToolDelta(1, '{"a":1}'),
    ]


def test_a_refusal_is_text_that_was_filtered() -> None:
    reader = RESPONSES.reader()
    events = reader.feed(
        _sse(
            {
                "type": "response.refusal.delta",
                "output_index": 0,
                "content_index": 0,
                "delta": "No",
            },
            {"type": "response.completed", "response": {**_RESPONSE, "status": "completed"}},
        )
    )
    assert events == [
        TextDelta(0, "No"),
        Started("resp_abc", "gpt-5"),
        Finished(Finish.FILTERED, Usage()),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", Finish.LENGTH), ("content_filter", Finish.FILTERED)],
)
def test_an_incomplete_stream_says_why(reason: str, finish: Finish) -> None:
    reader = RESPONSES.reader()
    response = {**_RESPONSE, "status": "incomplete", "incomplete_details": {"reason": reason}}
    events = reader.feed(_sse({"type": "response.incomplete", "response": response}))
    assert events[-1] == Finished(finish, Usage())
    assert reader.ended


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        ("server_error", ErrorClass.OVERLOAD),
        ("rate_limit_exceeded", ErrorClass.RATE_LIMIT),
        ("context_length_exceeded", ErrorClass.CONTEXT_LENGTH),
        ("invalid_prompt", ErrorClass.INVALID),
        ("image_too_large", ErrorClass.INVALID),
        (None, ErrorClass.OVERLOAD),
    ],
)
def test_every_way_to_report_an_error_in_a_stream_is_read(
    code: str | None, error_class: ErrorClass
) -> None:
    error = {"code": code, "message": "Sorry, no."}
    for event in (
        {"type": "error", **error, "param": None, "sequence_number": 3},
        {"type": "error", "error": {"type": "x", **error}},
        {"type": "response.failed", "response": {**_RESPONSE, "status": "failed", "error": error}},
    ):
        reader = RESPONSES.reader()
        assert reader.feed(_sse(event)) == [Broken(error_class, "Sorry, no.")]
        assert not reader.ended


def test_an_error_and_the_failure_that_follows_it_are_one() -> None:
    error = {"code": "server_error", "message": "Sorry"}
    failed = {**_RESPONSE, "status": "failed", "error": error}
    reader = RESPONSES.reader()
    events = reader.feed(
        _sse({"type": "error", **error}, {"type": "response.failed", "response": failed})
    )
    assert events == [Broken(ErrorClass.OVERLOAD, "Sorry")]


@pytest.mark.parametrize(
    "stream",
    [
        b"data: {\n\n",
        b"data: []\n\n",
        b'data: {"type": "response.output_text.delta", "delta": "x"}\n\n',
        b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": 3}\n\n',
        b'data: {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ""}\n\n',
    ],
)
def test_a_stream_of_another_format_is_malformed(stream: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        RESPONSES.reader().feed(stream)


def test_comments_and_done_marks_are_passed_over() -> None:
    assert RESPONSES.reader().feed(b": keep-alive\n\ndata: [DONE]\n\n") == []


# Whole answers


def test_a_whole_answer_is_read() -> None:
    body = json.dumps(
        {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "model": "gpt-5-2025-08-07",
            "error": None,
            "output": [
                {
                    "id": "rs_1",
                    "type": "reasoning",
                    "summary": [
                        {"type": "summary_text", "text": "First"},
                        {"type": "summary_text", "text": "then"},
                    ],
                    "encrypted_content": "gAAA",
                },
                {"id": "rs_2", "type": "reasoning", "summary": []},
                {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {}},
                {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
                },
                {**_CALL_ITEM, "arguments": '{"city": "Ulm"}', "status": "completed"},
            ],
            "usage": _USAGE_BODY,
        }
    ).encode()
    assert RESPONSES.read_answer(body) == Answer(
        id="resp_1",
        model="gpt-5-2025-08-07",
        parts=[
            Thinking("First\n\nthen"),
            Text("Hi"),
            ToolUse("call_xyz", "weather", '{"city": "Ulm"}'),
        ],
        finish=Finish.TOOL_USE,
        usage=USAGE,
    )


def test_a_refusal_in_a_whole_answer() -> None:
    message = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    body = json.dumps({"id": "r", "status": "completed", "output": [message]}).encode()
    answer = RESPONSES.read_answer(body)
    assert answer.parts == [Text("I will not.")]
    assert answer.finish is Finish.FILTERED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"{}",
        b'{"status": "completed", "output": 3}',
        b'{"status": "completed", "output": [{"type": "function_call"}]}',
        b'{"status": "failed", "output": [], "error": {"code": "server_error", "message": "x"}}',
    ],
)
def test_an_answer_of_another_format_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        RESPONSES.read_answer(body)


# Requests


def test_a_request_is_read() -> None:
    body = _body(
        instructions="Be kind.",
        input=[
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {
                        "type": "input_image",
                        "detail": "low",
                        "image_url": "data:image/png;base64,AA==",
                    },
                    {"type": "input_image", "image_url": "https://example.com/cat.webp?x=1"},
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,BB==",
                    },
                    {"type": "input_file", "file_url": "https://example.com/b.pdf"},
                    {"type": "input_audio", "input_audio": {"data": "CC==", "format": "mp3"}},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "hear", "arguments": ""},
            {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
            {
                "type": "function_call_output",
                "call_id": "c2",
                "output": [
                    {"type": "input_text", "text": "purr"},
                    {"type": "input_image", "image_url": "data:image/gif;base64,DD=="},
                ],
            },
        ],
        tools=[
            {
                "type": "function",
                "name": "look",
                "description": "Looks",
                "parameters": {"type": "object", "properties": {"at": {"type": "integer"}}},
                "strict": True,
            },
            {"type": "function", "name": "hear", "parameters": None, "strict": None},
        ],
        tool_choice={"type": "function", "name": "look"},
        parallel_tool_calls=False,
        max_output_tokens=99,
        temperature=0.5,
        top_p=0.9,
        reasoning={"effort": "xhigh", "summary": "auto"},
        text={
            "verbosity": "low",
            "format": {
                "type": "json_schema",
                "name": "cat",
                "schema": {"type": "object"},
                "strict": True,
            },
        },
        stream=True,
        metadata={"a": "b"},
    )
    assert RESPONSES.read_request(body) == Conversation(
        model="gpt-5",
        system="Be kind.\n\nBe brief.",
        messages=[
            Message(
                "user",
                [
                    Text("What is this?"),
                    Media("image/png", data="AA=="),
                    Media("image/webp", url="https://example.com/cat.webp?x=1"),
                    Media("application/pdf", data="BB=="),
                    Media("application/pdf", url="https://example.com/b.pdf"),
                    Media("audio/mpeg", data="CC=="),
                ],
            ),
            Message(
                "assistant",
                [
                    Text("Let me see."),
                    ToolUse("c1", "look", '{"at": 1}'),
                    ToolUse("c2", "hear", ""),
                ],
            ),
            Message(
                "user",
                [
                    ToolResult("c1", [Text("a cat")], name="look"),
                    ToolResult("c2", [Text("purr"), Media("image/gif", data="DD==")], name="hear"),
                ],
            ),
        ],
        tools=[
            Tool("look", "Looks", {"type": "object", "properties": {"at": {"type": "integer"}}}),
            Tool("hear", "", {"type": "object", "properties": {}}),
        ],
        tool_choice=ToolChoice("tool", "look"),
        parallel_tools=False,
        max_tokens=99,
        temperature=0.5,
        top_p=0.9,
        output_format=OutputFormat({"type": "object"}, "cat", strict=True),
        reasoning_effort="high",
        stream=True,
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("any")),
        (None, None),
    ],
)
def test_tool_choices(choice: str | None, expected: ToolChoice | None) -> None:
    assert RESPONSES.read_request(_body(tool_choice=choice)).tool_choice == expected


def test_allowed_tools_leave_only_those() -> None:
    tools = [{"type": "function", "name": name} for name in ("a", "b", "c")]
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "c"}],
    }
    read = RESPONSES.read_request(_body(tools=tools, tool_choice=choice))
    assert [tool.name for tool in read.tools] == ["a", "c"]
    assert read.tool_choice == ToolChoice("any")


def test_json_without_a_schema() -> None:
    read = RESPONSES.read_request(_body(text={"format": {"type": "json_object"}}))
    assert read.output_format == OutputFormat()
    assert RESPONSES.read_request(_body(text={"format": {"type": "text"}})).output_format is None


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"tools": [{"type": "web_search"}]}, r"web_search.*tools\[0\]"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "custom"),
        ({"tool_choice": {"type": "mcp", "server_label": "x"}}, "mcp"),
        ({"text": {"format": {"type": "grammar"}}}, "grammar"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, r"item_reference.*input\[0\]"),
        ({"input": [{"type": "computer_call_output", "output": {}}]}, "computer_call_output"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
            r"input\[0\]\.content\[0\]\.file_id",
        ),
    ],
)
def test_what_only_openai_has_is_refused_by_name(members: dict[str, Any], word: str) -> None:
    with pytest.raises(MalformedRequest, match=word) as refused:
        RESPONSES.read_request(_body(**members))
    assert refused.value.advice


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"input": None}, "input"),
        ({"input": [3]}, r"input\[0\]"),
        ({"input": [{"role": "robot", "content": "x"}]}, r"input\[0\].*role"),
        ({"input": [{"role": "user"}]}, r"input\[0\].*content"),
        ({"input": [{"type": "function_call", "name": "x"}]}, r"input\[0\].*call_id"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\].*name"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"temperature": "warm"}, "temperature"),
    ],
)
def test_a_broken_request_is_refused_with_its_place(members: dict[str, Any], word: str) -> None:
    with pytest.raises(MalformedRequest, match=word):
        RESPONSES.read_request(_body(**members))


def test_an_item_that_is_not_utf_8_is_refused_with_its_place() -> None:
    body = b'{"model":"m","input":[{"role":"user","content":"\xc3\x28"}]}'
    with pytest.raises(MalformedRequest, match=r"input\[0\]"):
        RESPONSES.read_request(body)


def test_a_request_is_written() -> None:
    conversation = Conversation(
        model="claude",
        system="Be kind.",
        messages=[
            Message("user", [Text("Look"), Media("image/png", data="AA==")]),
            Message(
                "assistant",
                [Thinking("hm", "sealed"), Text("Sure."), ToolUse("toolu_1", "look", "{}")],
            ),
            Message("user", [ToolResult("toolu_1", [Text("no")], is_error=True), Text("Well?")]),
        ],
        tools=[Tool("look", "Looks", {"type": "object"})],
        tool_choice=ToolChoice("any"),
        max_tokens=50,
        temperature=0.2,
        stop=["END"],
        seed=3,
        reasoning_effort="low",
        stream=True,
    )
    written = json.loads(RESPONSES.write_request(conversation, "gpt-5-mini"))
    assert written == {
        "model": "gpt-5-mini",
        "store": False,
        "stream": True,
        "instructions": "Be kind.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look"},
                    {
                        "type": "input_image",
                        "detail": "auto",
                        "image_url": "data:image/png;base64,AA==",
                    },
                ],
            },
            {"type": "message", "role": "assistant", "content": "Sure."},
            {"type": "function_call", "call_id": "toolu_1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "toolu_1", "output": "Error:\nno"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Well?"}],
            },
        ],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Looks",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "max_output_tokens": 50,
        "reasoning": {"effort": "low"},
    }


def test_a_model_that_does_not_reason_is_asked_otherwise() -> None:
    conversation = Conversation(
        model="x",
        messages=[Message("user", [Text("x")])],
        temperature=0.2,
        top_p=0.5,
        reasoning_effort="low",
    )
    written = json.loads(RESPONSES.write_request(conversation, "gpt-4.1"))
    assert written["temperature"] == 0.2
    assert written["top_p"] == 0.5
    assert "reasoning" not in written


# Round trips

_words = st.text(min_size=1, max_size=20)
_ids = st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
_media = st.sampled_from(
    [
        Media("image/png", data="AA=="),
        Media("application/pdf", data="BB=="),
        Media("audio/wav", data="CC=="),
        Media("image/jpeg", url="https://example.com/a.jpg"),
        Media("application/pdf", url="https://example.com/a"),
    ]
)
_arguments = st.dictionaries(_ids, st.integers() | _words, max_size=3).map(json.dumps)
_schema = st.dictionaries(_ids, st.text(max_size=5), min_size=1, max_size=3)


def _turn_of(user_parts: list[Part], assistant_parts: list[Part]) -> list[Message]:
    """A turn of each side, with a result for every tool use."""
    results: list[Part] = [
        ToolResult(part.id, [Text("done")], name=part.name)
        for part in assistant_parts
        if isinstance(part, ToolUse)
    ]
    return [
        Message("user", user_parts),
        Message("assistant", assistant_parts),
        *([Message("user", results)] if results else []),
    ]


@st.composite
def _conversations(draw: st.DrawFn) -> Conversation:
    user: list[Part] = draw(st.lists(_words.map(Text) | _media, min_size=1, max_size=4))
    uses = st.builds(ToolUse, id=_ids, name=_ids, arguments=_arguments)
    said: list[Part] = draw(
        st.lists(
            _words.map(Text) | uses,
            min_size=1,
            max_size=4,
            unique_by=lambda part: part.id if isinstance(part, ToolUse) else object(),
        )
    )
    tools = draw(st.lists(st.builds(Tool, _ids, _words, _schema), max_size=2))
    choices = st.sampled_from([None, ToolChoice("auto"), ToolChoice("any"), ToolChoice("none")])
    formats = st.builds(OutputFormat, schema=st.none() | _schema)
    return Conversation(
        model="gpt-4.1",
        messages=_turn_of(user, said),
        system=draw(st.text(max_size=10)),
        tools=tools,
        tool_choice=draw(choices | st.builds(ToolChoice, st.just("tool"), _ids)) if tools else None,
        parallel_tools=draw(st.none() | st.booleans()) if tools else None,
        max_tokens=draw(st.none() | st.integers(1, 10_000)),
        temperature=draw(st.none() | st.floats(0, 2)),
        top_p=draw(st.none() | st.floats(0, 1)),
        output_format=draw(st.none() | formats),
        stream=draw(st.booleans()),
    )


@settings(max_examples=100, deadline=None)
@given(_conversations())
def test_a_request_that_is_written_and_read_is_the_same(conversation: Conversation) -> None:
    body = RESPONSES.write_request(conversation, conversation.model)
    assert RESPONSES.read_request(body) == conversation
    assert RESPONSES.glance(body).model == "gpt-4.1"


_answer_parts = st.lists(
    st.builds(Text, _words)
    | st.builds(Thinking, _words)
    | st.builds(ToolUse, id=_ids, name=_ids, arguments=_arguments),
    max_size=5,
)
_counts = st.integers(0, 10_000)
_usages = st.builds(
    Usage, input=_counts, output=_counts, cache_read=_counts, cache_write=_counts, reasoning=_counts
)


@st.composite
def _answers(draw: st.DrawFn) -> Answer:
    parts = draw(_answer_parts)
    used = any(isinstance(part, ToolUse) for part in parts)
    ends = [Finish.TOOL_USE if used else Finish.STOP, Finish.LENGTH, Finish.FILTERED]
    return Answer(draw(_ids), draw(_ids), parts, draw(st.sampled_from(ends)), draw(_usages))


@settings(max_examples=100, deadline=None)
@given(_answers())
def test_an_answer_that_is_written_and_read_is_the_same(answer: Answer) -> None:
    body = RESPONSES.write_answer(answer)
    assert RESPONSES.read_answer(body) == answer
    assert RESPONSES.usage(body) == answer.usage


def _events_of(answer: Answer) -> Iterator[StreamEvent]:
    yield Started(answer.id, answer.model)
    for index, part in enumerate(answer.parts):
        if isinstance(part, Text):
            yield from (TextDelta(index, letter) for letter in part.text)
        elif isinstance(part, Thinking):
            yield from (ThinkingDelta(index, letter) for letter in part.text)
        else:
            yield ToolStarted(index, part.id, part.name)
            yield from (ToolDelta(index, letter) for letter in part.arguments)
    yield Finished(answer.finish, answer.usage)


@settings(max_examples=60, deadline=None)
@given(_answers(), st.integers(1, 500))
def test_a_stream_that_is_written_and_read_is_the_same(answer: Answer, size: int) -> None:
    writer, reader, meter = RESPONSES.writer(GLANCE), RESPONSES.reader(), RESPONSES.meter(GLANCE)
    events = list(_events_of(answer))
    stream = b"".join(writer.write(event) for event in events)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert [event for piece in pieces for event in reader.feed(piece)] == events
    assert [meter.pass_on(piece) for piece in pieces] == pieces
    assert (reader.ended, meter.ended, meter.usage) == (True, True, answer.usage)


def test_tool_uses_may_alternate() -> None:
    writer, reader = RESPONSES.writer(GLANCE), RESPONSES.reader()
    events: list[StreamEvent] = [
        Started("r", "m"),
        TextDelta(0, "Both:"),
        ToolStarted(1, "a", "f"),
        ToolStarted(2, "b", "g"),
        ToolDelta(2, "{"),
        ToolDelta(1, "{}"),
        ToolDelta(2, "}"),
        Finished(Finish.TOOL_USE, Usage(1, 2)),
    ]
    stream = b"".join(writer.write(event) for event in events)
    assert reader.feed(stream) == events
    completed = json.loads(stream.strip().rpartition(b"data: ")[2])
    assert [item["type"] for item in completed["response"]["output"]] == [
        "message",
        "function_call",
        "function_call",
    ]
    assert [item.get("arguments") for item in completed["response"]["output"]] == [None, "{}", "{}"]


def test_a_signature_without_a_thought_is_not_shown() -> None:
    writer = RESPONSES.writer(GLANCE)
    writer.write(Started("r", "m"))
    assert writer.write(ThinkingDelta(0, "", "sealed")) == b""
    answer = Answer("r", "m", [Thinking("", "sealed"), Text("x")], Finish.STOP, Usage())
    assert RESPONSES.read_answer(RESPONSES.write_answer(answer)).parts == [Text("x")]


def test_events_are_numbered_and_in_openais_order() -> None:
    writer = RESPONSES.writer(Glance(model="m", stream=True, max_output=77))
    stream = b"".join(
        writer.write(event)
        for event in (
            Started("resp_1", "m"),
            ThinkingDelta(0, "hm"),
            TextDelta(1, "Hi"),
            ToolStarted(2, "c", "f"),
            ToolDelta(2, "{}"),
            Finished(Finish.TOOL_USE, Usage(3, 4)),
        )
    )
    frames = [frame.split(b"\n") for frame in stream.decode().encode().strip().split(b"\n\n")]
    events = [json.loads(data.removeprefix(b"data: ")) for _, data in frames]
    assert [name.removeprefix(b"event: ").decode() for name, _ in frames] == [
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
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["response"]["max_output_tokens"] == 77
    assert events[-1]["response"]["usage"]["total_tokens"] == 7


# Errors


def test_errors_are_in_openais_dialect() -> None:
    body = RESPONSES.error(429, "rate_limit", "too_many_calls", "Wait a little.")
    assert json.loads(body)["error"] == {
        "message": "Wait a little.",
        "type": "rate_limit_error",
        "param": None,
        "code": "too_many_calls",
    }
    assert RESPONSES.error_class(429, body) == (ErrorClass.RATE_LIMIT, "Wait a little.")


def test_a_stream_error_is_read_back() -> None:
    reader = RESPONSES.reader()
    stream = RESPONSES.stream_error("rate_limit", "rate_limit_exceeded", "Wait.")
    assert reader.feed(stream) == [Broken(ErrorClass.RATE_LIMIT, "Wait.")]


# OpenAI's own SDK


def _client(status: int, body: bytes, content_type: str) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/v1/responses"
        RESPONSES.glance(request.content)
        return httpx2.Response(status, content=body, headers={"content-type": content_type})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="sk-test", max_retries=0, http_client=transport)


def _stream_of(*events: StreamEvent) -> bytes:
    writer = RESPONSES.writer(GLANCE)
    return b"".join(writer.write(event) for event in events)


ANSWER = Answer(
    "resp_1",
    "gpt-5",
    [Thinking("hm"), Text("Hello"), ToolUse("call_1", "weather", '{"city":"Ulm"}')],
    Finish.TOOL_USE,
    Usage(input=10, output=20, cache_read=3, reasoning=4),
)


def test_the_sdk_reads_a_whole_answer() -> None:
    with _client(200, RESPONSES.write_answer(ANSWER), "application/json") as client:
        response = client.responses.create(model="gpt-5", input="Hi")
    assert response.output_text == "Hello"
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 3
    assert response.usage.output_tokens_details.reasoning_tokens == 4
    # Every member that the SDK's types require is there, and of the right type.
    type(response).model_validate(json.loads(RESPONSES.write_answer(ANSWER)))


def test_the_sdk_reads_a_stream() -> None:
    stream = _stream_of(*_events_of(ANSWER))
    with _client(200, stream, "text/event-stream") as client:
        events = list(client.responses.create(model="gpt-5", input="Hi", stream=True))
    for event in events:
        type(event).model_validate(event.model_dump(by_alias=True, warnings="none"))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == "Hello"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.usage is not None
    assert last.response.usage.total_tokens == 30


class _City(BaseModel):
    city: str


def test_the_sdks_stream_helper_puts_the_answer_together() -> None:
    answer = Answer(
        "r", "gpt-5", [Thinking("hm"), Text('{"city":"Ulm"}')], Finish.STOP, Usage(1, 2)
    )
    stream = _stream_of(*_events_of(answer))
    with (
        _client(200, stream, "text/event-stream") as client,
        client.responses.stream(model="gpt-5", input="Hi", text_format=_City) as running,
    ):
        final = running.get_final_response()
    assert final.output_parsed == _City(city="Ulm")


def test_the_sdks_stream_helper_puts_tool_calls_together() -> None:
    with (
        _client(200, _stream_of(*_events_of(ANSWER)), "text/event-stream") as client,
        client.responses.stream(model="gpt-5", input="Hi") as running,
    ):
        final = running.get_final_response()
    calls = [item for item in final.output if item.type == "function_call"]
    assert [(call.call_id, call.name, call.arguments) for call in calls] == [
        ("call_1", "weather", '{"city":"Ulm"}')
    ]


def test_the_sdk_sees_an_incomplete_answer() -> None:
    stream = _stream_of(
        Started("r", "m"), TextDelta(0, "Hel"), Finished(Finish.LENGTH, Usage(1, 2))
    )
    with _client(200, stream, "text/event-stream") as client:
        last = list(client.responses.create(model="gpt-5", input="Hi", stream=True))[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


def test_the_sdk_raises_the_error_of_an_answer() -> None:
    body = RESPONSES.error(404, "not_found", "unknown_model", "There is no such model.")
    with (
        _client(404, body, "application/json") as client,
        pytest.raises(openai.NotFoundError, match="There is no such model") as raised,
    ):
        client.responses.create(model="gpt-5", input="Hi")
    assert raised.value.code == "unknown_model"


@pytest.mark.parametrize("by_writer", [True, False])
def test_the_sdk_raises_the_error_of_a_stream(by_writer: bool) -> None:
    stream = _stream_of(Started("r", "m"), TextDelta(0, "Hel"))
    if by_writer:
        stream = _stream_of(
            Started("r", "m"), TextDelta(0, "Hel"), Broken("overload", "The stream was cut.")
        )
    else:
        stream += RESPONSES.stream_error("overload", "stream_broken", "The stream was cut.")
    seen: list[str] = []
    with _client(200, stream, "text/event-stream") as client:
        events = client.responses.create(model="gpt-5", input="Hi", stream=True)
        with pytest.raises(openai.APIError, match="The stream was cut"):
            seen.extend(event.type for event in events)
    assert "response.output_text.delta" in seen
