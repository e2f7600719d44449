"""Groq: https://api.groq.com/openai/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentos.testing.answers import Answer, Prompt
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Frame, Refusal
from agentos.testing.vendors.openai_like import FINISH, Chat, OpenAILike, retry_headers


class GroqServer(OpenAILike):
    """Chat completions and models of Groq, which tells the usage of a stream in `x_groq` too."""

    vendor = "groq"
    prefix = "/openai/v1"
    key = "gsk_test000000000000000000000000"
    models = ("llama-3.3-70b-versatile", "llama-3.1-8b-instant", "openai/gpt-oss-120b")
    owner = "Meta"

    def chat(self) -> Chat:
        return GroqChat(self)

    def answer_headers(self, number: int) -> dict[str, str]:
        return {"x-request-id": f"req_{number:026d}", "x-groq-region": "test"}

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
        """Groq leaves out what it has nothing to say about."""
        error = {"message": message, "type": type}
        more = {name: value for name, value in (("code", code), ("param", param)) if value}
        return Refusal(status, {"error": error | more}, headers)

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        match kind:
            case FaultKind.RATE_LIMIT:
                message = f"Rate limit reached for model `{model}` in organization `org_test` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Used 6000, Requested 10. Please try again in {retry_after or 7:g}s."
                return self.error(
                    429, message, "tokens", code="rate_limit_exceeded", headers=headers
                )
            case FaultKind.NO_CREDIT:
                message = "Organization has been restricted. Please reach out to support if you believe this was in error."
                return self.error(
                    400, message, "invalid_request_error", code="organization_restricted"
                )
            case FaultKind.OVERLOAD:
                message = f"{model} is currently over capacity. Please try again and back off exponentially."
                return self.error(503, message, "internal_server_error", headers=headers)
            case FaultKind.AUTH:
                return self.error(
                    401, "Invalid API Key", "invalid_request_error", code="invalid_api_key"
                )
            case FaultKind.CONTEXT_LENGTH:
                message = "Please reduce the length of the messages or completion."
                return self.error(
                    400,
                    message,
                    "invalid_request_error",
                    code="context_length_exceeded",
                    param="messages",
                )
            case FaultKind.MODEL_NOT_FOUND:
                message = f"The model `{model}` does not exist or you do not have access to it."
                return self.error(404, message, "invalid_request_error", code="model_not_found")
            case _:
                return self.error(500, "Internal Server Error", "internal_server_error")

    def model_entry(self, model: str) -> dict[str, Any]:
        more = {"active": True, "context_window": 131_072, "public_apps": None}
        return {**super().model_entry(model), **more, "max_completion_tokens": 32_768}


class GroqChat(Chat):
    tools_at_once = True

    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        return {**super().stamp(answer, object), "system_fingerprint": "fp_0000000000"}

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        return {**super().whole(prompt, answer), "x_groq": {"id": _request(answer)}}

    def message(self, answer: Answer) -> dict[str, Any]:
        more = {"reasoning": answer.thinking} if answer.thinking else {}
        return {**super().message(answer), **more}

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:
        return [{"reasoning": piece}]

    def usage(self, prompt: Prompt, answer: Answer) -> dict[str, Any]:
        times = {"queue_time": 0.01, "prompt_time": 0.001, "completion_time": 0.01}
        return {**super().usage(prompt, answer), **times, "total_time": 0.011}

    def closing(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        usage = self.usage(prompt, answer)
        own = {"id": _request(answer), "usage": usage}
        finish = FINISH[answer.finish]
        yield self.delta(prompt, answer, 0, {}, finish=finish, x_groq=own, usage=usage)
        if self.wants_usage(prompt):
            yield self.chunk(prompt, answer, [], usage=usage)


def _request(answer: Answer) -> str:
    return f"req_{answer.number:026d}"
