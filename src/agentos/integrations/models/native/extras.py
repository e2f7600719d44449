"""What a wire can say that a conversation has no place for: added to a request that was written.

Only requests that need it are opened again, and only as far as needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from pydantic_ai.settings import CacheConfig, CacheRetention

from agentos.integrations.models.native.messages import REDACTED

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """What Anthropic should keep of a request, and for how long."""

    control: Mapping[str, str]
    messages: bool

    @classmethod
    def of(cls, cache: Literal[True] | CacheRetention | CacheConfig) -> CacheMarks:
        retention: object = cache
        messages = True
        if isinstance(cache, dict):
            retention, messages = cache.get("retention", True), cache.get("messages", True)
        control = {"type": "ephemeral"}
        if retention == "1h":
            control["ttl"] = "1h"
        return cls(control, messages)


@dataclass(frozen=True, slots=True)
class Extras:
    # Fields of the request itself. One that is an object is joined with what was written.
    fields: dict[str, Any]
    # The names of tools whose arguments must follow their schema.
    strict: frozenset[str]
    # Fields of the assistant's turns, by their number.
    thoughts: Mapping[int, Mapping[str, str]]
    # Whether a thought is among them that only Claude can read.
    redacted: bool
    cache: CacheMarks | None

    def added_to(self, body: bytes) -> bytes:
        if not (self.fields or self.strict or self.thoughts or self.redacted or self.cache):
            return body
        request: dict[str, Any] = _FIELDS.decode(body)
        for name, value in self.fields.items():
            request[name] = _joined(request.get(name), value)
        if self.strict:
            request["tools"] = [self._strict_tool(tool) for tool in _LIST.decode(request["tools"])]
        if self.thoughts:
            request["messages"] = self._with_thoughts(request["messages"])
        if self.redacted:
            request["messages"] = _with_redacted(request["messages"])
        if self.cache is not None:
            _mark(request, self.cache)
        return msgspec.json.encode(request)

    def _strict_tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        function = _FIELDS.decode(tool["function"]) if "function" in tool else None
        named: Mapping[str, msgspec.Raw] = tool if function is None else function
        if msgspec.json.decode(named["name"]) not in self.strict:
            return tool
        if function is None:
            return {**tool, "strict": True}
        return {**tool, "function": {**function, "strict": True}}

    def _with_thoughts(self, messages: msgspec.Raw) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        turn = 0
        for message in _LIST.decode(messages):
            if bytes(message["role"]) != b'"assistant"':
                written.append(message)
                continue
            written.append({**message, **self.thoughts.get(turn, {})})
            turn += 1
        return written


def _joined(written: msgspec.Raw | None, value: Any) -> Any:
    if not isinstance(value, Mapping) or written is None or not bytes(written).startswith(b"{"):
        return value
    return {**_FIELDS.decode(written), **value}


def _with_redacted(messages: Any) -> list[Any]:
    """The messages with each marked thought as the block it came as."""
    return [
        {**message, "content": [_unmarked(block) for block in message["content"]]}
        if isinstance(message["content"], list)
        else message
        for message in msgspec.json.decode(msgspec.json.encode(messages))
    ]


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    signature = block.get("signature")
    if block["type"] != "thinking" or not str(signature).startswith(REDACTED):
        return block
    return {"type": "redacted_thinking", "data": str(signature).removeprefix(REDACTED)}


def _mark(request: dict[str, Any], cache: CacheMarks) -> None:
    control = dict(cache.control)
    if "system" in request:
        text = msgspec.json.decode(request["system"])
        request["system"] = [{"type": "text", "text": text, "cache_control": control}]
    if "tools" in request:
        tools = msgspec.json.decode(msgspec.json.encode(request["tools"]))
        request["tools"] = [*tools[:-1], {**tools[-1], "cache_control": control}]
    if cache.messages:
        request["cache_control"] = control
