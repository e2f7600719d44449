"""What is written can be read again, in each dialect and across."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integrations.models.wires.conversations import (
    answers,
    conversations,
    gathered,
    streamed,
)

from agentos.integrations.models.conversation import (
    Answer,
    Conversation,
    Finish,
    StreamEvent,
    Thinking,
    Usage,
)
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    MalformedRequest,
    Translating,
)
from agentos.integrations.models.wires.openai_chat import CHAT
from agentos.integrations.models.wires.openai_responses import RESPONSES

GLANCE = Glance("asked", stream=True, max_output=None)
WIRES = pytest.mark.parametrize("wire", [CHAT, MESSAGES], ids=["chat", "messages"])


@WIRES
@given(conversation=conversations())
def test_requests(wire: Translating, conversation: Conversation) -> None:
    written = wire.write_request(conversation, "theirs")
    assert wire.read_request(written) == msgspec.structs.replace(conversation, model="theirs")
    assert wire.glance(written).model == "theirs"
    assert wire.glance(written).max_output == conversation.max_tokens


@given(conversation=conversations())
def test_requests_carried_over_and_back(conversation: Conversation) -> None:
    over = MESSAGES.write_request(CHAT.read_request(CHAT.write_request(conversation, "a")), "b")
    back = CHAT.read_request(CHAT.write_request(MESSAGES.read_request(over), "c"))
    assert back == msgspec.structs.replace(conversation, model="c")


@WIRES
@given(answer=answers())
def test_answers(wire: Translating, answer: Answer) -> None:
    written = wire.write_answer(answer)
    assert wire.read_answer(written) == answer
    assert wire.usage(written) == answer.usage


@WIRES
@given(answer=answers(), cuts=st.lists(st.integers(0, 2000), max_size=6))
def test_streams(wire: Translating, answer: Answer, cuts: list[int]) -> None:
    writer = wire.writer(GLANCE)
    stream = b"".join(writer.write(event) for event in streamed(answer))
    reader = wire.reader()
    meter = wire.meter(GLANCE)
    events: list[StreamEvent] = []
    passed = b""
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in pairwise(places):
        assert not reader.ended
        events += reader.feed(stream[start:end])
        passed += meter.pass_on(stream[start:end])
    assert gathered(events) == answer
    assert passed == stream
    assert reader.ended
    assert meter.ended
    assert meter.usage == answer.usage


def test_a_signature_goes_round_in_messages_only() -> None:
    answer = Answer("a", "m", [Thinking("hm", "c2ln")], Finish.STOP, Usage(input=1))
    assert MESSAGES.read_answer(MESSAGES.write_answer(answer)) == answer
    assert CHAT.read_answer(CHAT.write_answer(answer)).parts == [Thinking("hm")]
    writer = MESSAGES.writer(GLANCE)
    stream = b"".join(writer.write(event) for event in streamed(answer))
    assert gathered(MESSAGES.reader().feed(stream)) == answer


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES], ids=["chat", "messages", "responses"])
def test_json_nested_without_end_is_malformed_and_nothing_worse(wire: Translating) -> None:
    request = b'{"model":"m","max_tokens":1,"messages":[],"input":[],"x":' + DEEP + b"}"
    for read in (wire.glance, wire.read_request):
        with pytest.raises(MalformedRequest, match="too deeply"):
            read(request)
    with pytest.raises(MalformedRequest, match="too deeply"):
        wire.for_provider(request, GLANCE, "theirs")
    assert wire.usage(request) is None
    assert wire.error_class(400, request)[0] is ErrorClass.INVALID
    assert wire.retry_after(request) is None
    event = b'data: {"usage":{"x":' + DEEP + b"}}\n\n"
    with pytest.raises(MalformedAnswer):
        wire.read_answer(request)
    with pytest.raises(MalformedAnswer):
        wire.reader().feed(event)
    assert wire.meter(GLANCE).pass_on(event) == event
