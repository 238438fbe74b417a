"""Settings of an agent that are in force now, with a signal for those who wait for a change of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ikigai.core.events import Choices


class SettingsInForce:
    """The settings as `core.ports.LiveSettings`; `update` replaces them."""

    def __init__(self, values: Choices) -> None:
        self.values = values
        self._changed = asyncio.Event()

    def update(self, values: Choices) -> None:
        """Put these settings in force."""
        if values != self.values:
            self.values = values
            self._changed.set()
            self._changed = asyncio.Event()

    def changed(self) -> Awaitable[object]:
        return self._changed.wait()
