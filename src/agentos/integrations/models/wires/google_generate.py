"""The wire of Google's Gemini API: `generateContent` and `streamGenerateContent?alt=sse`.

The model and whether to stream stand in the URL, not in the body.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from agentos.integrations.models.conversation import Answer, Conversation, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import (
    glancing,
    google_generate_answers,
    google_generate_errors,
    google_generate_requests,
    sse,
)
from agentos.integrations.models.wires.base import Glance, StreamMeter, WireName
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.google_generate_answers import GenerateUsage
from agentos.integrations.models.wires.metering import Sample


class _Answered(msgspec.Struct, rename="camel"):
    usage_metadata: GenerateUsage | None = None


_ANSWERED = msgspec.json.Decoder(_Answered)


class GoogleGenerate:
    name = WireName.GENERATE

    def glance(self, body: bytes) -> Glance:
        """The model is empty and `stream` false, for both are in the URL."""
        request = glancing.decode(google_generate_requests.REQUEST, body)
        generation = request.generation_config or google_generate_requests.Generation()
        most = glancing.limit(generation.max_output_tokens, "maxOutputTokens")
        candidates = glancing.limit(generation.candidate_count, "candidateCount") or 1
        own_tools = (tool.function_declarations is not UNSET for tool in request.tools or [])
        parts = (part for content in request.contents for part in content.parts or [])
        return Glance(
            model="",
            stream=False,
            max_output=None if most is None else most * candidates,
            open_ended=(
                request.cached_content is not None
                or not all(own_tools)
                or any(part.file_data is not None for part in parts)
            ),
            service_tier=request.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:  # noqa: ARG002 - the model is in the URL
        return body

    def usage(self, body: bytes) -> Usage | None:
        try:
            told = _ANSWERED.decode(body).usage_metadata
        except UNREADABLE:
            return None
        return None if told is None else told.read()

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - usage is always told
        return GenerateMeter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return google_generate_errors.error_class(status, body)

    def retry_after(self, body: bytes) -> float | None:
        return google_generate_errors.retry_after(body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return google_generate_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return google_generate_errors.stream_error(error_class, code, message)

    def read_request(self, body: bytes) -> Conversation:
        return google_generate_requests.read(body)

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        return google_generate_requests.write(conversation, model)

    def read_answer(self, body: bytes) -> Answer:
        return google_generate_answers.read(body)

    def write_answer(self, answer: Answer) -> bytes:
        return google_generate_answers.write(answer)

    def reader(self) -> google_generate_answers.GenerateReader:
        return google_generate_answers.GenerateReader()

    def writer(self, glance: Glance) -> google_generate_answers.GenerateWriter:  # noqa: ARG002 - nothing of it matters here
        return google_generate_answers.GenerateWriter()


class GenerateMeter:
    """Reads every event: nobody calls AgentOS in this dialect, so no caller waits for it."""

    __slots__ = ("_cutter", "_sample", "ended", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.ended = False
        self._cutter = sse.Cutter()
        self._sample = Sample()

    def pass_on(self, data: bytes) -> bytes:
        """Raises MalformedAnswer if an event has no end."""
        for event in self._cutter.feed(data):
            self._see(event)
        return data

    def estimate(self) -> int:
        return self._sample.tokens(google_generate_answers.GenerateReader())

    def _see(self, event: bytes) -> None:
        self._sample.add(event)
        try:
            response = google_generate_answers.RESPONSE.decode(sse.parse(event)[1])
        except UNREADABLE:
            return
        if response.usage_metadata is not None:
            self.usage = response.usage_metadata.read()
        self.ended = self.ended or google_generate_answers.end(response) is not None


GENERATE = GoogleGenerate()
