"""The three faces as a test sees them: how to ask, and how to read what comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

_QUESTION = "tell me"


@dataclass(frozen=True)
class Face:
    name: str
    path: str
    ask: Callable[[str, bool], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]
    delta: Callable[[dict[str, Any]], str]
    is_error: Callable[[dict[str, Any]], bool]

    async def call(self, client: httpx.AsyncClient, model: str, *, stream: bool) -> httpx.Response:
        return await client.post(self.path, json=self.ask(model, stream))

    def read(self, answer: httpx.Response, *, stream: bool) -> str:
        """All the text of an answer."""
        if not stream:
            return self.text(answer.json())
        return "".join(self.delta(event) for event in events(answer.text))

    def error(self, answer: httpx.Response) -> dict[str, Any] | None:
        """The error in a stream, if there is one."""
        found = [event for event in events(answer.text) if self.is_error(event)]
        assert len(found) <= 1
        return found[0] if found else None


def events(stream: str) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data:")]
    return [json.loads(each) for each in data if each != "[DONE]"]


def _chat(model: str, stream: bool) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": _QUESTION}],
        "stream": stream,
        "max_completion_tokens": 500,
    }


def _messages(model: str, stream: bool) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": _QUESTION}],
        "stream": stream,
        "max_tokens": 500,
    }


def _responses(model: str, stream: bool) -> dict[str, Any]:
    return {"model": model, "input": _QUESTION, "stream": stream, "max_output_tokens": 500}


def _responses_text(answer: dict[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in answer["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


CHAT = Face(
    "chat",
    "/api/ai/openai/v1/chat/completions",
    _chat,
    lambda a: a["choices"][0]["message"]["content"],
    lambda e: (e.get("choices") or [{"delta": {}}])[0]["delta"].get("content") or "",
    lambda e: "error" in e,
)
RESPONSES = Face(
    "responses",
    "/api/ai/openai/v1/responses",
    _responses,
    _responses_text,
    lambda e: e["delta"] if e["type"] == "response.output_text.delta" else "",
    lambda e: e["type"] == "error",
)
MESSAGES = Face(
    "messages",
    "/api/ai/anthropic/v1/messages",
    _messages,
    lambda a: "".join(part["text"] for part in a["content"] if part["type"] == "text"),
    lambda e: e["delta"].get("text", "") if e["type"] == "content_block_delta" else "",
    lambda e: e["type"] == "error",
)
FACES = (CHAT, RESPONSES, MESSAGES)
