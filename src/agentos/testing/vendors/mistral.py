"""Mistral: https://api.mistral.ai/v1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentos.testing.answers import Answer, Prompt
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Frame, Incoming, Refusal
from agentos.testing.vendors.openai_like import FINISH, Chat, OpenAILike, retry_headers

_FIELDS = frozenset(
    {
        "model",
        "messages",
        "temperature",
        "top_p",
        "max_tokens",
        "stream",
        "stop",
        "random_seed",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "presence_penalty",
        "frequency_penalty",
        "n",
        "prediction",
        "prompt_mode",
        "reasoning_effort",
        "safe_prompt",
        "metadata",
    }
)
_TOOL_ID = re.compile(r"[a-zA-Z0-9]{9}")


class MistralServer(OpenAILike):
    """Chat completions, embeddings and models of Mistral, which takes no field it does not know."""

    vendor = "mistral"
    key = "testMistralKey000000000000000000"
    models = ("mistral-large-latest", "mistral-small-latest", "mistral-embed")
    owner = "mistralai"

    def chat(self) -> Chat:
        return MistralChat(self)

    def answer_headers(self, number: int) -> dict[str, str]:
        return {"mistral-correlation-id": f"00000000-0000-7000-8000-{number:012d}"}

    def error(
        self,
        status: int,
        message: Any,
        type: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Refusal:
        body = {"object": "error", "message": message, "type": type, "param": param, "code": code}
        return Refusal(status, body | {"raw_status_code": status}, headers)

    def invalid(self, message: str, field: str | None = None) -> Refusal:
        kind = "missing" if field else "json_invalid"
        where = ["body", *([field] if field else [])]
        text = "Field required" if field else message
        return self.forbidden(kind, where, text, None)

    def forbidden(self, kind: str, where: list[str], message: str, given: Any) -> Refusal:
        detail = [{"type": kind, "loc": where, "msg": message, "input": given}]
        return self.error(422, {"detail": detail}, "invalid_request_error")

    def unknown_path(self, incoming: Incoming) -> Refusal:  # noqa: ARG002 - it does not repeat it
        return Refusal(404, {"detail": "Not Found"})

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        headers = retry_headers(retry_after)
        match kind:
            case FaultKind.RATE_LIMIT:
                return self.error(
                    429, "Rate limit exceeded", "rate_limited", code="1300", headers=headers
                )
            case FaultKind.NO_CREDIT:
                return Refusal(402, {"detail": "Payment Required"})
            case FaultKind.OVERLOAD:
                message = "Service unavailable."
                return self.error(503, message, "unreachable_backend", code="1100", headers=headers)
            case FaultKind.AUTH:
                return Refusal(401, {"detail": "Unauthorized"})
            case FaultKind.CONTEXT_LENGTH:
                message = "Prompt contains 131073 tokens and 0 draft tokens, too large for model with 131072 maximum context length"
                return self.error(400, message, "invalid_request_invalid_args", code="3051")
            case FaultKind.MODEL_NOT_FOUND:
                return self.error(400, f"Invalid model: {model}", "invalid_model", code="1500")
            case _:
                return self.error(500, "Internal server error", "internal_error", code="1000")


class MistralChat(Chat):
    tools_at_once = True
    server: MistralServer

    def read(self, incoming: Incoming) -> Prompt:
        body = self.server.body(incoming)
        for name, value in body.items():
            if name not in _FIELDS:
                raise self.server.forbidden(
                    "extra_forbidden", ["body", name], "Extra inputs are not permitted", value
                )
        prompt = super().read(incoming)
        for message in body["messages"]:
            for id in _tool_ids(message):
                if not _TOOL_ID.fullmatch(id):
                    text = f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                    raise self.server.error(400, text, "invalid_function_call", code="3280")
        return prompt

    def stamp(self, answer: Answer, object: str) -> dict[str, Any]:
        return {**super().stamp(answer, object), "id": f"{answer.number:032x}"}

    def message(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"tool_calls": None, **super().message(answer)}
        message["content"] = answer.text
        if answer.thinking:
            text = {"type": "text", "text": answer.text}
            message["content"] = [{**_thought(answer.thinking), "closed": True}, text]
        return message

    def thinking_deltas(self, piece: str) -> list[dict[str, Any]]:
        return [{"content": [_thought(piece)]}]

    def tool_id(self, answer: Answer, index: int) -> str:
        return answer.tools[index].id or f"T{answer.number % 100000:05d}{index:03d}"

    def opening(self, answer: Answer) -> dict[str, Any]:  # noqa: ARG002 - it is always the same
        return {"role": "assistant", "content": ""}

    def closing(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        last = prompt.choices - 1
        for index in range(prompt.choices):
            # The usage is said with the last choice, asked for or not.
            more: Any = {"usage": self.usage(prompt, answer)} if index == last else {}
            finish = FINISH[answer.finish]
            yield self.delta(prompt, answer, index, {"content": ""}, finish=finish, **more)


def _thought(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _tool_ids(message: dict[str, Any]) -> list[str]:
    ids = [call.get("id") for call in message.get("tool_calls") or []]
    return [id for id in (*ids, message.get("tool_call_id")) if id is not None]
