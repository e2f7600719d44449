"""Google's Gemini API: https://generativelanguage.googleapis.com/v1beta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from agentos.testing.answers import (
    Answer,
    Prompt,
    count_of,
    count_tokens,
    members,
    objects,
    said,
    strings,
)
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.base import VendorServer
from agentos.testing.vendors.endpoints import Endpoint, Frame, Incoming, Refusal, Route

_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_use": "STOP", "filtered": "SAFETY"}
_MODEL = "{model:[^:/]+}"
_PAGE = 50


class GoogleServer(VendorServer):
    """Generated content, plain and streamed, token counts and models of Gemini."""

    vendor = "google"
    prefix = "/v1beta"
    key = "AIzaTest00000000000000000000000000000000"
    models = ("gemini-3.8-flash", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite")

    def routes(self) -> list[Route]:
        model = f"{self.prefix}/models/{_MODEL}"
        return [
            Route("POST", f"{model}:generateContent", Generate(self)),
            Route("POST", f"{model}:streamGenerateContent", StreamGenerate(self)),
            Route("POST", f"{model}:countTokens", CountTokens(self)),
            Route("GET", f"{self.prefix}/models", Models(self)),
        ]

    def encode(self, body: Any) -> bytes:
        return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"

    def authorize(self, incoming: Incoming) -> None:
        given = incoming.headers.get("x-goog-api-key") or incoming.query.get("key")
        if not given:
            message = "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."
            raise self.error(403, "PERMISSION_DENIED", message)
        if given != self.key:
            raise self.refusal(FaultKind.AUTH, "", None)

    def invalid(self, message: str, field: str | None = None) -> Refusal:
        text = f"* GenerateContentRequest.{field}: {message}\n" if field else message
        return self.error(400, "INVALID_ARGUMENT", text)

    def unknown_path(self, incoming: Incoming) -> Refusal:
        return self.error(404, "NOT_FOUND", f"Method not found: {incoming.path}")

    def error(
        self, status: int, name: str, message: str, details: list[dict[str, Any]] | None = None
    ) -> Refusal:
        error: dict[str, Any] = {"code": status, "message": message, "status": name}
        return Refusal(status, {"error": {**error, "details": details} if details else error})

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        match kind:
            case FaultKind.RATE_LIMIT:
                message = "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
                return self.error(429, "RESOURCE_EXHAUSTED", message, _quota(model, retry_after))
            case FaultKind.NO_CREDIT:
                message = "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."
                return self.error(429, "RESOURCE_EXHAUSTED", message)
            case FaultKind.OVERLOAD:
                message = "The model is overloaded. Please try again later."
                return self.error(503, "UNAVAILABLE", message)
            case FaultKind.AUTH:
                message = "API key not valid. Please pass a valid API key."
                return self.error(400, "INVALID_ARGUMENT", message, _bad_key(message))
            case FaultKind.CONTEXT_LENGTH:
                message = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
                return self.error(400, "INVALID_ARGUMENT", message)
            case FaultKind.MODEL_NOT_FOUND:
                message = f"models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."
                return self.error(404, "NOT_FOUND", message)
            case _:
                message = "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
                return self.error(500, "INTERNAL", message)


class Generate(Endpoint):
    name = "generate"

    def __init__(self, server: GoogleServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        body = incoming.json
        if body is None:
            raise self.server.invalid("Invalid JSON payload received. Unexpected token.")
        model = incoming.match["model"]
        if model not in self.server.models:
            raise self.server.refusal(FaultKind.MODEL_NOT_FOUND, model, None)
        contents = objects(body.get("contents"))
        if not contents:
            raise self.server.invalid("contents is not specified", "contents")
        texts, last = said(contents, lambda content: content.get("parts"))
        system = members(body.get("systemInstruction") or body.get("system_instruction"))
        settings = members(body.get("generationConfig") or body.get("generation_config"))
        maximum = settings.get("maxOutputTokens") or settings.get("max_output_tokens")
        if maximum is not None and not isinstance(maximum, int):
            raise self.server.invalid("Invalid value (TYPE_INT32)", "generation_config")
        return Prompt(
            model=model,
            text="\n".join([*strings(system.get("parts")), *texts]),
            last=last,
            max_tokens=maximum,
            body=body,
        )

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - the answer has it all
        return _response(answer, _parts(answer), _FINISH[answer.finish], _usage(answer))


class StreamGenerate(Generate):
    """The same as events; without `alt=sse`, as a list of them."""

    name = "generate"

    def read(self, incoming: Incoming) -> Prompt:
        return replace(super().read(incoming), stream=incoming.query.get("alt") == "sse")

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        return [super().whole(prompt, answer)]

    def frames(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:  # noqa: ARG002
        # The usage of each event is what has been used up to then.
        so_far = _usage(replace(answer, output_tokens=0, reasoning_tokens=0))
        for part in _parts(answer, answer.thinking_pieces, answer.pieces):
            yield _event(_response(answer, [part], None, so_far), content=True)
        end = [{"text": ""}]
        yield _event(_response(answer, end, _FINISH[answer.finish], _usage(answer)))

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:  # noqa: ARG002
        return _event(self.server.refusal(FaultKind.OVERLOAD, prompt.model, None).body).data


class CountTokens(Generate):
    name = "count_tokens"
    in_turn = False

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        total = max(1, count_tokens(prompt.text))
        return {"totalTokens": total, "promptTokensDetails": _details(total)}


class Models(Endpoint):
    name = "models"
    in_turn = False

    def __init__(self, server: GoogleServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        return Prompt(body=dict(incoming.query))

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        start = count_of(prompt.body.get("pageToken"), 0)
        end = start + count_of(prompt.body.get("pageSize"), _PAGE)
        page: dict[str, Any] = {"models": [_model(m) for m in self.server.models[start:end]]}
        return page | ({"nextPageToken": str(end)} if end < len(self.server.models) else {})


def _parts(
    answer: Answer, thinking: list[str] | None = None, text: list[str] | None = None
) -> list[dict[str, Any]]:
    """The parts of an answer: whole, or in the pieces given."""
    thoughts = thinking if thinking is not None else [answer.thinking] if answer.thinking else []
    texts = text if text is not None else [answer.text] if answer.text else []
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in thoughts]
    parts.extend({"text": piece} for piece in texts)
    for index, tool in enumerate(answer.tools):
        call = {"name": tool.name, "args": tool.input} | ({"id": tool.id} if tool.id else {})
        # Only the first of several calls is signed.
        signature = {"thoughtSignature": "dGVzdA=="} if answer.thinking and index == 0 else {}
        parts.append({"functionCall": call, **signature})
    return parts


def _response(
    answer: Answer, parts: list[dict[str, Any]], finish: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.model,
        "responseId": f"test{answer.number:016d}",
    }


def _usage(answer: Answer) -> dict[str, Any]:
    """Gemini counts thinking apart from the rest of the output, and leaves out what is 0."""
    written = answer.output_tokens - answer.reasoning_tokens
    usage: dict[str, Any] = {
        "promptTokenCount": answer.input_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
        "promptTokensDetails": _details(answer.input_tokens),
    }
    if written:
        usage["candidatesTokenCount"] = written
    if answer.reasoning_tokens:
        usage["thoughtsTokenCount"] = answer.reasoning_tokens
    if answer.cached_tokens:
        usage["cachedContentTokenCount"] = answer.cached_tokens
        usage["cacheTokensDetails"] = _details(answer.cached_tokens)
    return usage


def _details(tokens: int) -> list[dict[str, Any]]:
    return [{"modality": "TEXT", "tokenCount": tokens}]


def _quota(model: str, retry_after: float | None) -> list[dict[str, Any]]:
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
        "quotaDimensions": {"location": "global", "model": model},
        "quotaValue": "10",
    }
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    if retry_after is None:
        return [failure]
    delay = f"{retry_after:g}s"
    return [failure, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]


def _bad_key(message: str) -> list[dict[str, Any]]:
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        },
        {
            "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
            "locale": "en-US",
            "message": message,
        },
    ]


def _model(model: str) -> dict[str, Any]:
    return {
        "name": f"models/{model}",
        "version": "001",
        "displayName": model.replace("-", " ").title(),
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _event(data: dict[str, Any], *, content: bool = False) -> Frame:
    # Google ends its lines as HTTP does.
    return Frame(b"data: " + msgspec.json.encode(data) + b"\r\n\r\n", content)
