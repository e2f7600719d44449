"""The wire of Anthropic's token counting."""

from __future__ import annotations

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import anthropic_errors, glancing
from agentos.integrations.models.wires.base import Glance, StreamMeter, TellsNoWait, WireName
from agentos.integrations.models.wires.metering import NoStream


class _Request(msgspec.Struct, gc=False):
    model: str
    messages: msgspec.Raw


_REQUEST = msgspec.json.Decoder(_Request)


class AnthropicCountTokens(TellsNoWait):
    name = WireName.COUNT_TOKENS

    def glance(self, body: bytes) -> Glance:
        request = glancing.decode(_REQUEST, body)
        glancing.listed(request.messages)
        return Glance(model=glancing.named(request.model), stream=False, max_output=0)

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        if model == glance.model:
            return body
        return msgspec.json.encode({**glancing.fields(body), "model": model})

    def usage(self, body: bytes) -> Usage | None:  # noqa: ARG002 - asked for by Wire
        """None of it: counting is free, and what is counted is not used."""
        return Usage()

    def meter(self, glance: Glance) -> StreamMeter:  # noqa: ARG002 - asked for by Wire
        return NoStream()

    def answer(self, input_tokens: int) -> bytes:
        """The answer for models whose provider has no such call."""
        return msgspec.json.encode({"input_tokens": input_tokens})

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return anthropic_errors.error_class(status, body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return anthropic_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return anthropic_errors.stream_error(error_class, code, message)


COUNT_TOKENS = AnthropicCountTokens()
