"""Streams on their way, over every wire that a caller can speak."""

from __future__ import annotations

import pytest

from agentos.integrations.models.conversation import Broken, Finish, Finished, Started, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.passage import PassThrough, Translated, passage
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Glance, Translating
from agentos.integrations.models.wires.openai_chat import CHAT
from agentos.integrations.models.wires.openai_responses import RESPONSES

GLANCE = Glance("m", stream=True, max_output=None)
NOT_ASKED = Glance("m", stream=True, max_output=None, wants_usage=False)

CHAT_TEXT = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
CHAT_ERROR = b'data: {"error":{"message":"Sorry","code":"server_error"}}\n\n'
RESPONSES_TEXT = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","output_index":0,"delta":"Hi"}\n\n'
)
RESPONSES_ARGUMENTS = (
    b"event: response.output_item.added\n"
    b'data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call",'
    b'"id":"f","call_id":"c","name":"n","arguments":"","status":"in_progress"}}\n\n'
    b"event: response.function_call_arguments.delta\n"
    b'data: {"type":"response.function_call_arguments.delta","output_index":1,"delta":"{"}\n\n'
)
RESPONSES_FAILED = (
    b"event: response.failed\n"
    b'data: {"type":"response.failed","response":{"id":"r","model":"m","status":"failed",'
    b'"error":{"code":"server_error","message":"Sorry"},"usage":null}}\n\n'
)
RESPONSES_ERROR = (
    b'event: error\ndata: {"type":"error","code":"server_error","message":"Sorry","param":null}\n\n'
)
MESSAGES_TEXT = (
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
)
MESSAGES_ERROR = (
    b"event: error\n"
    b'data: {"type":"error","error":{"type":"overloaded_error","message":"Sorry"}}\n\n'
)

FAILURES = pytest.mark.parametrize(
    ("wire", "glance", "said", "failure"),
    [
        (CHAT, GLANCE, CHAT_TEXT, CHAT_ERROR),
        (CHAT, NOT_ASKED, CHAT_TEXT, CHAT_ERROR),
        (RESPONSES, GLANCE, RESPONSES_TEXT, RESPONSES_FAILED),
        (RESPONSES, GLANCE, RESPONSES_TEXT, RESPONSES_ERROR),
        (RESPONSES, GLANCE, RESPONSES_TEXT + RESPONSES_ARGUMENTS, RESPONSES_FAILED),
        (RESPONSES, GLANCE, RESPONSES_TEXT, RESPONSES_ERROR + RESPONSES_FAILED),
        (MESSAGES, GLANCE, MESSAGES_TEXT, MESSAGES_ERROR),
    ],
    ids=["chat", "chat hiding usage", "failed", "error", "arguments", "both", "messages"],
)
SORRY = Broken(ErrorClass.OVERLOAD, "Sorry")


@FAILURES
def test_a_failure_after_the_first_words_is_found(
    wire: Translating, glance: Glance, said: bytes, failure: bytes
) -> None:
    carried = passage(wire, wire, glance)
    assert isinstance(carried, PassThrough)
    assert carried.carry(said) + carried.carry(failure) == said + failure
    assert carried.delivered
    assert not carried.ended
    assert carried.broken() == SORRY


@FAILURES
def test_a_failure_is_found_wherever_the_stream_was_cut(
    wire: Translating, glance: Glance, said: bytes, failure: bytes
) -> None:
    stream = said + failure
    for cut in range(1, len(stream)):
        carried = PassThrough(wire, glance)
        assert carried.carry(stream[:cut]) + carried.carry(stream[cut:]) == stream
        assert not carried.ended
        assert carried.broken() == SORRY, cut


@FAILURES
def test_a_failure_in_the_opening_is_found_before_anything_is_delivered(
    wire: Translating, glance: Glance, said: bytes, failure: bytes
) -> None:
    carried = PassThrough(wire, glance)
    carried.carry(failure)
    assert not carried.delivered
    assert not carried.ended
    assert carried.broken() == SORRY
    unbroken = PassThrough(wire, glance)
    unbroken.carry(said)
    assert unbroken.broken() is None


CHAT_OPENING = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n'
)
CHAT_TOOL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c",'
    b'"function":{"name":"f","arguments":""}}]}}]}\n\n'
)
RESPONSES_OPENING = (
    b"event: response.created\n"
    b'data: {"type":"response.created","response":{"id":"r","model":"m","status":"in_progress",'
    b'"error":null,"instructions":"Never fail","output":[],"usage":null}}\n\n'
    b"event: response.output_item.added\n"
    b'data: {"type":"response.output_item.added","output_index":0,'
    b'"item":{"type":"message","id":"i","role":"assistant","content":[]}}\n\n'
)
RESPONSES_THINKING = RESPONSES_TEXT.replace(b"output_text", b"reasoning_summary_text")
MESSAGES_START = (
    b"event: message_start\n"
    b'data: {"type":"message_start","message":{"id":"m","model":"m","content":[],'
    b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
)
MESSAGES_THINKING_START = (
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n'
)
MESSAGES_THINKING = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"thinking_delta","thinking":"hm"}}\n\n'
)
MESSAGES_TOOL = (
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}\n\n'
)
MESSAGES_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
OPENINGS = pytest.mark.parametrize(
    ("wire", "opening", "first"),
    [
        (CHAT, CHAT_OPENING, CHAT_TEXT),
        (CHAT, CHAT_OPENING, CHAT_TEXT.replace(b'"content"', b'"reasoning_content"')),
        (CHAT, CHAT_OPENING, CHAT_TOOL),
        (CHAT, CHAT_OPENING.replace(b'""', b'null,"tool_calls":[]'), CHAT_TEXT),
        (CHAT, b": OPENROUTER PROCESSING\n\n", CHAT_TEXT),
        (CHAT, b'data: {"choices":[],"usage":{"prompt_tokens":5}}\n\n', CHAT_TEXT),
        (RESPONSES, RESPONSES_OPENING, RESPONSES_TEXT),
        (RESPONSES, RESPONSES_OPENING, RESPONSES_THINKING),
        (
            RESPONSES,
            RESPONSES_OPENING,
            RESPONSES_ARGUMENTS[: RESPONSES_ARGUMENTS.index(b"\n\n") + 2],
        ),
        (MESSAGES, MESSAGES_START + MESSAGES_PING, MESSAGES_TEXT),
        (
            MESSAGES,
            MESSAGES_START,
            MESSAGES_TEXT.split(b"\n\n")[0].replace(b'""', b'"x"') + b"\n\n",
        ),
        (MESSAGES, MESSAGES_START + MESSAGES_THINKING_START, MESSAGES_THINKING),
        (MESSAGES, MESSAGES_START + MESSAGES_PING, MESSAGES_TOOL),
    ],
)


@OPENINGS
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_openings_deliver_nothing_and_the_first_word_does(
    wire: Translating, opening: bytes, first: bytes, end: bytes
) -> None:
    opening, first = opening.replace(b"\n", end), first.replace(b"\n", end)
    stream = opening + first
    for cut in range(len(stream)):
        carried = PassThrough(wire, GLANCE)
        assert carried.carry(stream[:cut]) == stream[:cut]
        assert not carried.delivered
        assert carried.broken() is None
        assert carried.carry(stream[cut:]) == stream[cut:]
        assert carried.delivered


@OPENINGS
def test_what_follows_the_first_word_is_not_read(
    wire: Translating, opening: bytes, first: bytes
) -> None:
    nonsense = b"data: what is this\n\n"
    stream = opening + first + nonsense
    for cut in range(len(stream)):
        carried = PassThrough(wire, GLANCE)
        assert carried.carry(stream[:cut]) + carried.carry(stream[cut:]) == stream
        assert carried.delivered
        assert carried.broken() is None


@pytest.mark.parametrize(
    "said", [b"error", b'\\"error\\":{', b"response.failed", b'\\"type\\":\\"error\\"']
)
@pytest.mark.parametrize(
    ("wire", "text"),
    [(CHAT, CHAT_TEXT), (RESPONSES, RESPONSES_TEXT), (MESSAGES, MESSAGES_TEXT)],
    ids=["chat", "responses", "messages"],
)
def test_words_that_look_like_a_failure_are_none(
    wire: Translating, text: bytes, said: bytes
) -> None:
    carried = PassThrough(wire, GLANCE)
    carried.carry(text.replace(b"Hi", said))
    assert carried.delivered
    assert carried.broken() is None


@pytest.mark.parametrize(
    ("wire", "failure"),
    [
        (CHAT, b'data: {"error": "Sorry"}\n\n'),
        (CHAT, b'data: {"error"  :  {"message":"Sorry"}}\n\n' + b"data: [DONE]\n\n"),
        (
            RESPONSES,
            RESPONSES_FAILED.replace(b'{"code":"server_error","message":"Sorry"}', b"null"),
        ),
        (RESPONSES, RESPONSES_ERROR.replace(b'"type":"error"', b'"type" : "error"')),
        (MESSAGES, b'data: {"type":"error"}\n\n'),
    ],
)
def test_failures_however_they_are_written(wire: Translating, failure: bytes) -> None:
    text = {CHAT.name: CHAT_TEXT, RESPONSES.name: RESPONSES_TEXT, MESSAGES.name: MESSAGES_TEXT}
    carried = PassThrough(wire, GLANCE)
    carried.carry(text[wire.name])
    assert carried.broken() is None
    carried.carry(failure)
    assert carried.broken() is not None


def _translated(*events: Started | Finished) -> Translated:
    writer = MESSAGES.writer(GLANCE)
    carried = Translated(MESSAGES, CHAT, GLANCE, mask=str)
    for event in events:
        carried.carry(writer.write(event))
    return carried


def test_usage_of_nothing_at_all_is_not_known() -> None:
    carried = _translated(Started("a", "m"), Finished(Finish.STOP, Usage()))
    assert carried.ended
    assert carried.usage is None


def test_usage_that_is_told_is_known() -> None:
    usage = Usage(input=3, output=5)
    assert _translated(Started("a", "m"), Finished(Finish.STOP, usage)).usage == usage
