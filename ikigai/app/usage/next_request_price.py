"""Compute the price of an agent's next request for /context, the picker of models and the notice of a cold cache."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ikigai.app.run.factories import make_price
from ikigai.core.views import next_price

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.core.events.messages import Usage
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.core.state.memory import Memory
    from ikigai.core.views.next_price import NextPrice


def price_of(config: Config, model: str, tokens: int, last: CacheUse | None = None) -> NextPrice:
    """Return the price of a request of so many tokens to a model, sent now. Call it in a thread: it may import."""
    at, price = time.time(), make_price(config)

    def dollars(usage: Usage) -> float | None:
        return price(model, usage, at)[0]

    return next_price.next_price(model, tokens, last, at, dollars)


async def price_of_next(config: Config, memory: Memory, last: CacheUse | None) -> NextPrice:
    """Return the price of the next request of this memory, without the words that are still to be written."""
    return await asyncio.to_thread(price_of, config, memory.model, memory.used, last)
