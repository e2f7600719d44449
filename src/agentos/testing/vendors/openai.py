"""OpenAI: https://api.openai.com/v1."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from agentos.testing.answers import Answer, Prompt
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Frame, Refusal, Route
from agentos.testing.vendors.openai_like import Chat, OpenAILike, retry_headers
from agentos.testing.vendors.openai_responses import Responses


class OpenAIServer(OpenAILike):
    """Chat completions, responses, embeddings and models of OpenAI."""

    vendor = "openai"
    key = "sk-test-openai-0000000000000000"
    models = (
        "gpt-5.5",
        "gpt-5.1",
        "gpt-5-mini",
        "gpt-4.1",
        "gpt-4o",
        "gpt-4o-mini",
        "text-embedding-3-small",
    )

    def routes(self) -> list[Route]:
        return [*super().routes(), Route("POST", f"{self.prefix}/responses", Responses(self))]

    def chat(self) -> Chat:
        return OpenAIChat(self)

    def answer_headers(self, number: int) -> dict[str, str]:
        return {
            "x-request-id": f"req_{number:032x}",
            "openai-organization": "test-organization",
            "openai-processing-ms": "1",
            "openai-version": "2020-10-01",
        }

    def encode(self, body: Any) -> bytes:
        return msgspec.json.format(msgspec.json.encode(body), indent=2)

    def no_key(self) -> Refusal:
        return self.error(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
            "invalid_request_error",
        )

    def wrong_key(self, given: str) -> Refusal:
        masked = f"{given[:8]}{'*' * 8}{given[-4:]}" if len(given) > 12 else "*" * len(given)
        return self.error(
            401,
            f"Incorrect API key provided: {masked}. You can find your API key at https://platform.openai.com/account/api-keys.",
            "invalid_request_error",
            code="invalid_api_key",
        )

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        if retry_after is not None:
            headers["retry-after-ms"] = str(round(retry_after * 1000))
        match kind:
            case FaultKind.RATE_LIMIT:
                return self.error(
                    429,
                    f"Rate limit reached for {model} in organization org-test on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in {retry_after or 20:g}s.",
                    "requests",
                    code="rate_limit_exceeded",
                    headers=headers,
                )
            case FaultKind.NO_CREDIT:
                return self.error(
                    429,
                    "You exceeded your current quota, please check your plan and billing details.",
                    "insufficient_quota",
                    code="insufficient_quota",
                )
            case FaultKind.OVERLOAD:
                message = "The engine is currently overloaded, please try again later"
                return self.error(503, message, "service_unavailable_error", headers=headers)
            case FaultKind.AUTH:
                return self.wrong_key(self.key)
            case FaultKind.CONTEXT_LENGTH:
                return self.error(
                    400,
                    "This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens. Please reduce the length of the messages.",
                    "invalid_request_error",
                    code="context_length_exceeded",
                    param="messages",
                )
            case FaultKind.MODEL_NOT_FOUND:
                return self.error(
                    404,
                    f"The model `{model}` does not exist or you do not have access to it.",
                    "invalid_request_error",
                    code="model_not_found",
                )
            case _:
                message = "The server had an error while processing your request. Sorry about that!"
                return self.error(500, message, "server_error")


class OpenAIChat(Chat):
    def message(self, answer: Answer) -> dict[str, Any]:
        return {**super().message(answer), "refusal": None, "annotations": []}

    def opening(self, answer: Answer) -> dict[str, Any]:
        return {**super().opening(answer), "refusal": None}

    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        return {
            **super().stamp(answer, object),
            "service_tier": "default",
            "system_fingerprint": "fp_0000000000",
        }

    def usage(self, prompt: Prompt, answer: Answer) -> dict[str, Any]:
        usage = super().usage(prompt, answer)
        read = {"audio_tokens": 0, "cache_write_tokens": answer.cache_write_tokens}
        written = {
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        }
        usage["prompt_tokens_details"] |= read
        usage["completion_tokens_details"] |= written
        return usage

    def chunk(
        self,
        prompt: Prompt,
        answer: Answer,
        choices: list[dict[str, Any]],
        *,
        content: bool = False,
        **more: Any,
    ) -> Frame:
        if self.wants_usage(prompt):
            more.setdefault("usage", None)
        # OpenAI pads its events, so that their size does not give away what they say.
        more["obfuscation"] = secrets.token_urlsafe(6)
        return super().chunk(prompt, answer, choices, content=content, **more)
