"""Anthropic: https://api.anthropic.com."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agentos.testing.answers import Answer, Prompt, count_of, count_tokens, objects, said, strings
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.base import VendorServer
from agentos.testing.vendors.endpoints import Endpoint, Frame, Incoming, Refusal, Route
from agentos.testing.vendors.openai_like import retry_headers

_STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "filtered": "refusal",
}
_PAGE = 20
_NEWEST = "2026-10-21"
_VERSIONS = ("2023-06-01", _NEWEST)


class AnthropicServer(VendorServer):
    """Messages, token counts and models of Anthropic."""

    vendor = "anthropic"
    key = "sk-ant-test-0000000000000000"
    models = (
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-opus-4-5",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
    )

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/messages", Messages(self)),
            Route("POST", "/v1/messages/count_tokens", CountTokens(self)),
            Route("GET", "/v1/models", Models(self)),
        ]

    def answer_headers(self, number: int) -> dict[str, str]:
        return {
            "request-id": f"req_{number:024d}",
            "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
        }

    def authorize(self, incoming: Incoming) -> None:
        # SDKs since version 2 send the key as a bearer token, older ones as x-api-key.
        bearer = incoming.headers.get("Authorization", "").removeprefix("Bearer ")
        given = incoming.headers.get("x-api-key") or bearer
        if not given:
            raise self.error(401, "authentication_error", "x-api-key header is required")
        if given != self.key:
            raise self.refusal(FaultKind.AUTH, "", None)
        version = incoming.headers.get("anthropic-version")
        if not version:
            raise self.invalid("anthropic-version: header is required")
        if version not in _VERSIONS:
            raise self.invalid(f'"{version}" is not a valid version', "anthropic-version")

    def invalid(self, message: str, field: str | None = None) -> Refusal:
        text = f"{field}: {message}" if field else message
        return self.error(400, "invalid_request_error", text)

    def unknown_path(self, incoming: Incoming) -> Refusal:  # noqa: ARG002 - it does not repeat it
        return self.error(404, "not_found_error", "Not Found")

    def error(
        self, status: int, type: str, message: str, headers: dict[str, str] | None = None
    ) -> Refusal:
        body = {
            "type": "error",
            "error": {"type": type, "message": message},
            "request_id": f"req_{self._answers:024d}",
        }
        return Refusal(status, body, headers)

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        match kind:
            case FaultKind.RATE_LIMIT:
                message = "This request would exceed the rate limit for your organization."
                left = {"anthropic-ratelimit-requests-remaining": "0", **headers}
                return self.error(429, "rate_limit_error", message, left)
            case FaultKind.NO_CREDIT:
                message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
                return self.error(400, "invalid_request_error", message)
            case FaultKind.OVERLOAD:
                return self.error(529, "overloaded_error", "Overloaded", headers)
            case FaultKind.AUTH:
                return self.error(401, "authentication_error", "invalid x-api-key")
            case FaultKind.CONTEXT_LENGTH:
                message = "prompt is too long: 200001 tokens > 200000 maximum"
                return self.error(400, "invalid_request_error", message)
            case FaultKind.MODEL_NOT_FOUND:
                return self.error(404, "not_found_error", f"model: {model}")
            case _:
                return self.error(500, "api_error", "Internal server error")

    def prompt(self, incoming: Incoming, needs: tuple[str, ...]) -> Prompt:
        """Reads what messages and token counts share."""
        body = incoming.json
        if body is None:
            raise self.invalid("The request body is not valid JSON")
        for name in needs:
            if name not in body:
                raise self.invalid("Field required", name)
        messages = objects(body["messages"])
        if not messages:
            raise self.invalid("at least one message is required", "messages")
        if incoming.headers["anthropic-version"] == _NEWEST:
            self._check_newest(body)
        if body["model"] not in self.models:
            raise self.refusal(FaultKind.MODEL_NOT_FOUND, body["model"], None)
        texts, last = said(messages, lambda message: message.get("content"))
        return Prompt(
            model=body["model"],
            text="\n".join([*strings(body.get("system")), *texts]),
            last=last,
            max_tokens=body.get("max_tokens"),
            stream=bool(body.get("stream")),
            body=body,
        )

    def _check_newest(self, body: dict[str, Any]) -> None:
        """Refuses what the version of 2026-10-21 has taken away."""
        for name in ("temperature", "top_p", "top_k"):
            if name in body:
                raise self.invalid("Extra inputs are not permitted", name)
        for index, message in enumerate(body["messages"]):
            for at, block in enumerate(objects(message.get("content"))):
                where = f"messages.{index}.content.{at}"
                if message.get("role") == "assistant" and block.get("type") == "document":
                    raise self.invalid("document blocks are not permitted here", where)
                if message.get("role") == "user" and block.get("citations") and "text" in block:
                    raise self.invalid("citations are not permitted here", where)


class Messages(Endpoint):
    name = "messages"

    def __init__(self, server: AnthropicServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        prompt = self.server.prompt(incoming, ("model", "messages", "max_tokens"))
        if not isinstance(prompt.max_tokens, int) or prompt.max_tokens < 1:
            raise self.server.invalid("Input should be greater than or equal to 1", "max_tokens")
        return prompt

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - the answer has it all
        return {
            **_opening(answer),
            "content": [block for block, _ in _blocks(answer)],
            "stop_reason": _STOP[answer.finish],
            "usage": _usage(answer, answer.output_tokens),
        }

    def frames(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:  # noqa: ARG002
        start = {**_opening(answer), "usage": _usage(answer, 1)}
        yield _event({"type": "message_start", "message": start})
        for index, (block, deltas) in enumerate(_blocks(answer)):
            empty = {**block, **_EMPTY[block["type"]]}
            yield _event({"type": "content_block_start", "index": index, "content_block": empty})
            if index == 0:
                yield _event({"type": "ping"})
            for delta in deltas:
                event = {"type": "content_block_delta", "index": index, "delta": delta}
                yield _event(event, content=delta["type"] != "signature_delta")
            yield _event({"type": "content_block_stop", "index": index})
        stop = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
        used = {
            name: value
            for name, value in _usage(answer, answer.output_tokens).items()
            if name not in ("service_tier", "cache_creation")
        }
        yield _event({"type": "message_delta", "delta": stop, "usage": used})
        yield _event({"type": "message_stop"})

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:  # noqa: ARG002
        body = self.server.refusal(FaultKind.OVERLOAD, prompt.model, None).body
        return _event(body).data


class CountTokens(Endpoint):
    name = "count_tokens"
    in_turn = False

    def __init__(self, server: AnthropicServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        prompt = self.server.prompt(incoming, ("model", "messages"))
        return Prompt(model=prompt.model, text=prompt.text, body=prompt.body)

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        return {"input_tokens": max(1, count_tokens(prompt.text))}


class Models(Endpoint):
    name = "models"
    in_turn = False

    def __init__(self, server: AnthropicServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        return Prompt(body=dict(incoming.query))

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        models = list(self.server.models)
        after = prompt.body.get("after_id")
        rest = models[models.index(after) + 1 :] if after in models else models
        page = rest[: count_of(prompt.body.get("limit"), _PAGE)]
        return {
            "data": [_model(model) for model in page],
            "has_more": len(page) < len(rest),
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None,
        }


_EMPTY: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def _opening(answer: Answer) -> dict[str, Any]:
    return {
        "model": answer.model,
        "id": f"msg_{answer.number:024d}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    # Anthropic counts what came from the cache, or went into it, apart from the rest.
    apart = answer.cached_tokens + answer.cache_write_tokens
    thought = min(answer.reasoning_tokens, output)
    return {
        "input_tokens": max(0, answer.input_tokens - apart),
        "cache_creation_input_tokens": answer.cache_write_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": answer.cache_write_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": thought},
        "service_tier": "standard",
    }


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The blocks of an answer, each with the deltas that make it up."""
    if answer.thinking:
        signature = f"test-signature-{answer.number}"
        deltas = [{"type": "thinking_delta", "thinking": p} for p in answer.thinking_pieces]
        block = {"type": "thinking", "thinking": answer.thinking, "signature": signature}
        yield block, [*deltas, {"type": "signature_delta", "signature": signature}]
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
        yield {"type": "text", "text": answer.text}, deltas
    for index, tool in enumerate(answer.tools):
        id = tool.id or f"toolu_{answer.number:016d}{index:08d}"
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in tool.pieces]
        yield {"type": "tool_use", "id": id, "name": tool.name, "input": tool.input}, deltas


def _model(model: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model,
        "display_name": model.replace("-", " ").title(),
        "created_at": "2025-11-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }


def _event(data: dict[str, Any], *, content: bool = False) -> Frame:
    name = data["type"].encode()
    return Frame(b"event: " + name + b"\ndata: " + msgspec.json.encode(data) + b"\n\n", content)
