"""List the models to choose from, for a picker: favorites, recently used ones, then all known ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.core.commands.arguments import parse_model
from ikigai.core.text import tokens
from ikigai.terminal.browser.picker_source import PickerRow

if TYPE_CHECKING:
    from ikigai.app.run.services import Services

MAX_RECENT_MODELS = 8


class ModelSource:
    """The models of these services; `current` is the one in use, `used` the tokens of the next request."""

    title, verb, more_key = "Models (dollars for a million tokens in / out, context)", "chooses", ""

    def __init__(self, services: Services, current: str, used: int = 0) -> None:
        self._services, self._current, self._used = services, current, used
        self._rows: list[PickerRow] | None = None

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return all models that have every typed word in their names."""
        if self._rows is None:
            recent = await self._services.database.usage.recent_models(MAX_RECENT_MODELS)
            self._rows = await asyncio.to_thread(self._read, recent)
        words = typed.lower().split()
        return [row for row in self._rows if all(word in row.value.lower() for word in words)], True

    def _read(self, recent: Sequence[str]) -> list[PickerRow]:
        from ikigai.app.models.model_list import describe_model

        services = self._services
        favorites = services.config.favorite_models
        marks = dict.fromkeys(recent, "used recently") | dict.fromkeys(favorites, "favorite")
        marks[self._current] = "in use"
        rows: list[PickerRow] = []
        for model in dict.fromkeys((*favorites, *recent, *services.known_models(), self._current)):
            if not model:
                continue
            known = describe_model(services.config, services.pool, str(parse_model(model)["model"]))
            context = f"{tokens.format_tokens(known.context)} context"
            price = _price(known.input_price, known.output_price)
            facts = (price, context, marks.get(model, ""), self._next_price(str(parse_model(model)["model"])))
            rows.append(PickerRow(model, model, facts))
        return rows

    def _next_price(self, model: str) -> str:
        """Return what the input of the next request costs with this model, first and once it is cached."""
        from ikigai.app.usage.next_request_price import price_of
        from ikigai.core.views.usage_totals import format_dollars

        price = price_of(self._services.config, model, self._used)
        if not (price.cold and price.warm):
            return ""
        return f"next {format_dollars(price.cold)}, cached {format_dollars(price.warm)}"

    def typed_value(self, typed: str) -> str:
        """Return a typed model that is in no list. Raise Rejected for a text that cannot be one, or none to be had."""
        chosen = parse_model(typed)
        self._services.pool.check(str(chosen["model"]), str(chosen.get("level") or ""))
        return typed


def _price(input: float | None, output: float | None) -> str:
    if input is None or output is None:
        return "price unknown"
    return f"${input:g} / ${output:g}" if input or output else "free"
