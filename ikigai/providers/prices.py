"""What a request cost, in US dollars: by the configuration's own prices, else by genai-prices.

genai-prices and the pydantic it needs take half a second to import, so nothing here is imported before a price is
asked for, or `warm` is called: both belong in a thread. Nothing here raises: what nobody can price has no price.
"""

from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ikigai.core.messages import Usage
from ikigai.core.record import Record
from ikigai.providers.network import loopback

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

VENDORS = ("anthropic", "openai", "google")
"""Providers whose own address is meant when none is given."""

INSIDE = ("local", "scripted")
"""Providers that are parts of ikigai."""

MILLION = 1_000_000
PLACES = 10
"""Decimal places of a dollar that are kept: a single token of the cheapest cache costs more than the last of them."""


class Prices(Record, frozen=True):
    """Dollars for a million tokens, as somebody set them; None is not set. Tokens read from the cache or written to it
    cost what `input` does unless they have a price of their own."""

    input: float | None = None
    output: float | None = None
    cached: float | None = None
    written: float | None = None


class Priced(Record, frozen=True):
    """Dollars, None if nobody knows, and whose prices they are by: "genai-prices 0.2.3", "configuration", both, or
    "local"; "" without a cost."""

    cost: float | None = None
    priced_by: str = ""


NOBODY = Priced()


def price(model: str, usage: Usage, at: float, known: Prices | None = None, base_url: str = "") -> Priced:
    """What a request to "provider/name" cost that was sent `at` seconds since 1970.

    `known` are the configuration's prices; those it leaves open come from genai-prices, as of `at`, with its tiers for
    long requests. `base_url` says whose prices those are; "" is the vendor's own address. A model that runs inside
    ikigai costs nothing; a server on this machine may be anything, also a proxy of a vendor, and has no price but a
    configured one.
    """
    provider, _, name = model.partition("/")
    known = known or Prices()
    if min(usage.input, usage.output, usage.cached, usage.written) < 0:
        return NOBODY
    try:
        if known.input is not None and known.output is not None:
            return Priced(_configured(known, known.input, known.output, usage), "configuration")
        if provider in INSIDE:
            return Priced(0.0, provider)
        if base_url and loopback(urlsplit(base_url).hostname or ""):
            return NOBODY
        return _by_genai_prices(provider, name, usage, at, known, base_url)
    except Exception:  # a model or server it does not know, a time out of range, and whatever else it may raise
        return NOBODY


def warm() -> None:
    """Import what prices need, ahead of the first."""
    try:
        import genai_prices.data  # noqa: F401
    except Exception:  # then there are no prices, and `price` says so
        return


def _configured(known: Prices, input: float, output: float, usage: Usage) -> float:
    cached = input if known.cached is None else known.cached
    written = input if known.written is None else known.written
    parts = (
        (max(usage.input - usage.cached - usage.written, 0), input),
        (usage.cached, cached),
        (usage.written, written),
        (usage.output, output),
    )
    return _rounded(sum((count * Decimal(str(dollars)) for count, dollars in parts), Decimal(0)) / MILLION)


def _by_genai_prices(provider: str, name: str, usage: Usage, at: float, known: Prices, base_url: str) -> Priced:
    from copy import copy
    from datetime import UTC, datetime

    import genai_prices
    from genai_prices.data_snapshot import get_snapshot

    book = get_snapshot()
    if base_url or provider not in VENDORS:
        seller = book.find_provider(None, None, base_url.lower() or None)
    else:
        seller = next(one for one in book.providers if one.id == provider)
    name = name.removeprefix("models/")
    found = seller.find_model(name, all_providers=book.providers)
    if found is None:
        return NOBODY
    prices = copy(found.get_prices(datetime.fromtimestamp(at, UTC)))
    own = _overrule(prices, known)
    if not own and not _has_prices(prices) and not name.endswith(":free"):
        return NOBODY
    # `input_tokens` are all that went in: what was cached and written is taken out of them there.
    counted = genai_prices.Usage(
        input_tokens=max(usage.input, usage.cached + usage.written),
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.written,
        output_tokens=usage.output,
    )
    source = f"genai-prices {genai_prices.__version__}"
    return Priced(_rounded(prices.calc_price(counted)["total_price"]), f"configuration, {source}" if own else source)


def _overrule(prices: "ModelPrice", known: Prices) -> bool:
    """Put the configured prices in; whether there is any."""
    set_ = {
        "input_mtok": known.input,
        "output_mtok": known.output,
        "cache_read_mtok": known.cached,
        "cache_write_mtok": known.written,
    }
    for key, dollars in set_.items():
        if dollars is not None:
            setattr(prices, key, Decimal(str(dollars)))
    return any(dollars is not None for dollars in set_.values())


def _has_prices(prices: "ModelPrice") -> bool:
    return getattr(prices, "input_mtok", None) is not None or getattr(prices, "output_mtok", None) is not None


def _rounded(dollars: Decimal) -> float:
    if not (dollars.is_finite() and dollars >= 0):
        raise ValueError(f"{dollars} dollars")
    return float(round(dollars, PLACES))
