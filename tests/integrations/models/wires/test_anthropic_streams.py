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
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Glance, MalformedAnswer

GLANCE = Glance("m", stream=True, max_output=100)


def event(name: str, **fields: Any) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False)
    return f"event: {name}\ndata: {data}\n\n".encode()


def start(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta=fields)


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


MESSAGE_START = event(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 20,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30},
            "output_tokens": 1,
        },
    },
)
PING = event("ping")
OPENING = MESSAGE_START + start(0, type="text", text="") + PING
TEXT = delta(0, type="text_delta", text='Grüße 😀 "usage":{"output_tokens":9} message_stop')
CLOSING = (
    stop(0)
    + event(
        "message_delta",
        delta={"stop_reason": "end_turn", "stop_sequence": None},
        usage={"output_tokens": 15},
    )
    + event("message_stop")
)
STREAM = OPENING + TEXT + CLOSING
AT_START = Usage(input=60, output=1, cache_read=20, cache_write=30, cache_write_long=30)
USAGE = Usage(input=60, output=15, cache_read=20, cache_write=30, cache_write_long=30)


# Passing through


def test_every_byte_goes_on_at_once_wherever_the_stream_is_cut() -> None:
    for cut in range(len(STREAM)):
        meter = MESSAGES.meter(GLANCE)
        assert meter.pass_on(STREAM[:cut]) == STREAM[:cut]
        assert not meter.ended
        assert meter.pass_on(STREAM[cut:]) == STREAM[cut:]
        assert (meter.usage, meter.ended) == (USAGE, True)


def test_one_byte_at_a_time() -> None:
    meter = MESSAGES.meter(GLANCE)
    assert b"".join(meter.pass_on(bytes([byte])) for byte in STREAM) == STREAM
    assert (meter.usage, meter.ended) == (USAGE, True)


def test_the_input_is_known_from_the_start() -> None:
    meter = MESSAGES.meter(GLANCE)
    meter.pass_on(OPENING)
    assert meter.usage == AT_START
    assert not meter.ended


def test_totals_at_the_end_replace_those_of_the_start() -> None:
    last = event("message_delta", delta={}, usage={"input_tokens": 500, "output_tokens": 7})
    meter = MESSAGES.meter(GLANCE)
    meter.pass_on(OPENING + TEXT + last)
    assert meter.usage == Usage(
        input=550, output=7, cache_read=20, cache_write=30, cache_write_long=30
    )


def test_lines_may_end_in_carriage_returns() -> None:
    stream = STREAM.replace(b"\n", b"\r\n")
    meter = MESSAGES.meter(GLANCE)
    assert meter.pass_on(stream) == stream
    assert (meter.usage, meter.ended) == (USAGE, True)


def test_estimates() -> None:
    meter = MESSAGES.meter(GLANCE)
    meter.pass_on(OPENING)
    assert meter.estimate() == 0
    meter.pass_on(delta(0, type="text_delta", text="x" * 400))
    meter.pass_on(start(1, type="tool_use", id="t", name="look", input={}))
    meter.pass_on(delta(1, type="input_json_delta", partial_json="y" * 40))
    assert meter.estimate() == 111


# Reading


def test_reading_gives_the_same_events_wherever_the_stream_is_cut() -> None:
    for cut in range(len(STREAM)):
        reader = MESSAGES.reader()
        events = reader.feed(STREAM[:cut])
        assert not reader.ended
        assert events + reader.feed(STREAM[cut:]) == [
            Started("msg_1", "claude-sonnet-5", AT_START),
            TextDelta(0, 'Grüße 😀 "usage":{"output_tokens":9} message_stop'),
            Finished(Finish.STOP, USAGE),
        ]
        assert reader.ended


def test_reading_thinking_and_tools_and_leaving_out_what_only_claude_has() -> None:
    stream = (
        MESSAGE_START
        + start(0, type="thinking", thinking="", signature="")
        + delta(0, type="thinking_delta", thinking="hm")
        + delta(0, type="signature_delta", signature="c2ln")
        + stop(0)
        + start(1, type="redacted_thinking", data="x")
        + stop(1)
        + start(2, type="server_tool_use", id="s", name="web_search", input={})
        + delta(2, type="input_json_delta", partial_json='{"query":"q"}')
        + stop(2)
        + start(3, type="tool_use", id="toolu_1", name="look", input={})
        + delta(3, type="input_json_delta", partial_json="")
        + delta(3, type="input_json_delta", partial_json='{"a":')
        + delta(3, type="input_json_delta", partial_json="1}")
        + stop(3)
        + event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 15})
        + event("message_stop")
    )
    assert MESSAGES.reader().feed(stream)[1:] == [
        ThinkingDelta(0, "hm"),
        ThinkingDelta(0, "", "c2ln"),
        ToolStarted(1, "toolu_1", "look"),
        ToolDelta(1, '{"a":'),
        ToolDelta(1, "1}"),
        Finished(Finish.TOOL_USE, USAGE),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "overload"),
        ("rate_limit_error", "rate_limit"),
        ("api_error", "overload"),
        ("timeout_error", "timeout"),
        ("invalid_request_error", "invalid"),
        ("something_new", "overload"),
    ],
)
def test_reading_an_error(kind: str, expected: str) -> None:
    reader = MESSAGES.reader()
    broken = event("error", error={"type": kind, "message": "No."})
    assert reader.feed(OPENING + broken)[-1] == Broken(expected, "No.")
    assert not reader.ended


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"type":5}', b"\xff"])
def test_reading_nonsense(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        MESSAGES.reader().feed(b"event: ping\ndata: " + data + b"\n\n")


# Writing


def written(*events: StreamEvent) -> list[tuple[Any, ...]]:
    """The events of a stream: name, index, and what the block or delta says."""
    writer = MESSAGES.writer(GLANCE)
    stream = b"".join(writer.write(each) for each in events).decode()
    seen: list[tuple[Any, ...]] = []
    for each in stream.split("\n\n")[:-1]:
        name, data = each.split("\n")
        decoded = json.loads(data.removeprefix("data: "))
        assert name == f"event: {decoded['type']}"
        said = decoded.get("content_block") or decoded.get("delta") or {}
        seen.append((decoded["type"].removeprefix("content_block_"), decoded.get("index"), said))
    return seen


def block(name: str, tool_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": {}}


def json_delta(text: str) -> dict[str, str]:
    return {"type": "input_json_delta", "partial_json": text}


END = ("message_delta", None, {"stop_reason": "tool_use", "stop_sequence": None})


def test_writing_blocks_one_after_the_other() -> None:
    assert written(
        Started("a", "m"),
        ThinkingDelta(0, "hm"),
        ThinkingDelta(0, "", "c2ln"),
        TextDelta(1, "Hi"),
        ToolStarted(2, "functions.f:0", "f"),
        ToolDelta(2, "{}"),
        Finished(Finish.TOOL_USE, USAGE),
    )[1:] == [
        ("start", 0, {"type": "thinking", "thinking": "", "signature": ""}),
        ("delta", 0, {"type": "thinking_delta", "thinking": "hm"}),
        ("delta", 0, {"type": "signature_delta", "signature": "c2ln"}),
        ("stop", 0, {}),
        ("start", 1, {"type": "text", "text": ""}),
        ("delta", 1, {"type": "text_delta", "text": "Hi"}),
        ("stop", 1, {}),
        ("start", 2, block("f", "functions_f_0")),
        ("delta", 2, json_delta("{}")),
        ("stop", 2, {}),
        END,
        ("message_stop", None, {}),
    ]


def test_tools_whose_arguments_come_by_turns_are_written_one_after_the_other() -> None:
    assert written(
        Started("a", "m"),
        ToolStarted(0, "t0", "f"),
        ToolStarted(1, "t1", "g"),
        ToolDelta(0, '{"a":'),
        ToolDelta(1, '{"b":'),
        ToolDelta(0, "1}"),
        ToolDelta(1, "2}"),
        ToolStarted(2, "t2", "h"),
        Finished(Finish.TOOL_USE, USAGE),
    )[1:] == [
        ("start", 0, block("f", "t0")),
        ("delta", 0, json_delta('{"a":')),
        ("delta", 0, json_delta("1}")),
        ("stop", 0, {}),
        ("start", 1, block("g", "t1")),
        ("delta", 1, json_delta('{"b":')),
        ("delta", 1, json_delta("2}")),
        ("stop", 1, {}),
        ("start", 2, block("h", "t2")),
        ("stop", 2, {}),
        END,
        ("message_stop", None, {}),
    ]


def test_tools_without_arguments_wait_for_the_end() -> None:
    names = [
        said.get("name")
        for kind, _, said in written(
            Started("a", "m"),
            ToolStarted(0, "t0", "f"),
            ToolStarted(1, "t1", "g"),
            ToolStarted(2, "t2", "h"),
            Finished(Finish.TOOL_USE, USAGE),
        )
        if kind == "start"
    ]
    assert names == ["f", "g", "h"]


def test_usage_is_told_at_the_start_and_in_full_at_the_end() -> None:
    writer = MESSAGES.writer(GLANCE)
    first = writer.write(Started("a", "m", AT_START))
    last = writer.write(Finished(Finish.STOP, USAGE))
    meter = MESSAGES.meter(GLANCE)
    meter.pass_on(first)
    assert meter.usage == AT_START
    meter.pass_on(last)
    assert meter.usage == USAGE


def test_writing_an_error() -> None:
    stream = MESSAGES.writer(GLANCE).write(Broken("overload", "Busy."))
    assert stream.startswith(b"event: error\ndata: ")
    assert json.loads(stream.split(b"data: ")[1])["error"]["type"] == "overloaded_error"
