"""This module lists the providers that take a key, for the picker of /login."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.config.key_sources import LOGIN
from ikigai.core.errors import Rejected
from ikigai.core.vendors import ServerPreset, sellers
from ikigai.terminal.browser.picker_source import PickerRow

if TYPE_CHECKING:
    from ikigai.config import Config


class ProviderSource:
    """The providers `names`, with the source of the key that each has under `config`."""

    title, verb, more_key = "Providers: which one is the key for?", "asks for the key", ""

    def __init__(self, config: Config, names: Sequence[str]) -> None:
        self._rows = [_row(config, name) for name in names]

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return the providers that have the typed text in their names."""
        return [row for row in self._rows if typed.strip().lower() in row.name.lower()], True

    def typed_value(self, typed: str) -> str:
        """Refuse a text that is in no name: it may be a key, so it is not repeated."""
        raise Rejected("No provider has this name.", "Ctrl+U clears the filter.")


def _row(config: Config, name: str) -> PickerRow:
    seller, source = sellers().get(name), config.keys.get(name, "")
    has = "has a stored key" if source == LOGIN else f"key in {source.partition(' ')[2]}" if source else ""
    needs_none = ""
    if seller and not seller.key_variables:
        needs_none = "on this machine, needs no key" if isinstance(seller, ServerPreset) else "has a sign-in of its own"
    return PickerRow(name, name, tuple(filter(None, (has, needs_none))))
