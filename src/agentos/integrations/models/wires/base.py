"""What a wire is: one vendor's way to put a model call into HTTP."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from agentos.integrations.models.conversation import Answer, Conversation, StreamEvent, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.kernel.errors import Invalid


class WireName(StrEnum):
    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    EMBEDDINGS = "openai.embeddings"
    MESSAGES = "anthropic.messages"
    COUNT_TOKENS = "anthropic.count_tokens"
    GENERATE = "google.generate"


# What an SDK says in headers about the wire it speaks, and a provider that speaks it has to hear.
WIRE_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")


class MalformedRequest(Invalid):
    """The request is not what this API expects."""

    code = "malformed_request"


class MalformedAnswer(ValueError):
    """A provider answered something that is not its own format."""


class Glance(msgspec.Struct, frozen=True):
    """What routing and reserving need to know of a request, read without decoding the rest."""

    model: str
    stream: bool
    # The most that may be written in all (times the number of choices); None: not limited.
    max_output: int | None
    # The request refers to content that is not in it (earlier responses, files, web search, URLs
    # of images), so that its size says nothing about how much will be read.
    open_ended: bool = False
    # A chat stream tells its usage only to those who ask.
    wants_usage: bool = True
    service_tier: str | None = None


class StreamReader(Protocol):
    """Reads a provider's stream. Bytes may be cut anywhere."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The events that are complete by now. Raises MalformedAnswer."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the stream said that it is over; one that stops before was cut."""
        ...


class StreamWriter(Protocol):
    """Writes a stream as this wire's servers do."""

    def write(self, event: StreamEvent) -> bytes: ...


class StreamMeter(Protocol):
    """Watches a stream that passes through, for what it says about usage and its end."""

    usage: Usage | None
    # Whether the stream said that it is over.
    ended: bool

    def pass_on(self, data: bytes) -> bytes:
        """What of `data` the caller should see: all of it, but for usage they did not ask for."""
        ...

    def estimate(self) -> int:
        """Output tokens that went by, by their length: for streams that end before they say."""
        ...


class Wire(Protocol):
    """Reads and writes one dialect. All of it pure: no I/O, no state but in readers and writers."""

    name: WireName

    def glance(self, body: bytes) -> Glance:
        """Raises MalformedRequest."""
        ...

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        """The caller's own bytes, with the model's name as the provider knows it and the stream's
        usage asked for. Returns `body` itself if nothing has to change.
        """
        ...

    def usage(self, body: bytes) -> Usage | None:
        """The usage in a whole answer."""
        ...

    def meter(self, glance: Glance) -> StreamMeter: ...

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        """The class and message of a provider's error answer."""
        ...

    def retry_after(self, body: bytes) -> float | None:
        """How many seconds the error's body says to wait; None if it does not say."""
        ...

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        """An error answer as this wire's SDKs expect it. `code` is ours, for people to look up."""
        ...

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        """The same in the middle of a stream."""
        ...


class TellsNoWait:
    """What wires share whose error bodies never say how long to wait."""

    def retry_after(self, body: bytes) -> float | None:  # noqa: ARG002 - asked for by Wire
        return None


class Translating(Wire, Protocol):
    """A wire whose calls can be carried over to another wire, or answered by the built-in model."""

    def read_request(self, body: bytes) -> Conversation:
        """Raises MalformedRequest."""
        ...

    def write_request(self, conversation: Conversation, model: str) -> bytes: ...

    def read_answer(self, body: bytes) -> Answer:
        """Raises MalformedAnswer."""
        ...

    def write_answer(self, answer: Answer) -> bytes: ...

    def reader(self) -> StreamReader: ...

    def writer(self, glance: Glance) -> StreamWriter: ...
