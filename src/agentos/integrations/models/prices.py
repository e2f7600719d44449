"""What tokens cost: integer rates, from the offline catalogue of genai-prices or the tenant's own."""

from __future__ import annotations

import msgspec

from agentos.integrations.models.conversation import Usage


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Micro-dollars for a million tokens of each kind."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_long: int
    # (from how many input tokens, the rates that then hold for the whole call), smallest first.
    tiers: tuple[tuple[int, Rates], ...] = ()

    def cost(self, usage: Usage) -> int:
        """Micro-dollars, rounded up."""
        rates = self._tier(usage.input)
        fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
        short_writes = usage.cache_write - usage.cache_write_long
        total = (
            fresh * rates.input
            + usage.cache_read * rates.cache_read
            + short_writes * rates.cache_write
            + usage.cache_write_long * rates.cache_write_long
            + usage.output * rates.output
        )
        return -(-total // 1_000_000)

    def worst(self, input_tokens: int, output_tokens: int) -> int:
        """The most that so many tokens can cost."""
        candidates = [self, *(tier for start, tier in self.tiers if input_tokens > start)]
        dearest_input = max(
            max(rates.input, rates.cache_write, rates.cache_write_long) for rates in candidates
        )
        dearest_output = max(rates.output for rates in candidates)
        return -(-(input_tokens * dearest_input + output_tokens * dearest_output) // 1_000_000)

    def _tier(self, input_tokens: int) -> Rates:
        rates = self
        for start, tier in self.tiers:
            if input_tokens > start:
                rates = tier
        return rates
