"""List models with their limits and prices, for `ikigai models` and the picker of /model."""

from __future__ import annotations

import time

from ikigai.app.json_records.installation_records import ModelRecord
from ikigai.app.run.factories import make_price
from ikigai.config import Config
from ikigai.core.commands.arguments import parse_model
from ikigai.core.events.messages import Usage
from ikigai.providers.pool import ProviderPool

PRICE_SAMPLE_TOKENS = 1_000
"""Tokens to ask a price for; a million would be a long request, which costs more with some."""


def list_models(config: Config, pool: ProviderPool, provider: str) -> list[ModelRecord]:
    """Return a row for each model of a provider; prices are in dollars per million tokens, None if unknown."""
    configured = [model for model in config.models if model.startswith(f"{provider}/")]
    chosen = str(parse_model(config.model)["model"]) if config.model else ""
    own = [pool.local_model()] if provider == "local" else [f"{provider}/{name}" for name in pool.known.names(provider)]
    own += [chosen] if chosen.startswith(f"{provider}/") else []
    return [describe_model(config, pool, model) for model in dict.fromkeys((*own, *configured))]


def describe_model(config: Config, pool: ProviderPool, model: str) -> ModelRecord:
    """Return the row of one model, as in `list_models`. Call it in a thread, because prices import."""
    price = make_price(config)

    def dollars(usage: Usage) -> float | None:
        cost, _ = price(model, usage, time.time())
        return None if cost is None else round(cost / PRICE_SAMPLE_TOKENS * 1_000_000, 6)

    traits = pool.known.traits(model)
    return ModelRecord(
        model=model,
        provider=model.partition("/")[0],
        context=pool.known.limits(model).context,
        max_output=traits.max_output or None,
        levels=traits.levels,
        images=traits.images,
        input_price=dollars(Usage(input=PRICE_SAMPLE_TOKENS)),
        output_price=dollars(Usage(output=PRICE_SAMPLE_TOKENS)),
    )
