"""Price requests in US dollars: by the configuration's own prices, else by genai-prices.

genai-prices and the pydantic it needs take half a second to import, so they are imported when a price is needed, or by
`warm`: both belong in a thread. Nothing here raises: a request without a known price has none.
"""

from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ikigai.core.events.messages import Usage
from ikigai.core.events.record import Record
from ikigai.core.vendors import VENDORS
from ikigai.providers.http.network import is_loopback

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

FREE_PROVIDERS = ("local", "scripted")
"""Providers that are parts of ikigai."""

MILLION = 1_000_000
HOUR_SURCHARGE = 0.6
"""The share of the price of writing to a cache that an hour of life costs on top, at Anthropic (2 instead of 1.25)."""
PRICE_DECIMALS = 10
"""Decimal places of a dollar that are kept: a single token of the cheapest cache costs more than the last of them."""


class ModelPrices(Record, frozen=True):
    """Configured prices in dollars for a million tokens; None is not set. Tokens read from the cache or written to it
    cost as much as `input` unless they have a price of their own.
    """

    input: float | None = None
    output: float | None = None
    cached: float | None = None
    written: float | None = None


class PricedUsage(Record, frozen=True):
    """Dollars, None if unknown, and the source of the prices: "genai-prices 0.2.3", "configuration", both, or "local";
    "" without a cost.
    """

    cost: float | None = None
    priced_by: str = ""


UNPRICED = PricedUsage()

SEARCH_FEES: dict[str, int] = {
    "anthropic": 10,  # platform.claude.com/docs/en/about-claude/pricing, "Web search tool"
    "openai": 10,  # developers.openai.com/api/docs/pricing, "Built-in tools"
    "google": 14,  # ai.google.dev/gemini-api/docs/pricing, "Grounding with Google Search", Gemini 3
}
"""Dollars for a thousand web searches of the vendor, of a model whose price list in genai-prices names no fee."""


def price_request(
    model: str, usage: Usage, at: float, known: ModelPrices | None = None, base_url: str = "", book: str = ""
) -> PricedUsage:
    """Return the cost of a request to "provider/name" that was sent `at` seconds since 1970.

    `known` are the configuration's prices; the open ones come from genai-prices, as of `at`, with its tiers for long
    requests. `base_url` tells whose prices those are; "" is the vendor's own address. A model that runs inside ikigai
    costs nothing. `book` names the seller in genai-prices where neither says it. A server on this machine may be
    anything, also a proxy of a vendor, and has only a configured price.
    """
    provider, _, name = model.partition("/")
    known = known or ModelPrices()
    if min(usage.input, usage.output, usage.cached, usage.written, usage.searches) < 0:
        return UNPRICED
    try:
        if known.input is not None and known.output is not None and not usage.searches:
            return PricedUsage(_configured(known, known.input, known.output, usage), "configuration")
        if provider in FREE_PROVIDERS:
            return PricedUsage(0.0, provider)
        if base_url and is_loopback(urlsplit(base_url).hostname or ""):
            return UNPRICED
        return _by_genai_prices(provider, name, usage, at, known, base_url, book)
    except Exception:  # a model or server it does not know, a time out of range, and whatever else it may raise
        return UNPRICED


def preload() -> None:
    """Import what prices need, ahead of the first."""
    try:
        import genai_prices.data  # noqa: F401
    except Exception:  # then there are no prices, and `price` says so
        return


def _configured(known: ModelPrices, input: float, output: float, usage: Usage) -> float:
    cached = input if known.cached is None else known.cached
    written = input if known.written is None else known.written
    parts = (
        (max(usage.input - usage.cached - usage.written, 0), input),
        (usage.cached, cached),
        (usage.written, written),
        (usage.written_1h, 0.0 if known.written is None else HOUR_SURCHARGE * written),
        (usage.output, output),
    )
    return _rounded(sum((count * Decimal(str(dollars)) for count, dollars in parts), Decimal(0)) / MILLION)


def _by_genai_prices(
    provider: str, name: str, usage: Usage, at: float, known: ModelPrices, base_url: str, name_in_book: str
) -> PricedUsage:
    from copy import copy
    from datetime import UTC, datetime

    import genai_prices
    from genai_prices.data_snapshot import get_snapshot

    book = get_snapshot()
    if name_in_book:
        seller = next(one for one in book.providers if one.id == name_in_book)
    elif base_url or provider not in VENDORS:
        seller = book.find_provider(None, None, base_url.lower() or None)
    else:
        seller = next(one for one in book.providers if one.id == provider)
    name = name.removeprefix("models/")
    entry = seller.find_model(name, all_providers=book.providers)
    if entry is None:
        return UNPRICED
    prices = copy(entry.get_prices(datetime.fromtimestamp(at, UTC)))
    if usage.searches and getattr(prices, "web_searches_kcount", None) is None:
        if provider not in SEARCH_FEES:
            return UNPRICED
        setattr(prices, "web_searches_kcount", Decimal(SEARCH_FEES[provider]))  # noqa: B010  (its class declares none)
    own = _overrule(prices, known)
    if not own and not _has_prices(prices) and not name.endswith(":free"):
        return UNPRICED
    # `input_tokens` are the whole input: cached and written tokens are subtracted from it there.
    counted = genai_prices.Usage(
        input_tokens=max(usage.input, usage.cached + usage.written),
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.written,
        cache_write_1h_tokens=min(usage.written_1h, usage.written),
        output_tokens=usage.output,
        web_searches=usage.searches or None,
    )
    source = f"genai-prices {genai_prices.__version__}"
    return PricedUsage(
        _rounded(prices.calc_price(counted)["total_price"]), f"configuration, {source}" if own else source
    )


def _overrule(prices: "ModelPrice", known: ModelPrices) -> bool:
    """Replace prices by the configured ones; return True if there are any."""
    configured = {
        "input_mtok": known.input,
        "output_mtok": known.output,
        "cache_read_mtok": known.cached,
        "cache_write_mtok": known.written,
    }
    for key, dollars in configured.items():
        if dollars is not None:
            setattr(prices, key, Decimal(str(dollars)))
    return any(dollars is not None for dollars in configured.values())


def _has_prices(prices: "ModelPrice") -> bool:
    return getattr(prices, "input_mtok", None) is not None or getattr(prices, "output_mtok", None) is not None


def _rounded(dollars: Decimal) -> float:
    if not (dollars.is_finite() and dollars >= 0):
        raise ValueError(f"{dollars} dollars")
    return float(round(dollars, PRICE_DECIMALS))
