"""Any server that follows OpenAI's API, as vLLM or LM Studio do."""

from __future__ import annotations

from typing import Any

from agentos.testing.answers import Answer
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Refusal
from agentos.testing.vendors.openai_like import Chat, OpenAILike, retry_headers

_ERRORS: dict[FaultKind, tuple[int, str, str]] = {
    FaultKind.RATE_LIMIT: (429, "Too many requests", "rate_limit_error"),
    FaultKind.NO_CREDIT: (402, "Insufficient balance", "insufficient_balance"),
    FaultKind.OVERLOAD: (503, "Service unavailable", "service_unavailable"),
    FaultKind.AUTH: (401, "Unauthorized", "authentication_error"),
    FaultKind.CONTEXT_LENGTH: (
        400,
        "This model's maximum context length is 4096 tokens. However, you requested 4097 tokens.",
        "BadRequestError",
    ),
}


class CustomServer(OpenAILike):
    """The plainest OpenAI-compatible server, with thinking in `reasoning_content`."""

    vendor = "custom"
    key = "sk-test-custom-0000000000000000"
    models = ("custom-model", "custom-embedding")
    owner = "custom"

    def chat(self) -> Chat:
        return CustomChat(self)

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        if kind is FaultKind.MODEL_NOT_FOUND:
            return self.error(404, f"The model `{model}` does not exist.", "NotFoundError")
        unknown = (500, "Internal server error", "InternalServerError")
        status, message, type = _ERRORS.get(kind, unknown)
        return self.error(status, message, type, headers=retry_headers(retry_after))


class CustomChat(Chat):
    def message(self, answer: Answer) -> dict[str, Any]:
        more = {"reasoning_content": answer.thinking} if answer.thinking else {}
        return {**super().message(answer), **more}

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:
        return [{"reasoning_content": piece}]
