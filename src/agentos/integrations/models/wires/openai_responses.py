"""The wire of OpenAI's Responses API."""

from __future__ import annotations

import re

import msgspec

from agentos.integrations.models.conversation import Answer, Conversation, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import (
    glancing,
    openai_errors,
    openai_responses_reading,
    openai_responses_requests,
    openai_responses_writing,
    sse,
)
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedRequest,
    StreamMeter,
    WireName,
)
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.metering import Sample
from agentos.integrations.models.wires.openai_responses_items import KIND
from agentos.integrations.models.wires.openai_responses_usage import ResponseUsage

# Tools that are run by the caller, who sends what they found: it is in the request.
_OWN_TOOLS = frozenset({"function", "custom"})
_ELSEWHERE = (b'"file_id"', b'"file_url"', b'"item_reference"')
_IMAGE = re.compile(rb'"image_url"\s*:\s*"(?!data:)')

# Also where it is said, not meant: then the events are looked at, and that is all.
_MATTERS = re.compile(rb"response\.(?:completed|incomplete|failed)")
# OpenAI names its events; those who imitate it may say the type in the data alone.
_EVENT_NAME = re.compile(rb'(?:event: ?|data: ?\{"type": ?")(response\.[a-z_.]+|error)')
# After the opening, something is written. Within a text, the quotes would be escaped.
_BEGUN = re.compile(rb'"type"\s*:\s*"response\.(?:[a-z_.]+\.delta|output_item\.[a-z]+)"')
_ENDS = frozenset({b"response.completed", b"response.incomplete"})
_FAILED = b"response.failed"


class _ToolKind(msgspec.Struct, gc=False):
    type: str = ""


class _Request(msgspec.Struct):
    model: str
    stream: bool | None = None
    max_output_tokens: int | None = None
    input: msgspec.Raw = msgspec.Raw()
    previous_response_id: str | None = None
    conversation: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    tools: list[_ToolKind] | None = None
    background: bool | None = None
    service_tier: str | None = None

    def builds_on_kept(self) -> bool:
        """Whether it goes on from something that OpenAI keeps."""
        return (
            bool(self.previous_response_id)
            or glancing.given(self.conversation)
            or glancing.given(self.prompt)
        )

    def open_ended(self) -> bool:
        if self.builds_on_kept():
            return True
        if self.tools and any(tool.type not in _OWN_TOOLS for tool in self.tools):
            return True
        items = bytes(self.input)
        if not items.startswith(b"["):
            return False
        return any(mark in items for mark in _ELSEWHERE) or glancing.refers_outside(items, _IMAGE)


class _Answered(msgspec.Struct):
    usage: ResponseUsage | None = None


class _Ended(msgspec.Struct):
    response: _Answered


_REQUEST = msgspec.json.Decoder(_Request)
_ANSWERED = msgspec.json.Decoder(_Answered)
_ENDED = msgspec.json.Decoder(_Ended)


class OpenAIResponses:
    name = WireName.RESPONSES

    def glance(self, body: bytes) -> Glance:
        request = glancing.decode(_REQUEST, body)
        if request.background:
            # Nobody would be there to see what it has used.
            raise MalformedRequest(
                "`background` is not available here.", hint="Leave it out, and use `stream`."
            )
        if not glancing.given(request.input) and not request.builds_on_kept():
            raise MalformedRequest("`input` is missing.")
        return Glance(
            model=glancing.named(request.model),
            stream=request.stream is True,
            max_output=glancing.limit(request.max_output_tokens, "max_output_tokens"),
            open_ended=request.open_ended(),
            service_tier=request.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        if model == glance.model:
            return body
        return msgspec.json.encode({**glancing.fields(body), "model": model})

    def usage(self, body: bytes) -> Usage | None:
        try:
            told = _ANSWERED.decode(body).usage
        except UNREADABLE:
            return None
        return None if told is None else told.read()

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - usage is always told
        return ResponsesMeter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return openai_errors.error_class(status, body)

    def retry_after(self, body: bytes) -> float | None:
        return openai_errors.retry_after(body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return openai_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return openai_responses_writing.stream_error(0, error_class, code, message)

    def read_request(self, body: bytes) -> Conversation:
        return openai_responses_requests.read(body)

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        return openai_responses_requests.write(conversation, model)

    def read_answer(self, body: bytes) -> Answer:
        return openai_responses_reading.read(body)

    def write_answer(self, answer: Answer) -> bytes:
        return openai_responses_writing.write(answer)

    def reader(self) -> openai_responses_reading.ResponsesReader:
        return openai_responses_reading.ResponsesReader()

    def writer(self, glance: Glance) -> openai_responses_writing.ResponsesWriter:
        return openai_responses_writing.ResponsesWriter(glance)


class ResponsesMeter:
    """Watches the stream of a response. Only its end tells usage; a failure is no end."""

    __slots__ = ("_begun", "_blocks", "_sample", "ended", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.ended = False
        self._blocks = sse.Blocks()
        # From the first item on: the opening repeats the request, however long that is.
        self._sample = Sample()
        self._begun = False

    def pass_on(self, data: bytes) -> bytes:
        """Raises MalformedAnswer if an event has no end."""
        block = self._blocks.feed(data)
        if block:
            self._keep(block)
            for start, end in sse.around(block, _MATTERS):
                self._see(block[start:end])
        return data

    def estimate(self) -> int:
        return self._sample.tokens(openai_responses_reading.ResponsesReader())

    def _keep(self, block: bytes) -> None:
        if self._begun:
            self._sample.add(block)
        elif (found := _BEGUN.search(block)) is not None:
            self._begun = True
            self._sample.add(block[sse.bounds(block, found.start())[0] :])

    def _see(self, event: bytes) -> None:
        found = _EVENT_NAME.match(event)
        name = found[1] if found else _type_within(event)
        if name in _ENDS or name == _FAILED:
            self.ended = self.ended or name in _ENDS
            self.usage = _usage_at_end(event)


def _type_within(event: bytes) -> bytes:
    try:
        return KIND.decode(sse.parse(event)[1]).type.encode()
    except UNREADABLE:
        return b""


def _usage_at_end(event: bytes) -> Usage | None:
    try:
        told = _ENDED.decode(sse.parse(event)[1]).response.usage
    except UNREADABLE:
        return None
    return None if told is None else told.read()


RESPONSES = OpenAIResponses()
