"""Ollama: http://127.0.0.1:11434, with an OpenAI-compatible API under /v1."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from agentos.testing.answers import Answer, Prompt
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Endpoint, Incoming, Refusal, Route
from agentos.testing.vendors.openai_like import Chat, OpenAILike, retry_headers

_VERSION = "0.13.5"
_LATEST = ":latest"


class OllamaServer(OpenAILike):
    """Chat completions, embeddings, tags and version of Ollama, which asks for no key."""

    vendor = "ollama"
    prefix = ""
    api = "/v1"
    models: Sequence[str] = ("llama3.2:latest", "qwen3:8b", "nomic-embed-text:latest")
    owner = "library"

    def routes(self) -> list[Route]:
        return [
            *super().routes(),
            Route("GET", "/api/tags", Tags(self)),
            Route("GET", "/api/version", Version()),
        ]

    def chat(self) -> Chat:
        return OllamaChat(self)

    def authorize(self, incoming: Incoming) -> None:
        """Everyone may."""

    def known_model(self, body: dict[str, Any]) -> str:
        model = body.get("model")
        if isinstance(model, str) and f"{model}{_LATEST}" in self.models:
            return model
        return super().known_model(body)

    def unknown_path(self, incoming: Incoming) -> Refusal:  # noqa: ARG002 - it does not repeat it
        return Refusal(404, b"404 page not found")

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        match kind:
            case FaultKind.RATE_LIMIT:
                return self.error(429, "too many concurrent requests", "api_error", headers=headers)
            case FaultKind.NO_CREDIT:
                message = "this model requires a subscription"
                return self.error(403, message, "api_error")
            case FaultKind.OVERLOAD:
                message = "server busy, please try again.  maximum pending requests exceeded"
                return self.error(503, message, "api_error", headers=headers)
            case FaultKind.AUTH:
                return self.error(401, "unauthorized", "api_error")
            case FaultKind.CONTEXT_LENGTH:
                message = "the input length exceeds the context length"
                return self.error(400, message, "invalid_request_error")
            case FaultKind.MODEL_NOT_FOUND:
                message = f'model "{model}" not found, try pulling it first'
                return self.error(404, message, "not_found_error")
            case _:
                message = "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error"
                return self.error(500, message, "api_error")


class OllamaChat(Chat):
    tools_at_once = True

    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        stamp = super().stamp(answer, object)
        return {**stamp, "id": f"chatcmpl-{answer.number}", "system_fingerprint": "fp_ollama"}

    def message(self, answer: Answer) -> dict[str, Any]:
        more = {"reasoning": answer.thinking} if answer.thinking else {}
        return {**super().message(answer), "content": answer.text, **more}

    def usage(self, prompt: Prompt, answer: Answer) -> dict[str, Any]:
        """Ollama knows of no details."""
        usage = super().usage(prompt, answer)
        return {name: usage[name] for name in usage if not name.endswith("_details")}

    def opening(self, answer: Answer) -> dict[str, Any]:  # noqa: ARG002 - it is always the same
        return {"role": "assistant", "content": ""}

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": "", "reasoning": piece}]

    def text_delta(self, piece: str) -> dict[str, Any]:
        return {"role": "assistant", "content": piece}


class Tags(Endpoint):
    name = "models"
    in_turn = False

    def __init__(self, server: OllamaServer) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:  # noqa: ARG002 - there is nothing to read
        return Prompt()

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        return {"models": [_tag(model) for model in self.server.models]}


class Version(Endpoint):
    name = "version"
    in_turn = False

    def read(self, incoming: Incoming) -> Prompt:  # noqa: ARG002 - there is nothing to read
        return Prompt()

    def whole(self, prompt: Prompt, answer: Answer) -> Any:  # noqa: ARG002 - nothing is answered
        return {"version": _VERSION}


def _tag(model: str) -> dict[str, Any]:
    return {
        "name": model,
        "model": model,
        "modified_at": "2025-11-01T00:00:00Z",
        "size": 2_019_393_189,
        "digest": hashlib.sha256(model.encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "3.2B",
            "quantization_level": "Q4_K_M",
        },
    }
