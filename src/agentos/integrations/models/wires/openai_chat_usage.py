"""How many tokens a chat completion says it took."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.conversation import Usage


class InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None

    def read(self) -> Usage:
        read = self.prompt_tokens or 0
        # Some vendors leave reasoning out of the completion and count it in the total only.
        written = max(self.completion_tokens or 0, (self.total_tokens or 0) - read)
        input_details = self.prompt_tokens_details or InputDetails()
        output_details = self.completion_tokens_details or OutputDetails()
        return Usage(
            input=read,
            output=written,
            cache_read=input_details.cached_tokens or 0,
            cache_write=input_details.cache_write_tokens or 0,
            reasoning=output_details.reasoning_tokens or 0,
        )


def written(usage: Usage) -> dict[str, Any]:
    """Usage as a chat completion says it."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
