"""The wire of OpenAI's embeddings."""

from __future__ import annotations

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import glancing, openai_chat_answers, openai_errors
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedRequest,
    StreamMeter,
    WireName,
)
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.metering import NoStream
from agentos.integrations.models.wires.openai_chat_usage import ChatUsage

# A text, or a list of texts, of tokens, or of lists of tokens.
_INPUT_STARTS = b'"['


class _Request(msgspec.Struct, gc=False):
    model: str
    input: msgspec.Raw


class _Answered(msgspec.Struct):
    usage: ChatUsage | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_ANSWERED = msgspec.json.Decoder(_Answered)


class OpenAIEmbeddings:
    name = WireName.EMBEDDINGS

    def glance(self, body: bytes) -> Glance:
        request = glancing.decode(_REQUEST, body)
        if memoryview(request.input)[0] not in _INPUT_STARTS:
            raise MalformedRequest("`input` has to be a text or a list.")
        return Glance(model=glancing.named(request.model), stream=False, max_output=0)

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        if model == glance.model:
            return body
        return msgspec.json.encode({**glancing.fields(body), "model": model})

    def usage(self, body: bytes) -> Usage | None:
        try:
            told = _ANSWERED.decode(body).usage
        except UNREADABLE:
            return None
        # Nothing is written, whatever a total may say.
        return None if told is None else Usage(input=told.prompt_tokens or told.total_tokens or 0)

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - asked for by Wire
        return NoStream()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return openai_errors.error_class(status, body)

    def retry_after(self, body: bytes) -> float | None:
        return openai_errors.retry_after(body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return openai_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return openai_chat_answers.stream_error(error_class, code, message)


EMBEDDINGS = OpenAIEmbeddings()
