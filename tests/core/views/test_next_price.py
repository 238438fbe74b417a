"""The price of the next request's input, with the provider's cache and without, and when it is told."""

from decimal import Decimal

import pytest

from ikigai.core.events.events import PromptPrefix, UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.request.cache_diagnosis import CacheUse
from ikigai.core.views.next_price import MIN_TOLD_DIFFERENCE, NextPrice, cold_notice, next_price, price_words

MODEL = "anthropic/claude-x"


def price(usage: Usage) -> float | None:
    """Return dollars at 10 for a million tokens; a tenth to read, 1.25 to write and 2 to write for an hour."""
    fresh = usage.input - usage.cached - usage.written
    return (10 * fresh + usage.cached + 12.5 * usage.written + 7.5 * usage.written_1h) / 1e6


def used(ttl: int = 300, model: str = MODEL) -> CacheUse:
    usage = Usage(100_000, 5, 90_000, written=10_000)
    return CacheUse(UsageReported(model, usage, prefix=PromptPrefix(ttl=ttl)), 1_000.0)


@pytest.mark.parametrize(
    ("last", "at", "warm", "cold", "seconds"),
    [
        (used(), 1_060.0, "0.225", "1.375", 240),
        (used(), 1_300.0, "0.225", "1.375", 0),
        (used(3_600), 1_300.0, "0.3", "2.2", 3_300),
        (None, 1_300.0, "0.11", "1.375", None),
        (used(model="anthropic/other"), 1_300.0, "0.11", "1.375", None),
    ],
)
def test_price_with_and_without_the_cache(last: CacheUse | None, at: float, warm: str, cold: str, seconds: int | None):
    found = next_price(MODEL, 110_000, last, at, price)
    assert (round(found.warm or 0, 6), round(found.cold or 0, 6)) == (Decimal(warm), Decimal(cold))
    assert found.seconds == seconds


def test_writing_is_priced_where_it_costs():
    assert next_price("openai/gpt-4o", 1_000, None, 0.0, price).cold == Decimal("0.01")
    assert next_price("openai/gpt-5.6", 1_000, None, 0.0, price).cold == Decimal("0.0125")


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (NextPrice(9, Decimal("0.1"), Decimal(1), 61), "cached for 2 more minutes"),
        (NextPrice(9, Decimal("0.1"), Decimal(1), 0), "the cache has expired"),
        (NextPrice(9, Decimal("0.1"), Decimal(1)), "nothing is known to be cached"),
        (NextPrice(9, None, None), "unknown"),
        (NextPrice(9, Decimal(0), Decimal(0)), "free"),
    ],
)
def test_context_names_both_prices(of: NextPrice, words: str):
    assert words in price_words(of)


def test_cold_cache_is_told_where_the_difference_matters():
    warm = Decimal("0.02")
    assert "about $0.1200 instead of $0.0200" in cold_notice(NextPrice(9, warm, warm + MIN_TOLD_DIFFERENCE, 0))
    assert not cold_notice(NextPrice(9, warm, warm + MIN_TOLD_DIFFERENCE - Decimal("0.0001"), 0))
    assert not cold_notice(NextPrice(9, warm, Decimal(5), 10)), "it is still there"
    assert not cold_notice(NextPrice(9, warm, Decimal(5))), "nothing was there"
