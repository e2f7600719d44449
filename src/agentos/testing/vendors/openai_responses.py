"""OpenAI's responses: a list of items, streamed as numbered events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from agentos.testing.answers import Answer, Prompt, objects, said, strings
from agentos.testing.scripts import FaultKind
from agentos.testing.vendors.endpoints import Endpoint, Frame, Incoming

if TYPE_CHECKING:
    from agentos.testing.vendors.openai_like import OpenAILike

_CONTENT = frozenset(
    {
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
    }
)


class Responses(Endpoint):
    name = "responses"

    def __init__(self, server: OpenAILike) -> None:
        self.server = server

    def read(self, incoming: Incoming) -> Prompt:
        body = self.server.body(incoming)
        model = self.server.known_model(body)
        given = body.get("input")
        if not given:
            raise self.server.invalid("Missing required parameter: 'input'.", "input")
        items = objects(given) or [{"role": "user", "content": given}]
        texts, last = said(items, lambda item: item.get("content") or item.get("output"))
        return Prompt(
            model=model,
            text="\n".join([*strings(body.get("instructions")), *texts]),
            last=last,
            max_tokens=self.server.number(body, "max_output_tokens"),
            stream=bool(body.get("stream")),
            body=body,
        )

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        status = "incomplete" if answer.finish in ("length", "filtered") else "completed"
        return self._response(prompt, answer, status)

    def frames(self, prompt: Prompt, answer: Answer) -> Iterator[Frame]:
        for number, event in enumerate(self._events(prompt, answer)):
            yield _frame(event, number)

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:
        error = self.server.refusal(FaultKind.SERVER_ERROR, prompt.model, None).body["error"]
        event = {
            "type": "error",
            "code": "server_error",
            "message": error["message"],
            "param": None,
        }
        failed = self._response(prompt, answer, "failed")
        failed["error"] = {"code": "server_error", "message": error["message"]}
        ending = {"type": "response.failed", "response": failed}
        return _frame(event, events).data + _frame(ending, events + 1).data

    def _events(self, prompt: Prompt, answer: Answer) -> Iterator[dict[str, Any]]:
        begun = self._response(prompt, answer, "in_progress")
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(self._items(answer)):
            yield {
                "type": "response.output_item.added",
                "output_index": index,
                "item": _begun(item),
            }
            for event in self._within(item, answer):
                yield {**event, "output_index": index, "item_id": item["id"]}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        response = self.whole(prompt, answer)
        yield {"type": f"response.{response['status']}", "response": response}

    def _within(self, item: dict[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
        match item["type"]:
            case "reasoning":
                yield from _summary(item["summary"][0], answer.thinking_pieces)
            case "message":
                yield from _text(item["content"][0], answer.pieces)
            case _:
                # The items of the tools are the last ones, in order.
                tool = next(t for i, t in enumerate(answer.tools) if item["id"] == _fc(answer, i))
                for piece in tool.pieces:
                    yield {"type": "response.function_call_arguments.delta", "delta": piece}
                yield {
                    "type": "response.function_call_arguments.done",
                    "name": tool.name,
                    "arguments": tool.arguments,
                }

    def _items(self, answer: Answer) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if answer.thinking:
            summary = [{"type": "summary_text", "text": answer.thinking}]
            items.append(
                {"id": f"rs_{answer.number:048x}", "type": "reasoning", "summary": summary}
            )
        if answer.text or not answer.tools:
            content = {
                "type": "output_text",
                "annotations": [],
                "logprobs": [],
                "text": answer.text,
            }
            items.append(
                {
                    "id": f"msg_{answer.number:048x}",
                    "type": "message",
                    "status": "incomplete" if answer.finish == "length" else "completed",
                    "content": [content],
                    "role": "assistant",
                }
            )
        items.extend(
            {
                "id": _fc(answer, index),
                "type": "function_call",
                "status": "completed",
                "arguments": tool.arguments,
                "call_id": tool.id or f"call_{answer.number:016d}{index:08d}",
                "name": tool.name,
            }
            for index, tool in enumerate(answer.tools)
        )
        return items

    def _response(self, prompt: Prompt, answer: Answer, status: str) -> dict[str, Any]:
        asked = prompt.body
        over = status in ("completed", "incomplete")
        reason = "content_filter" if answer.finish == "filtered" else "max_output_tokens"
        return {
            "id": f"resp_{answer.number:048x}",
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": asked.get("instructions"),
            "max_output_tokens": asked.get("max_output_tokens"),
            "max_tool_calls": None,
            "model": answer.model,
            "output": self._items(answer) if over else [],
            "parallel_tool_calls": asked.get("parallel_tool_calls", True),
            "previous_response_id": asked.get("previous_response_id"),
            "reasoning": asked.get("reasoning") or {"effort": None, "summary": None},
            "service_tier": "default" if over else "auto",
            "store": asked.get("store", True),
            "temperature": asked.get("temperature", 1.0),
            "text": asked.get("text") or {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": asked.get("tool_choice", "auto"),
            "tools": asked.get("tools", []),
            "top_logprobs": 0,
            "top_p": asked.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": _usage(answer) if over else None,
            "user": None,
            "metadata": asked.get("metadata") or {},
        }


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.cache_write_tokens,
        },
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def _fc(answer: Answer, index: int) -> str:
    return f"fc_{answer.number:040x}{index:08x}"


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """An item before anything is in it."""
    empty: dict[str, Any] = {"summary": [], "content": [], "arguments": ""}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _summary(part: dict[str, Any], pieces: list[str]) -> Iterator[dict[str, Any]]:
    at = {"summary_index": 0}
    empty = {**part, "text": ""}
    yield {"type": "response.reasoning_summary_part.added", **at, "part": empty}
    for piece in pieces:
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _text(part: dict[str, Any], pieces: list[str]) -> Iterator[dict[str, Any]]:
    at = {"content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in pieces:
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def _frame(event: dict[str, Any], number: int) -> Frame:
    name = event["type"]
    data = msgspec.json.encode({**event, "sequence_number": number})
    return Frame(b"event: " + name.encode() + b"\ndata: " + data + b"\n\n", name in _CONTENT)
