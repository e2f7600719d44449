"""What AgentOS charges for usage, on top of the plan: kept apart from what providers charge."""

from __future__ import annotations

# Tokens are passed through with this on top.
TOKEN_MARKUP_PERCENT = 15
COMPUTE_MICROS_PER_MINUTE = 5_000
STORAGE_MICROS_PER_GB_MONTH = 100_000
API_CALL_MICROS = 1_000


def rated(cost_micros: int | None) -> int | None:
    """What a model call is charged at; unknown stays unknown."""
    if cost_micros is None:
        return None
    return -(-cost_micros * (100 + TOKEN_MARKUP_PERCENT) // 100)
