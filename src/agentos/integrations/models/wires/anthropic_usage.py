"""How many tokens a message says it took."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.conversation import Usage


class CacheCreation(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class MessageUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None

    def then(self, later: MessageUsage) -> MessageUsage:
        """What holds after a later report: counts are totals, and what is left out still holds."""
        return MessageUsage(
            **{
                field: _later(getattr(self, field), getattr(later, field))
                for field in self.__struct_fields__
            }
        )

    def read(self) -> Usage:
        written = self.cache_creation_input_tokens or 0
        cached = self.cache_read_input_tokens or 0
        lasting = self.cache_creation.ephemeral_1h_input_tokens if self.cache_creation else 0
        details = self.output_tokens_details
        return Usage(
            input=(self.input_tokens or 0) + written + cached,
            output=self.output_tokens or 0,
            cache_read=cached,
            cache_write=written,
            cache_write_long=min(lasting or 0, written),
            reasoning=(details.thinking_tokens or 0) if details else 0,
        )


def written(usage: Usage) -> dict[str, Any]:
    """Usage as a message says it."""
    lasting = usage.cache_write_long
    fields: dict[str, Any] = {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - lasting,
            "ephemeral_1h_input_tokens": lasting,
        },
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return fields


def _later(before: Any, after: Any) -> Any:
    return before if after is None else after
