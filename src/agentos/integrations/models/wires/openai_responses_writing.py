"""Answers of the Responses API, written: whole, and as a stream."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from agentos.integrations.models.conversation import (
    Answer,
    Finish,
    Finished,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    ToolUse,
    Usage,
)
from agentos.integrations.models.wires import openai_errors, openai_responses_usage, sse
from agentos.integrations.models.wires.base import Glance
from agentos.integrations.models.wires.openai_responses_items import written_call

_ITEM_PREFIXES = {Text: "msg", Thinking: "rs", ToolUse: "fc"}


# Whole answers


def write(answer: Answer) -> bytes:
    shown = [part for part in answer.parts if not isinstance(part, Thinking) or part.text]
    output = [
        _item(index, answer.id, part).shape(_part_text(part), "completed")
        for index, part in enumerate(shown)
    ]
    _, members = _ending(answer.finish, answer.usage, output)
    response = _write_response(answer.id, answer.model, int(time.time()))
    return msgspec.json.encode({**response, **members})


def _write_response(
    id: str, model: str, created: int, max_output: int | None = None
) -> dict[str, Any]:
    """A response that has just begun, with every member that OpenAI's SDKs count on."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": max_output,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }


def _ending(
    finish: Finish, usage: Usage, output: list[dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """How a response ended, and the members that say so."""
    reason = {Finish.LENGTH: "max_output_tokens", Finish.FILTERED: "content_filter"}.get(finish)
    status = "incomplete" if reason else "completed"
    return status, {
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": openai_responses_usage.written(usage),
    }


class _Item:
    """An output item as it grows."""

    def __init__(self, index: int, id: str, part: Text | Thinking | ToolUse):
        self.index = index
        self.id = id
        self.part = part
        self.written: list[str] = []

    def shape(self, text: str, status: str) -> dict[str, Any]:
        """The item with so much written into it."""
        part = self.part
        if isinstance(part, Text):
            content = [_output_text(text)] if status == "completed" else []
            head = {"id": self.id, "type": "message", "status": status, "role": "assistant"}
            return {**head, "content": content}
        if isinstance(part, Thinking):
            summary = [_summary_text(text)] if status == "completed" else []
            return {"id": self.id, "type": "reasoning", "summary": summary}
        return {"id": self.id, "status": status, **written_call(part.id, part.name, text)}


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary_text(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def _item(index: int, answer_id: str, part: Text | Thinking | ToolUse) -> _Item:
    return _Item(index, f"{_ITEM_PREFIXES[type(part)]}_{answer_id}_{index}", part)


def _part_text(part: Text | Thinking | ToolUse) -> str:
    return part.arguments if isinstance(part, ToolUse) else part.text


# Streams


def stream_error(sequence: int, error_class: str, code: str, message: str) -> bytes:
    # Said twice: the event is as documented, and `error` makes OpenAI's SDKs raise, who would
    # otherwise let it pass as one more event.
    error = openai_errors.error_object(500, error_class, code, message)
    event = {
        "type": "error",
        "sequence_number": sequence,
        "code": code,
        "message": message,
        "param": None,
        "error": error,
    }
    return sse.frame(msgspec.json.encode(event), "error")


class ResponsesWriter:
    """Writes the events of a response in the order in which OpenAI sends them."""

    def __init__(self, glance: Glance):
        self._glance = glance
        self._sequence = 0
        self._response: dict[str, Any] = _write_response("", glance.model, 0)
        self._open: dict[int, _Item] = {}
        self._done: dict[int, dict[str, Any]] = {}

    def write(self, event: StreamEvent) -> bytes:
        if isinstance(event, Started):
            return self._start(event)
        if isinstance(event, TextDelta):
            return self._write_text(event)
        if isinstance(event, ThinkingDelta):
            return self._write_thinking(event)
        if isinstance(event, ToolStarted):
            part = ToolUse(event.id, event.name, "")
            return self._close(tools=False) + self._begin(event.index, part)
        if isinstance(event, ToolDelta):
            return self._write_delta(
                event.index, "response.function_call_arguments.delta", event.arguments
            )
        if isinstance(event, Finished):
            return self._end(event)
        return stream_error(self._sequence, event.kind, event.kind, event.message)

    def _event(self, type: str, **members: Any) -> bytes:
        payload = {"type": type, "sequence_number": self._sequence, **members}
        self._sequence += 1
        return sse.frame(msgspec.json.encode(payload), type)

    def _start(self, event: Started) -> bytes:
        created = int(time.time())
        self._response = _write_response(
            event.id, event.model, created, max_output=self._glance.max_output
        )
        return self._event("response.created", response=self._response) + self._event(
            "response.in_progress", response=self._response
        )

    def _write_text(self, event: TextDelta) -> bytes:
        begun = b""
        if event.index not in self._open:
            begun = self._close() + self._begin(event.index, Text(""))
            begun += self._part_event("response.content_part.added", event.index, "")
        return begun + self._write_delta(
            event.index, "response.output_text.delta", event.text, content_index=0, logprobs=[]
        )

    def _write_thinking(self, event: ThinkingDelta) -> bytes:
        if not event.text:  # A signature alone is nothing that OpenAI's callers could use.
            return b""
        begun = b""
        if event.index not in self._open:
            begun = self._close() + self._begin(event.index, Thinking(""))
            begun += self._part_event("response.reasoning_summary_part.added", event.index, "")
        return begun + self._write_delta(
            event.index, "response.reasoning_summary_text.delta", event.text, summary_index=0
        )

    def _begin(self, index: int, part: Text | Thinking | ToolUse) -> bytes:
        item = _item(len(self._open) + len(self._done), self._response["id"], part)
        self._open[index] = item
        return self._event(
            "response.output_item.added",
            output_index=item.index,
            item=item.shape("", "in_progress"),
        )

    def _write_delta(self, index: int, type: str, text: str, **members: Any) -> bytes:
        item = self._open[index]
        item.written.append(text)
        return self._item_event(type, item, delta=text, **members)

    def _item_event(self, type: str, item: _Item, **members: Any) -> bytes:
        return self._event(type, item_id=item.id, output_index=item.index, **members)

    def _part_event(self, type: str, index: int, text: str) -> bytes:
        item = self._open[index]
        if isinstance(item.part, Text):
            return self._item_event(type, item, content_index=0, part=_output_text(text))
        return self._item_event(type, item, summary_index=0, part=_summary_text(text))

    def _close(self, *, tools: bool = True) -> bytes:
        """Ends every item that is open; without `tools`, all but the tool uses."""
        closing = [
            index
            for index, item in self._open.items()
            if tools or not isinstance(item.part, ToolUse)
        ]
        return b"".join(self._finish_item(index) for index in closing)

    def _finish_item(self, index: int) -> bytes:
        item = self._open[index]
        text = "".join(item.written)
        if isinstance(item.part, Text):
            done = self._item_event(
                "response.output_text.done", item, content_index=0, text=text, logprobs=[]
            ) + self._part_event("response.content_part.done", index, text)
        elif isinstance(item.part, Thinking):
            done = self._item_event(
                "response.reasoning_summary_text.done", item, summary_index=0, text=text
            ) + self._part_event("response.reasoning_summary_part.done", index, text)
        else:
            done = self._item_event(
                "response.function_call_arguments.done",
                item,
                name=item.part.name,
                arguments=text,
            )
        del self._open[index]
        self._done[item.index] = item.shape(text, "completed")
        return done + self._event(
            "response.output_item.done", output_index=item.index, item=self._done[item.index]
        )

    def _end(self, event: Finished) -> bytes:
        closed = self._close()
        output = [self._done[index] for index in sorted(self._done)]
        status, members = _ending(event.finish, event.usage, output)
        return closed + self._event(f"response.{status}", response={**self._response, **members})
