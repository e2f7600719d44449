"""The wire of Anthropic's messages."""

from __future__ import annotations

import re

import msgspec

from agentos.integrations.models.conversation import Answer, Conversation, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import (
    anthropic_answers,
    anthropic_errors,
    anthropic_requests,
    glancing,
    sse,
    turns,
)
from agentos.integrations.models.wires.anthropic_usage import MessageUsage
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedRequest,
    StreamMeter,
    TellsNoWait,
    WireName,
)
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.metering import EventMeter

# Thinking that no Claude signed: written by AgentOS for another vendor's model. Claude refuses it.
_UNSIGNED = re.compile(rb'"signature"\s*:\s*""')
_GOOGLES = b'"' + turns.GOOGLES.encode()
# Images and documents by URL, and files that Anthropic keeps. A mere `url` says nothing: tools are
# often called with one.
_SOURCE = re.compile(rb'"type"\s*:\s*"(?:url|file|container_upload)"')
# Tools that the caller runs. All others are run at Anthropic, and read what they find.
_CALLERS_TOOLS = ("custom", "bash_", "text_editor_", "memory_", "computer_")


class _ToolType(msgspec.Struct, gc=False):
    type: str | None = None

    def reads_more(self) -> bool:
        return self.type is not None and not self.type.startswith(_CALLERS_TOOLS)


class _Request(msgspec.Struct):
    model: str
    messages: msgspec.Raw
    max_tokens: int | None = None
    stream: bool | None = None
    tools: list[_ToolType] | None = None
    mcp_servers: list[msgspec.Raw] | None = None
    container: msgspec.Raw = msgspec.Raw()
    thread: msgspec.Raw = msgspec.Raw()
    service_tier: str | None = None

    def reads_more(self) -> bool:
        """Whether the answer may need more than what the request holds."""
        return (
            bool(self.mcp_servers)
            or glancing.given(self.container)
            or glancing.given(self.thread)
            or any(tool.reads_more() for tool in self.tools or ())
        )


class _Answered(msgspec.Struct):
    usage: MessageUsage | None = None


class _Event(msgspec.Struct):
    """The fields of an event that metering looks at."""

    type: str = ""
    message: _Answered | None = None
    usage: MessageUsage | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_ANSWERED = msgspec.json.Decoder(_Answered)
_EVENT = msgspec.json.Decoder(_Event)


class AnthropicMessages(TellsNoWait):
    name = WireName.MESSAGES

    def glance(self, body: bytes) -> Glance:
        request = glancing.decode(_REQUEST, body)
        glancing.listed(request.messages)
        most = glancing.limit(request.max_tokens, "max_tokens")
        if most is None:
            raise MalformedRequest("`max_tokens` is missing: say how much may be written at most.")
        return Glance(
            model=glancing.named(request.model),
            stream=request.stream is True,
            max_output=most,
            open_ended=request.reads_more() or glancing.refers_outside(body, _SOURCE),
            service_tier=request.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        foreign = _GOOGLES in body or _UNSIGNED.search(body) is not None
        if model == glance.model and not foreign:
            return body
        request = glancing.fields(body)
        request["model"] = model
        if foreign:
            request["messages"] = anthropic_requests.without_foreign(request["messages"])
        return msgspec.json.encode(request)

    def usage(self, body: bytes) -> Usage | None:
        try:
            told = _ANSWERED.decode(body).usage
        except UNREADABLE:
            return None
        return None if told is None else told.read()

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - asked for by Wire
        return MessagesMeter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return anthropic_errors.error_class(status, body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return anthropic_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return anthropic_errors.stream_error(error_class, code, message)

    def read_request(self, body: bytes) -> Conversation:
        return anthropic_requests.read(body)

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        return anthropic_requests.write(conversation, model)

    def read_answer(self, body: bytes) -> Answer:
        return anthropic_answers.read(body)

    def write_answer(self, answer: Answer) -> bytes:
        return anthropic_answers.write(answer)

    def reader(self) -> anthropic_answers.MessagesReader:
        return anthropic_answers.MessagesReader()

    def writer(self, glance: Glance) -> anthropic_answers.MessagesWriter:  # noqa: ARG002 - asked for by Translating
        return anthropic_answers.MessagesWriter()


class MessagesMeter(EventMeter):
    """Watches a stream of a message. Its usage is known from the start, and only then complete
    when the stream has ended: before, the output counts what was written when it began.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        super().__init__(b"message_stop", anthropic_answers.MessagesReader())
        self._told = MessageUsage()

    def _see(self, event: bytes) -> None:
        data = sse.parse(event)[1]
        if not data:
            return
        try:
            seen = _EVENT.decode(data)
        except UNREADABLE:
            return
        told = seen.message.usage if seen.message is not None else seen.usage
        if told is not None:
            self._told = self._told.then(told)
            self.usage = self._told.read()
        if seen.type == "message_stop":
            self.ended = True


MESSAGES = AnthropicMessages()
