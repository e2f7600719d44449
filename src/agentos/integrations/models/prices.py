"""What tokens cost: integer rates, from the offline catalogue of genai-prices or the tenant's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_CEILING, Decimal
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.kernel.clock import Clock, SystemClock

if TYPE_CHECKING:
    # At run time it is imported where it is used: its data takes half a second to load.
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices


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
        short_writes = max(0, usage.cache_write - usage.cache_write_long)
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
            max(rates.input, rates.cache_read, rates.cache_write, rates.cache_write_long)
            for rates in candidates
        )
        dearest_output = max(rates.output for rates in candidates)
        return -(-(input_tokens * dearest_input + output_tokens * dearest_output) // 1_000_000)

    def _tier(self, input_tokens: int) -> Rates:
        rates = self
        for start, tier in self.tiers:
            if input_tokens > start:
                rates = tier
        return rates


# What nobody charges for: a machine of one's own.
FREE = Rates(input=0, output=0, cache_read=0, cache_write=0, cache_write_long=0)


class Catalogue:
    """Public prices and context windows, as they were when genai-prices was released.

    A price that cannot be put into `Rates` without the risk of being too low is not known:
    that of models which also charge for each request, page, minute or picture, or for pictures
    and sounds they make. Fees for tools that a provider runs itself (web search) are left out.
    """

    # Callers choose the names that are looked up, so what is remembered of them is bounded.
    _MOST_REMEMBERED = 4096
    _LONGEST_NAME = 256

    def __init__(self, clock: Clock | None = None):
        self._clock = clock or SystemClock()
        self._day = date.min
        self._rates: dict[tuple[tuple[str, ...], str, str | None, bool], Rates | None] = {}
        self._found: dict[tuple[tuple[str, ...], str], tuple[Provider, ModelInfo] | None] = {}

    async def load(self) -> None:
        """Reads the prices in a thread, so that the first call does not have to wait for it."""
        await asyncio.to_thread(_offline_prices)

    def rates(
        self,
        price_ids: Sequence[str],
        model: str,
        service_tier: str | None = None,
        *,
        sound: bool = True,
    ) -> Rates | None:
        """What the first of these providers that knows the model charges for it today.

        `sound` is whether the call may carry sound or video, which some models charge more for.
        Usage does not say which tokens were sound, so then all input is priced as if it were.
        """
        today = self._clock.now().date()
        if today != self._day:
            self._day = today
            self._rates.clear()
        key = (tuple(price_ids), model, service_tier, sound)
        try:
            return self._rates[key]
        except KeyError:
            found = self._find(key[0], model)
            rates = found and _rates_on(today, *found, service_tier, sound)
            if len(self._rates) >= self._MOST_REMEMBERED:
                self._rates.clear()
            self._rates[key] = rates
            return rates

    def context_window(self, price_ids: Sequence[str], model: str) -> int | None:
        found = self._find(tuple(price_ids), model)
        return found[1].context_window if found else None

    def _find(self, price_ids: tuple[str, ...], model: str) -> tuple[Provider, ModelInfo] | None:
        if len(model) > self._LONGEST_NAME:
            return None
        key = (price_ids, model)
        try:
            return self._found[key]
        except KeyError:
            found = _find(price_ids, model)
            if len(self._found) >= self._MOST_REMEMBERED:
                self._found.clear()
            self._found[key] = found
            return found


def may_carry_sound(body: bytes) -> bool:
    """Whether a request could hold sound or video, in any wire's words; True when in doubt."""
    return b"audio" in body or b"video" in body


@cache
def _offline_prices() -> dict[str, Provider]:
    # Not the library's snapshot: that may have been replaced by prices from the network.
    from genai_prices.data import providers

    return {provider.id: provider for provider in providers}


def _find(price_ids: Iterable[str], model: str) -> tuple[Provider, ModelInfo] | None:
    providers = _offline_prices()
    everyone = list(providers.values())
    name = model.removeprefix("models/")
    for price_id in price_ids:
        provider = providers.get(price_id)
        if provider and (found := provider.find_model(name, all_providers=everyone)):
            return provider, found
    return None


# From the library's data to rates

_TOKENS = frozenset({"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"})
_LONG_WRITES = frozenset({"cache_write_1h_mtok"})
_SOUNDS = frozenset({"input_audio_mtok", "input_video_mtok", "cache_audio_read_mtok"})
# Due only if the caller lets the provider run a tool of its own.
_TOOL_FEES = frozenset({"web_searches_kcount", "storage_searches_kcount", "social_searches_kcount"})
_PRICED = _TOKENS | _LONG_WRITES | _SOUNDS | _TOOL_FEES

# Other names for the standard price, and tiers that no provider charges more for. Any other tier
# has to be in the data: a tier that is bought for speed is never cheaper than the standard.
_STANDARD_TIERS = frozenset(
    {None, "auto", "default", "standard", "standard_only", "on_demand", "flex", "batch", "scale"}
)


def _rates_on(
    day: date, provider: Provider, model: ModelInfo, service_tier: str | None, sound: bool
) -> Rates | None:
    """The dearest rates of that day: some prices depend on the hour."""
    # As in the library: a price borrowed from another provider has no tiers of this one.
    own = any(model is each for each in provider.models)
    tier = service_tier if own else None
    options = []
    for moment in _moments(day, model):
        if service_tier not in _STANDARD_TIERS and not (own and _has_tier(model, tier, moment)):
            return None
        prices = model.get_prices(moment, {"service_tier": tier} if tier else None)
        rates = _rates_of(model, prices, sound)
        if rates is None:
            return None
        options.append(rates)
    return _dearest(options)


def _moments(day: date, model: ModelInfo) -> list[datetime]:
    """A moment in every part of the day that has a price of its own."""
    starts = {time(0, tzinfo=UTC)}
    constraints = [variant.constraint for variant in model.price_variants or ()]
    if isinstance(model.prices, list):
        constraints += [each.constraint for each in model.prices]
    for constraint in constraints:
        for edge in ("start_time", "end_time"):
            at: time | None = getattr(constraint, edge, None)
            if at is not None:
                starts.add(_in_utc(at))
    return [datetime.combine(day, start) for start in sorted(starts)]


def _in_utc(at: time) -> time:
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    return datetime.combine(date(2000, 1, 1), at).astimezone(UTC).timetz()


def _has_tier(model: ModelInfo, service_tier: str | None, moment: datetime) -> bool:
    return any(
        variant.when == {"service_tier": service_tier}
        and (variant.constraint is None or variant.constraint.active(moment))
        for variant in model.price_variants or ()
    )


def _rates_of(model: ModelInfo, prices: ModelPrice, sound: bool) -> Rates | None:
    known = {key: price for key, price in vars(prices).items() if price is not None}
    if not known and model.id.endswith(":free"):
        return Rates(0, 0, 0, 0, 0)
    if "input_mtok" not in known or not known.keys() <= _PRICED:
        return None
    if not sound:
        known = {key: price for key, price in known.items() if key not in _SOUNDS}
    is_claude = "claude" in model.id.lower()
    starts = {
        tier.start
        for price in known.values()
        if not isinstance(price, Decimal)
        for tier in price.tiers
    }
    tiers = [(start, _rates_above(start, known, is_claude)) for start in sorted(starts)]
    return msgspec.structs.replace(_rates_above(-1, known, is_claude), tiers=tuple(tiers))


def _rates_above(start: int, known: Mapping[str, Decimal | TieredPrices], is_claude: bool) -> Rates:
    """The rates for a call of more than `start` input tokens, and not many more."""

    def price(*keys: str, otherwise: int) -> int:
        found = [_micros(known[key], start + 1) for key in keys if key in known]
        return max(found, default=otherwise)

    fresh = price("input_mtok", "input_audio_mtok", "input_video_mtok", otherwise=0)
    # What is written to a cache is input, too; data that prices it lower states only the surcharge.
    cache_write = max(fresh, price("cache_write_mtok", otherwise=fresh))
    # Claude's hour costs twice the input wherever it is sold; resellers often do not list it.
    surcharged = is_claude and "cache_write_mtok" in known
    hour = 2 * fresh if surcharged else cache_write
    return Rates(
        input=fresh,
        # Only models that write nothing (embeddings) have no price for it.
        output=price("output_mtok", otherwise=fresh),
        cache_read=price("cache_read_mtok", "cache_audio_read_mtok", otherwise=fresh),
        cache_write=cache_write,
        cache_write_long=max(cache_write, price("cache_write_1h_mtok", otherwise=hour)),
    )


def _micros(price: Decimal | TieredPrices, input_tokens: int) -> int:
    if not isinstance(price, Decimal):
        reached = [tier.price for tier in price.tiers if input_tokens > tier.start]
        price = reached[-1] if reached else price.base
    return int((price * 1_000_000).to_integral_value(ROUND_CEILING))


def _dearest(options: Sequence[Rates]) -> Rates:
    if len(options) == 1:
        return options[0]
    starts = sorted({start for rates in options for start, _ in rates.tiers})
    tiers = tuple(
        (start, _highest([rates._tier(start + 1) for rates in options])) for start in starts
    )
    return msgspec.structs.replace(_highest(options), tiers=tiers)


def _highest(options: Sequence[Rates]) -> Rates:
    return Rates(
        input=max(rates.input for rates in options),
        output=max(rates.output for rates in options),
        cache_read=max(rates.cache_read for rates in options),
        cache_write=max(rates.cache_write for rates in options),
        cache_write_long=max(rates.cache_write_long for rates in options),
    )
