"""Chat completions, embeddings and model lists, as OpenAI and those who follow it speak them."""

from __future__ import annotations

import base64
import hashlib
import struct
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from agentos.testing.answers import (
    Answer,
    AnsweredTool,
    Prompt,
    members,
    objects,
    said,
)
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.base import VendorServer
from agentos.testing.vendors.endpoints import Endpoint, Frame, Incoming, Refusal, Route

_MOST_CHOICES = 128
_MOST_DIMENSIONS = 4096
DONE = Frame(b"data: [DONE]\n\n")
FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "filtered": "content_filter",
}


class OpenAILike(VendorServer):
    """A server of OpenAI's shape: a bearer key, errors under `error`, data-only events."""

    prefix = "/v1"
    # Path that the routes of the API start with, where it differs from the base URL's.
    api: ClassVar[str] = ""
    owner: ClassVar[str] = "system"

    def chat(self) -> Chat:
        return Chat(self)

    def routes(self) -> list[Route]:
        api = self.api or self.prefix
        return [
            Route("POST", f"{api}/chat/completions", self.chat()),
            Route("POST", f"{api}/embeddings", Embeddings(self)),
            Route("GET", f"{api}/models", Models(self)),
        ]

    def authorize(self, incoming: Incoming) -> None:
        given = incoming.headers.get("Authorization", "")
        if not given:
            raise self.no_key()
        if given != f"Bearer {self.key}":
            raise self.wrong_key(given.removeprefix("Bearer "))

    def no_key(self) -> Refusal:
        return self.refusal(FaultKind.AUTH, "", None)

    def wrong_key(self, given: str) -> Refusal:  # noqa: ARG002 - some vendors repeat it, masked
        return self.refusal(FaultKind.AUTH, "", None)

    def invalid(self, message: str, field: str | None = None) -> Refusal:
        return self.error(400, message, "invalid_request_error", param=field)

    def unknown_path(self, incoming: Incoming) -> Refusal:
        message = f"Invalid URL ({incoming.method} {incoming.path})"
        return self.error(404, message, "invalid_request_error")

    def error(
        self,
        status: int,
        message: str,
        type: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Refusal:
        error = {"message": message, "type": type, "param": param, "code": code}
        return Refusal(status, {"error": error}, headers)

    def body(self, incoming: Incoming) -> dict[str, Any]:
        if incoming.json is None:
            raise self.invalid("We could not parse the JSON body of your request.")
        return incoming.json

    def known_model(self, body: dict[str, Any]) -> str:
        model = body.get("model")
        if not isinstance(model, str) or not model:
            raise self.invalid("you must provide a model parameter")
        if model not in self.models:
            raise self.refusal(FaultKind.MODEL_NOT_FOUND, model, None)
        return model

    def number(self, body: dict[str, Any], *names: str, most: int | None = None) -> int | None:
        """The first of these fields that is given. Raises Refusal unless it is a count."""
        name = next((name for name in names if body.get(name) is not None), None)
        if name is None:
            return None
        value = body[name]
        right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not right or (most is not None and value > most):
            raise self.invalid(f"Invalid value for '{name}': expected a positive integer.", name)
        return int(value)

    def model_entry(self, model: str) -> dict[str, Any]:
        return {"id": model, "object": "model", "created": 1_750_000_000, "owned_by": self.owner}


class Chat(Endpoint):
    name = "chat"
    # Whether a tool call comes as one event, its arguments unbroken.
    tools_at_once: ClassVar[bool] = False

    def __init__(self, server: OpenAILike) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        body = self.server.body(incoming)
        model = self.server.known_model(body)
        messages = objects(body.get("messages"))
        if not messages:
            raise self.server.invalid("Missing required parameter: 'messages'.", "messages")
        texts, last = said(messages, lambda message: message.get("content"))
        return Prompt(
            model=model,
            text="\n".join(texts),
            last=last,
            max_tokens=self.server.number(body, "max_completion_tokens", "max_tokens"),
            stream=bool(body.get("stream")),
            choices=self.server.number(body, "n", most=_MOST_CHOICES) or 1,
            body=body,
        )

    # In one piece

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        return {
            **self.stamp(answer, "chat.completion"),
            "choices": [
                {
                    "index": index,
                    "message": self.message(answer),
                    "logprobs": None,
                    "finish_reason": FINISH[answer.finish],
                }
                for index in range(prompt.choices)
            ],
            "usage": self.usage(prompt, answer),
        }

    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        """What every answer and every event begins with."""
        return {
            "id": f"chatcmpl-{answer.number:029d}",
            "object": object,
            "created": int(time.time()),
            "model": answer.model,
        }

    def message(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": answer.text if answer.text or not answer.tools else None,
        }
        if answer.tools:
            message["tool_calls"] = [
                {
                    "id": self.tool_id(answer, index),
                    "type": "function",
                    "function": {"name": tool.name, "arguments": tool.arguments},
                }
                for index, tool in enumerate(answer.tools)
            ]
        return message

    def usage(self, prompt: Prompt, answer: Answer) -> dict[str, Any]:
        output = answer.output_tokens * prompt.choices
        return {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": output,
            "total_tokens": answer.input_tokens + output,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
            "completion_tokens_details": {
                "reasoning_tokens": answer.reasoning_tokens * prompt.choices
            },
        }

    def tool_id(self, answer: Answer, index: int) -> str:
        return answer.tools[index].id or f"call_{answer.number:016d}{index:08d}"

    # As a stream

    def frames(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        for index in range(prompt.choices):
            yield self.delta(prompt, answer, index, self.opening(answer))
            for piece in answer.thinking_pieces:
                for delta in self.thinking_deltas(piece):
                    yield self.delta(prompt, answer, index, delta, content=True)
            for piece in answer.pieces:
                yield self.delta(prompt, answer, index, self.text_delta(piece), content=True)
            for at, tool in enumerate(answer.tools):
                for delta in self.tool_deltas(answer, at, tool):
                    yield self.delta(prompt, answer, index, delta, content=True)
        yield from self.closing(prompt, answer)
        yield DONE

    def opening(self, answer: Answer) -> dict[str, Any]:
        return {"role": "assistant", "content": None if answer.tools and not answer.text else ""}

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:  # noqa: ARG002 - OpenAI hides it
        return []

    def text_delta(self, piece: str) -> dict[str, Any]:
        return {"content": piece}

    def tool_deltas(self, answer: Answer, index: int, tool: AnsweredTool) -> list[dict[str, Any]]:
        function = {"name": tool.name, "arguments": tool.arguments if self.tools_at_once else ""}
        first = {
            "index": index,
            "id": self.tool_id(answer, index),
            "type": "function",
            "function": function,
        }
        rest = [] if self.tools_at_once else tool.pieces
        more = [{"index": index, "function": {"arguments": piece}} for piece in rest]
        return [{"tool_calls": [call]} for call in (first, *more)]

    def closing(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        """The ends of the choices, and the usage if it was asked for."""
        for index in range(prompt.choices):
            yield self.delta(prompt, answer, index, {}, finish=FINISH[answer.finish])
        if self.wants_usage(prompt):
            yield self.chunk(prompt, answer, [], usage=self.usage(prompt, answer))

    def wants_usage(self, prompt: Prompt) -> bool:
        return bool(members(prompt.body.get("stream_options")).get("include_usage"))

    def delta(
        self,
        prompt: Prompt,
        answer: Answer,
        index: int,
        delta: dict[str, Any],
        *,
        finish: str | None = None,
        content: bool = False,
        **more: Any,
    ) -> Frame:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self.chunk(prompt, answer, [choice], content=content, **more)

    def chunk(
        self,
        prompt: Prompt,  # noqa: ARG002 - some vendors look at what was asked
        answer: Answer,
        choices: list[dict[str, Any]],
        *,
        content: bool = False,
        **more: Any,
    ) -> Frame:
        stamp = self.stamp(answer, "chat.completion.chunk")
        return event({**stamp, "choices": choices, **more}, content=content)

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:  # noqa: ARG002
        return event(self.server.refusal(FaultKind.SERVER_ERROR, prompt.model, None).body).data


class Embeddings(Endpoint):
    name = "embeddings"
    size: ClassVar[int] = 16

    def __init__(self, server: OpenAILike) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        body = self.server.body(incoming)
        model = self.server.known_model(body)
        texts = _texts(body.get("input"))
        if not texts:
            raise self.server.invalid("Missing required parameter: 'input'.", "input")
        self.server.number(body, "dimensions", most=_MOST_DIMENSIONS)
        return Prompt(model=model, text="\n".join(texts), body=body)

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        plain = prompt.body.get("encoding_format") != "base64"
        size = prompt.body.get("dimensions") or self.size
        vectors = [_vector(text, size) for text in _texts(prompt.body["input"])]
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": i, "embedding": v if plain else _packed(v)}
                for i, v in enumerate(vectors)
            ],
            "model": answer.model,
            "usage": {
                "prompt_tokens": answer.input_tokens,
                "total_tokens": answer.input_tokens,
            },
        }


class Models(Endpoint):
    name = "models"
    in_turn = False

    def __init__(self, server: OpenAILike) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:  # noqa: ARG002 - there is nothing to read
        return Prompt()

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002
        return {"object": "list", "data": [self.server.model_entry(m) for m in self.server.models]}


def event(data: Any, *, content: bool = False) -> Frame:
    return Frame(b"data: " + msgspec.json.encode(data) + b"\n\n", content)


def retry_headers(retry_after: float | None) -> dict[str, str]:
    return {} if retry_after is None else {"retry-after": f"{retry_after:g}"}


def _texts(given: Any) -> list[str]:
    """The inputs of an embeddings request; tokens count as words of their own."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list):
        return []
    if given and isinstance(given[0], int):
        return [" ".join(str(token) for token in given)]
    return [text for one in given for text in _texts(one)]


def _vector(text: str, size: int) -> list[float]:
    """A unit vector that depends on the text alone."""
    seed = hashlib.shake_256(text.encode()).digest(size * 2)
    raw = [value / 32768 for value in struct.unpack(f"<{size}h", seed)]
    length = sum(value * value for value in raw) ** 0.5 or 1.0
    return [value / length for value in raw]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
