"""OpenRouter: https://openrouter.ai/api/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentos.testing.answers import Answer, Prompt
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Frame, Incoming, Refusal
from agentos.testing.vendors.openai_like import FINISH, Chat, OpenAILike, event, retry_headers

_PROCESSING = Frame(b": OPENROUTER PROCESSING\n\n")
_PROVIDER = "Test"


class OpenRouterServer(OpenAILike):
    """Chat completions and models of OpenRouter, which keeps streams awake with comments."""

    vendor = "openrouter"
    prefix = "/api/v1"
    key = "sk-or-v1-test0000000000000000000000"
    models = (
        "anthropic/claude-sonnet-4.5",
        "openai/gpt-4o-mini",
        "meta-llama/llama-3.3-70b-instruct",
    )

    def chat(self) -> Chat:
        return OpenRouterChat(self)

    def answer_headers(self, number: int) -> dict[str, str]:
        return {"x-generation-id": f"gen-{number:010d}-test"}

    def no_key(self) -> Refusal:
        return self.problem(401, "No auth credentials found")

    def problem(
        self,
        status: int,
        message: str,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Refusal:
        more = {"metadata": metadata} if metadata else {}
        error = {"message": message, "code": status, **more}
        return Refusal(status, {"error": error, "user_id": "user_test"}, headers)

    def invalid(self, message: str, field: str | None = None) -> Refusal:  # noqa: ARG002
        return self.problem(400, message)

    def unknown_path(self, incoming: Incoming) -> Refusal:  # noqa: ARG002 - it does not repeat it
        return self.problem(404, "Not Found")

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        match kind:
            case FaultKind.RATE_LIMIT:
                raw = f"{model} is temporarily rate-limited upstream. Please retry shortly."
                provider = {"raw": raw, "provider_name": _PROVIDER}
                return self.problem(429, "Provider returned error", provider, headers)
            case FaultKind.NO_CREDIT:
                message = (
                    "Insufficient credits. Add more using https://openrouter.ai/settings/credits"
                )
                return self.problem(402, message)
            case FaultKind.OVERLOAD:
                provider = {"raw": "Overloaded", "provider_name": _PROVIDER}
                return self.problem(503, "Provider returned error", provider, headers)
            case FaultKind.AUTH:
                return self.problem(401, "User not found.")
            case FaultKind.CONTEXT_LENGTH:
                message = 'This endpoint\'s maximum context length is 131072 tokens. However, you requested about 131073 tokens (131063 of text input, 10 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.'
                return self.problem(400, message, {"provider_name": None})
            case FaultKind.MODEL_NOT_FOUND:
                return self.problem(400, f"{model} is not a valid model ID")
            case _:
                return self.problem(500, "Internal Server Error")

    def model_entry(self, model: str) -> dict[str, Any]:
        return {
            "id": model,
            "canonical_slug": model,
            "name": model,
            "created": 1_750_000_000,
            "context_length": 131_072,
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "pricing": {"prompt": "0.000001", "completion": "0.000002"},
            "top_provider": {"context_length": 131_072, "max_completion_tokens": 16_384},
            "supported_parameters": ["max_tokens", "temperature", "tools"],
        }


class OpenRouterChat(Chat):
    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        stamp = super().stamp(answer, object)
        return {**stamp, "id": f"gen-{answer.number:010d}-test", "provider": _PROVIDER}

    def message(self, answer: Answer) -> dict[str, Any]:
        message = {**super().message(answer), "refusal": None, "reasoning": None}
        return message | _reasoning(answer.thinking)

    def opening(self, answer: Answer) -> dict[str, Any]:  # noqa: ARG002 - it is always the same
        return {"role": "assistant", "content": ""}

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": "", **_reasoning(piece)}]

    def text_delta(self, piece: str) -> dict[str, Any]:
        return {"role": "assistant", "content": piece}

    def frames(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        yield _PROCESSING
        yield _PROCESSING
        for frame in super().frames(prompt, answer):
            yield frame
            if frame.content:
                yield _PROCESSING

    def closing(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        empty = {"role": "assistant", "content": ""}
        finish = FINISH[answer.finish]
        yield self.delta(prompt, answer, 0, empty, finish=finish)
        # The usage comes in any case, with a choice that says nothing.
        yield self.delta(prompt, answer, 0, empty, usage=self.usage(prompt, answer))

    def usage(self, prompt: Prompt, answer: Answer) -> dict[str, Any]:
        return {**super().usage(prompt, answer), "cost": 0.00001, "is_byok": False}

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
        choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}
        choice["native_finish_reason"] = finish
        return self.chunk(prompt, answer, [choice], content=content, **more)

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:  # noqa: ARG002
        stamp = self.stamp(answer, "chat.completion.chunk")
        error = {"code": 502, "message": "Provider disconnected unexpectedly"}
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "finish_reason": "error"}
        return event({**stamp, "error": error, "choices": [choice]}).data


def _reasoning(text: str) -> dict[str, Any]:
    if not text:
        return {}
    detail = {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}
    return {"reasoning": text, "reasoning_details": [detail]}
