"""Price the input of the next request, with the content of the provider's cache and without."""

from collections.abc import Callable
from decimal import Decimal

from ikigai.core.events.messages import Usage
from ikigai.core.events.record import Record
from ikigai.core.request.cache_diagnosis import CacheUse, has_paid_cache, readable, seconds_left
from ikigai.core.views.usage_totals import format_dollars

MIN_TOLD_DIFFERENCE = Decimal("0.10")
"""US dollars that a cold cache has to cost more for the user to be told unasked. Less is what a few answers cost
anyway, and a line about it would only interrupt.
"""
HOUR_TTL = 3_600


class NextPrice(Record, frozen=True):
    """The price of the next request's input of about `tokens`: `warm` with the cache, `cold` without; None is unknown.

    `seconds` is how long the cache is kept from now on at least: 0 if it has expired, None without a cache.
    """

    tokens: int
    warm: Decimal | None
    cold: Decimal | None
    seconds: int | None = None

    @property
    def expected(self) -> Decimal | None:
        """The price as far as one can tell now."""
        return self.warm if self.seconds else self.cold


UNKNOWN_PRICE = NextPrice(0, None, None)


def next_price(
    model: str,
    tokens: int,
    last: CacheUse | None,
    at: float,
    price: Callable[[Usage], float | None],
) -> NextPrice:
    """Return the price of a request of `tokens` to "provider/name", sent `at` seconds since 1970.

    `last` is the newest request of the conversation, `price` returns the dollars of a usage.
    """
    if last and last.report.model != model:
        last = None
    pays_writing = model.startswith("anthropic/") or (
        has_paid_cache(model.partition("/")[2])
        if model.startswith("openai/")
        else bool(last and last.report.usage.written)
    )
    hour = bool(last and last.report.prefix and last.report.prefix.ttl == HOUR_TTL)
    cached = min(tokens, readable(last.report.usage)) if last else tokens

    def dollars(cached: int) -> Decimal | None:
        written = tokens - cached if pays_writing else 0
        cost = price(Usage(tokens, 0, cached, written=written, written_1h=written if hour else 0))
        return None if cost is None else Decimal(repr(cost))

    seconds: int | None = None
    is_cached = last and (last.report.usage.cached or last.report.usage.written)
    if last and is_cached and (left := seconds_left(last, at)) is not None:
        seconds = max(1, round(left)) if left else 0
    return NextPrice(tokens, dollars(cached), dollars(0), seconds)


def price_words(price: NextPrice) -> str:
    """Return the line of /context about the next request's price."""
    if price.cold is None or price.warm is None:
        return "unknown"
    if not price.cold:
        return "free"
    both = f"{format_dollars(price.warm)} with a cache, {format_dollars(price.cold)} without"
    if price.seconds is None:
        return f"{both} (input; nothing is known to be cached)"
    if not price.seconds:
        return f"{both} (input; the cache has expired)"
    minutes = -(-price.seconds // 60)
    return f"{both} (input; cached for {minutes:,} more minute{'s' * (minutes != 1)})"


def cold_notice(price: NextPrice) -> str:
    """Return the line that announces an expired cache; "" where it costs too little to be worth one."""
    if price.seconds != 0 or price.warm is None or price.cold is None:
        return ""
    if price.cold - price.warm < MIN_TOLD_DIFFERENCE:
        return ""
    return (
        f"The provider's cache has expired: the input of the next message costs about {format_dollars(price.cold)} "
        f"instead of {format_dollars(price.warm)}. /context shows it; /clear and /condense make it smaller."
    )
