"""The wire of OpenAI's chat completions, which most other vendors speak too."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agentos.integrations.models.conversation import Answer, Conversation, Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import (
    glancing,
    openai_chat_answers,
    openai_chat_models,
    openai_chat_requests,
    openai_errors,
    sse,
)
from agentos.integrations.models.wires.base import Glance, StreamMeter, WireName
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.integrations.models.wires.metering import USAGE, EventMeter
from agentos.integrations.models.wires.openai_chat_usage import ChatUsage

_DONE = b"data: [DONE]"
# A URL that is not the data itself; a file that the provider keeps.
_URL = re.compile(rb'url"\s*:\s*"(?!data:)')
_FILE = re.compile(rb'"file_id"\s*:')


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


class _Request(msgspec.Struct, gc=False):
    model: str
    messages: msgspec.Raw
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    service_tier: str | None = None
    web_search_options: msgspec.Raw = msgspec.Raw()


class _Answered(msgspec.Struct):
    usage: ChatUsage | None = None


class _GroqUsage(msgspec.Struct):
    usage: ChatUsage | None = None


class _Chunk(msgspec.Struct):
    """The fields of a chunk that metering looks at."""

    choices: list[Any] = []
    usage: ChatUsage | None = None
    x_groq: _GroqUsage | None = None
    error: Any = None

    def told(self) -> ChatUsage | None:
        if self.usage is None and self.x_groq is not None:
            return self.x_groq.usage
        return self.usage


_REQUEST = msgspec.json.Decoder(_Request)
_ANSWERED = msgspec.json.Decoder(_Answered)
_CHUNK = msgspec.json.Decoder(_Chunk)


class OpenAIChat:
    name = WireName.CHAT

    def glance(self, body: bytes) -> Glance:
        request = glancing.decode(_REQUEST, body)
        glancing.listed(request.messages)
        most = glancing.limit(request.max_completion_tokens, "max_completion_tokens")
        if most is None:
            most = glancing.limit(request.max_tokens, "max_tokens")
        choices = glancing.limit(request.n, "n") or 1
        options = request.stream_options
        return Glance(
            model=glancing.named(request.model),
            stream=request.stream is True,
            max_output=None if most is None else most * choices,
            open_ended=glancing.given(request.web_search_options)
            or glancing.refers_outside(body, _URL, _FILE),
            wants_usage=not request.stream or (options is not None and bool(options.include_usage)),
            service_tier=request.service_tier,
        )

    def for_provider(self, body: bytes, glance: Glance, model: str) -> bytes:
        # Mistral refuses to be asked for usage, and tells it anyway.
        mistral = openai_chat_models.is_mistral(model)
        drop = mistral and b'"stream_options"' in body
        ask = glance.stream and not glance.wants_usage and not mistral
        if model == glance.model and not drop and not ask:
            return body
        request = glancing.fields(body)
        request["model"] = model
        if drop:
            request.pop("stream_options", None)
        if ask:
            options = request.get("stream_options")
            request["stream_options"] = {
                **({} if options is None else glancing.fields(options)),
                "include_usage": True,
            }
        return msgspec.json.encode(request)

    def usage(self, body: bytes) -> Usage | None:
        try:
            told = _ANSWERED.decode(body).usage
        except UNREADABLE:
            return None
        return None if told is None else told.read()

    def meter(self, glance: Glance) -> StreamMeter:
        return ChatMeter() if glance.wants_usage else HidingChatMeter()

    def error_class(self, status: int, body: bytes) -> tuple[ErrorClass, str]:
        return openai_errors.error_class(status, body)

    def retry_after(self, body: bytes) -> float | None:
        return openai_errors.retry_after(body)

    def error(self, status: int, error_class: str, code: str, message: str) -> bytes:
        return openai_errors.error(status, error_class, code, message)

    def stream_error(self, error_class: str, code: str, message: str) -> bytes:
        return openai_chat_answers.stream_error(error_class, code, message)

    def read_request(self, body: bytes) -> Conversation:
        return openai_chat_requests.read(body)

    def write_request(self, conversation: Conversation, model: str) -> bytes:
        return openai_chat_requests.write(conversation, model)

    def read_answer(self, body: bytes) -> Answer:
        return openai_chat_answers.read(body)

    def write_answer(self, answer: Answer) -> bytes:
        return openai_chat_answers.write(answer)

    def reader(self) -> openai_chat_answers.ChatReader:
        return openai_chat_answers.ChatReader()

    def writer(self, glance: Glance) -> openai_chat_answers.ChatWriter:
        return openai_chat_answers.ChatWriter(wants_usage=glance.wants_usage)


class ChatMeter(EventMeter):
    """Watches a chat stream whose caller asked for its usage: every byte goes on at once."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(b"[DONE]", openai_chat_answers.ChatReader())

    def pass_on(self, data: bytes) -> bytes:
        passed = super().pass_on(data)
        if self._blocks.waits_with(_DONE):
            # Some end without the blank line.
            self.ended = True
        return passed

    def _see(self, event: bytes) -> None:
        self._look(event)

    def _look(self, event: bytes) -> bool:
        """Notes what an event tells; whether it tells its usage and nothing else."""
        data = sse.parse(event)[1]
        if data.startswith(b"[DONE]"):
            self.ended = True
            return False
        if not data:
            return False
        try:
            chunk = _CHUNK.decode(data)
        except UNREADABLE:
            return False
        told = chunk.told()
        if told is not None:
            self.usage = told.read()
        return told is not None and not chunk.choices and chunk.error is None


class HidingChatMeter(ChatMeter):
    """Watches a chat stream whose caller did not ask for its usage, and keeps that from them.

    Holds an event back until it is whole, because its end may say what it is.
    """

    __slots__ = ()

    def pass_on(self, data: bytes) -> bytes:
        self._sample.add(data)
        block = self._blocks.feed(data)
        if block:
            block = self._without_usage(block)
            self._look_for_end(block)
        if self._blocks.waits_with(_DONE):
            self.ended = True
        # After the end there is nothing to hide.
        return block + self._blocks.take() if self.ended else block

    def _without_usage(self, block: bytes) -> bytes:
        kept: list[bytes] = []
        at = 0
        for start, end in sse.around(block, USAGE):
            if self._look(block[start:end]):
                kept.append(block[at:start])
                at = end
        return b"".join([*kept, block[at:]]) if kept else block


CHAT = OpenAIChat()
