from __future__ import annotations

import asyncio
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import genai_prices
import pytest
from genai_prices import data
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.prices import Catalogue, Rates, may_carry_sound
from agentos.kernel.clock import MovableClock

# Midnight is when a price that depends on the hour need not be the dearest.
NOW = datetime(2026, 11, 16, 0, 0, tzinfo=UTC)
ANTHROPIC = ("anthropic",)
OPENAI = ("openai",)
GOOGLE = ("google",)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(MovableClock(NOW))


def every_model() -> Iterator[tuple[Provider, ModelInfo]]:
    for provider in data.providers:
        for model in provider.models:
            # Some ids are only names, or another entry comes first: neither can be looked up.
            if provider.find_model(model.id) is model:
                yield provider, model


def usages(seed: str) -> Iterator[Usage]:
    dice = random.Random(seed)
    for size in (1, 1_000, 150_000, 400_000, 1_000_000):
        total = dice.randint(0, size)
        read = dice.randint(0, total)
        write = dice.randint(0, total - read)
        yield Usage(total, dice.randint(0, 30_000), read, write, dice.randint(0, write))
    yield Usage(200_000, 10)
    yield Usage(200_001, 10)
    yield Usage(272_001, 0, 272_001)


def theirs(
    provider: Provider, model: str, usage: Usage, context: dict[str, str] | None = None
) -> int:
    """What genai-prices itself says, in micro-dollars, rounded up."""
    counted = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        cache_write_5m_tokens=usage.cache_write - usage.cache_write_long,
        cache_write_1h_tokens=usage.cache_write_long,
        input_audio_tokens=0,
        cache_audio_read_tokens=0,
        input_video_tokens=0,
    )
    price = genai_prices.calc_price(
        counted,
        model,
        provider_id=provider.id,
        genai_request_timestamp=NOW,
        price_context=context,
    )
    return math.ceil(price.total_price * 1_000_000)


def _amounts(price: Decimal | TieredPrices | None) -> list[Decimal]:
    if isinstance(price, TieredPrices):
        return [price.base, *(tier.price for tier in price.tiers)]
    return [] if price is None else [price]


def _below_input(prices: ModelPrice) -> bool:
    writes, inputs = _amounts(prices.cache_write_mtok), _amounts(prices.input_mtok)
    if len(writes) == len(inputs):
        return any(write < fresh for write, fresh in zip(writes, inputs, strict=True))
    return bool(writes) and min(writes) < max(inputs)


def is_exact(model: ModelInfo, usage: Usage) -> bool:
    """Whether our rates say exactly what the data says; else they say more, for a reason."""
    prices = model.get_prices(NOW)
    if isinstance(model.prices, list) and any(
        hasattr(each.constraint, "start_time") for each in model.prices
    ):
        return False  # the dearest hour of the day
    if prices.output_mtok is None and usage.output:
        return False  # models that write nothing
    if _below_input(prices) and usage.cache_write:
        return False  # data that lists only the surcharge of a cache write
    if prices.cache_write_1h_mtok is None and usage.cache_write_long and "claude" in model.id:
        return False  # an hour's write that the reseller does not list
    # Fractions of a micro-dollar for a million tokens.
    return not any(
        amount * 1_000_000 % 1 for price in vars(prices).values() for amount in _amounts(price)
    )


def test_costs_are_those_of_genai_prices_over_all_its_models(catalogue: Catalogue) -> None:
    exact = compared = 0
    for provider, model in every_model():
        rates = catalogue.rates((provider.id,), model.id, sound=False)
        if rates is None:
            continue
        for usage in usages(f"{provider.id} {model.id}"):
            cost = rates.cost(usage)
            compared += 1
            if is_exact(model, usage):
                exact += 1
                assert cost == theirs(provider, model.id, usage), (provider.id, model.id, usage)
            else:
                assert cost >= theirs(provider, model.id, usage), (provider.id, model.id, usage)
    assert compared > 10_000
    assert exact > 0.85 * compared


@pytest.mark.parametrize("tier", ["priority", "fast", "flex", "default"])
@pytest.mark.parametrize("provider_id", ["openai", "google"])
def test_service_tiers_are_those_of_genai_prices(
    catalogue: Catalogue, provider_id: str, tier: str
) -> None:
    compared = 0
    for provider, model in every_model():
        if provider.id != provider_id:
            continue
        rates = catalogue.rates((provider.id,), model.id, tier, sound=False)
        if rates is None:
            continue
        for usage in usages(model.id):
            reads = Usage(usage.input, usage.output, usage.cache_read)
            if is_exact(model, reads):
                compared += 1
                expected = theirs(provider, model.id, reads, {"service_tier": tier})
                assert rates.cost(reads) == expected, (model.id, reads)
    assert compared or (provider_id, tier) == ("google", "fast")


def test_a_dated_name_is_found(catalogue: Catalogue) -> None:
    rates = catalogue.rates(ANTHROPIC, "claude-sonnet-4-5-20250929")
    assert rates == Rates(
        input=3_000_000,
        output=15_000_000,
        cache_read=300_000,
        cache_write=3_750_000,
        cache_write_long=6_000_000,
        tiers=((200_000, Rates(6_000_000, 22_500_000, 600_000, 7_500_000, 12_000_000)),),
    )


def test_names_of_other_shapes_are_found(catalogue: Catalogue) -> None:
    assert catalogue.rates(("openrouter",), "anthropic/claude-sonnet-4.5")
    assert catalogue.rates(OPENAI, "gpt-5-2025-08-07") == catalogue.rates(OPENAI, "gpt-5")
    plain = catalogue.rates(GOOGLE, "gemini-2.5-pro")
    assert plain
    assert catalogue.rates(GOOGLE, "models/gemini-2.5-pro") == plain


def test_the_first_provider_that_knows_the_model_counts(catalogue: Catalogue) -> None:
    claude = catalogue.rates(ANTHROPIC, "claude-sonnet-4-5")
    assert catalogue.rates(("openai", "anthropic"), "claude-sonnet-4-5") == claude
    assert catalogue.rates(["nobody", "anthropic"], "claude-sonnet-4-5") == claude
    assert catalogue.rates((), "claude-sonnet-4-5") is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "no-such-model"),
        ("openai", "x" * 100_000),
        ("openai", ""),
        ("google", "gemini-2.5-flash-image"),  # charges for the pictures it makes
        ("openai", "gpt-realtime"),  # and for sounds
        ("groq", "whisper-large-v3"),  # by the hour
        ("mistral", "mistral-ocr-latest"),  # by the page
        ("perplexity", "sonar-pro"),  # for every request
        ("perplexity", "sonar-deep-research"),  # for thinking apart
        ("google", "gemma-3"),  # has no price in the data, which does not make it free
    ],
)
def test_what_cannot_be_known_is_unknown(catalogue: Catalogue, provider: str, model: str) -> None:
    assert catalogue.rates((provider,), model) is None


def test_a_model_that_is_free_by_its_name_costs_nothing(catalogue: Catalogue) -> None:
    rates = catalogue.rates(("openrouter",), "qwen/qwen3-coder:free")
    assert rates == Rates(0, 0, 0, 0, 0)


def test_an_unknown_service_tier_has_no_price(catalogue: Catalogue) -> None:
    standard = catalogue.rates(OPENAI, "gpt-5.5")
    assert standard
    assert catalogue.rates(OPENAI, "gpt-5.5", "auto") == standard
    assert catalogue.rates(ANTHROPIC, "claude-sonnet-4-5", "standard_only")
    assert catalogue.rates(OPENAI, "gpt-5.5", "zoom") is None
    assert catalogue.rates(OPENAI, "gpt-3.5-turbo")
    assert catalogue.rates(OPENAI, "gpt-3.5-turbo", "priority") is None
    assert catalogue.rates(OPENAI, "gpt-3.5-turbo", "flex")


def test_a_price_borrowed_from_another_provider_has_no_service_tiers(catalogue: Catalogue) -> None:
    assert catalogue.rates(("azure",), "gpt-5.5")
    assert catalogue.rates(("azure",), "gpt-5.5", "priority") is None


def test_sound_is_priced_unless_it_is_ruled_out(catalogue: Catalogue) -> None:
    careful = catalogue.rates(GOOGLE, "gemini-2.5-flash")
    silent = catalogue.rates(GOOGLE, "gemini-2.5-flash", sound=False)
    assert careful
    assert silent
    assert (careful.input, silent.input) == (1_000_000, 300_000)
    assert careful.cache_read > silent.cache_read
    assert careful.output == silent.output


@pytest.mark.parametrize(
    ("body", "sounds"),
    [
        (b'{"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}', True),
        (b'{"type": "input_audio", "input_audio": {"data": "UklG"}}', True),
        (b'{"fileData": {"mimeType": "video/mp4"}}', True),
        (b'{"type": "text", "text": "hello"}', False),
        (b'{"inlineData": {"mimeType": "image/png"}}', False),
    ],
)
def test_sound_is_seen_in_a_request(body: bytes, sounds: bool) -> None:
    assert may_carry_sound(body) is sounds


def test_an_hourly_price_is_that_of_the_dearest_hour(catalogue: Catalogue) -> None:
    rates = catalogue.rates(("deepseek",), "deepseek-chat")
    assert rates == Rates(270_000, 1_100_000, 70_000, 270_000, 270_000)


def test_prices_change_with_the_day() -> None:
    clock = MovableClock(datetime(2026, 10, 18, 23, 59, tzinfo=UTC))
    catalogue = Catalogue(clock)
    before = catalogue.rates(("openrouter",), "google/gemini-2.5-flash")
    clock.advance(timedelta(minutes=2))
    after = catalogue.rates(("openrouter",), "google/gemini-2.5-flash")
    assert before
    assert after
    assert (before.cache_read, after.cache_read) == (75_000, 30_000)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Catalogue, "_MOST_REMEMBERED", 10)
    catalogue = Catalogue(MovableClock(NOW))
    for number in range(50):
        assert catalogue.rates(ANTHROPIC, f"unknown-{number}") is None
        assert len(catalogue._rates) <= 10
        assert len(catalogue._found) <= 10
    assert catalogue.rates(ANTHROPIC, "claude-sonnet-4-5")


def test_context_windows(catalogue: Catalogue) -> None:
    assert catalogue.context_window(ANTHROPIC, "claude-sonnet-4-5-20250929") == 200_000
    assert catalogue.context_window(OPENAI, "no-such-model") is None


async def test_loading_twice_at_once_is_fine() -> None:
    catalogue = Catalogue()
    await asyncio.gather(catalogue.load(), catalogue.load())
    assert catalogue.rates(ANTHROPIC, "claude-sonnet-4-5")


def test_importing_the_module_does_not_load_the_data() -> None:
    program = (
        "import sys, agentos.integrations.models.prices as prices;"
        "assert 'genai_prices' not in sys.modules;"
        "assert prices.Catalogue().rates(('openai',), 'gpt-5');"
        "assert 'genai_prices.data' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


RATE = st.integers(0, 200_000_000)
SIMPLE = st.builds(Rates, RATE, RATE, RATE, RATE, RATE)
TIERS = st.lists(st.tuples(st.integers(0, 500_000), SIMPLE), max_size=3).map(
    lambda tiers: tuple(sorted(tiers, key=lambda tier: tier[0]))
)
RATES = st.builds(Rates, RATE, RATE, RATE, RATE, RATE, TIERS)


@st.composite
def plausible_usages(draw: st.DrawFn) -> Usage:
    total = draw(st.integers(0, 1_000_000))
    read = draw(st.integers(0, total))
    write = draw(st.integers(0, total - read))
    output = draw(st.integers(0, 100_000))
    return Usage(total, output, read, write, draw(st.integers(0, write)))


@settings(deadline=None)
@given(RATES, plausible_usages(), st.integers(0, 1_000), st.integers(0, 1_000))
def test_no_call_costs_more_than_the_worst(
    rates: Rates, usage: Usage, more_input: int, more_output: int
) -> None:
    worst = rates.worst(usage.input + more_input, usage.output + more_output)
    assert 0 <= rates.cost(usage) <= worst


def test_a_tier_holds_for_the_whole_call() -> None:
    rates = Rates(1, 1, 1, 1, 1, ((100, Rates(5_000_000, 0, 0, 0, 0)),))
    assert rates.cost(Usage(100)) == 1
    assert rates.cost(Usage(101)) == 505
