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
