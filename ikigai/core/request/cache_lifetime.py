"""Choose the lifetime of a conversation in the provider's cache, by the pauses between requests.

Prices are Anthropic's, in input tokens. A cache that lives for five minutes costs 1.25 to write, one for an hour 2; to
read either costs 0.1 and renews it. So an hour pays where pauses of more than five minutes and less than an hour would
have the whole window written anew.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

CacheTtl: TypeAlias = Literal["5m", "1h"]

READ_PRICE = 0.1
WRITE_PRICES: dict[CacheTtl, float] = {"5m": 1.25, "1h": 2.0}
TTL_SECONDS: dict[CacheTtl, float] = {"5m": 300.0, "1h": 3600.0}
MAX_PAUSES = 200
"""The newest pauses that are looked at."""


def choose_ttl(pauses: Sequence[float], requests: int) -> CacheTtl:
    """Return the lifetime that would have cost less over these pauses, in seconds, oldest first.

    The window holds so many `requests`: each adds that share of it. Without a pause it is five minutes, which costs
    less as long as somebody keeps writing.
    """
    new = 1 / max(1, requests)
    costs = {ttl: sum(_cost(ttl, pause, new) for pause in pauses[-MAX_PAUSES:]) for ttl in TTL_SECONDS}
    return "1h" if costs["1h"] < costs["5m"] else "5m"


def _cost(ttl: CacheTtl, pause: float, new: float) -> float:
    """Return the price of a request after this pause, in windows of input tokens; `new` is the share it adds."""
    if pause < TTL_SECONDS[ttl]:
        return READ_PRICE + WRITE_PRICES[ttl] * new
    return WRITE_PRICES[ttl] * (1 + new)
