"""How many tokens a response says it took."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.wires.openai_chat_usage import InputDetails, OutputDetails


class ResponseUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None

    def read(self) -> Usage:
        read = self.input_tokens_details or InputDetails()
        written = self.output_tokens_details or OutputDetails()
        return Usage(
            input=self.input_tokens,
            output=self.output_tokens,
            cache_read=read.cached_tokens or 0,
            cache_write=read.cache_write_tokens or 0,
            reasoning=written.reasoning_tokens or 0,
        )


def written(usage: Usage) -> dict[str, Any]:
    """Usage as a response says it."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
