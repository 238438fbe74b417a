"""Condensing as the loop knows it: nothing of it is imported before there is something to condense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ikigai.core.condense.threshold import Options
from ikigai.core.events import Event
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.agent.condenser import Condenser
    from ikigai.agent.forget import World


class Background:
    """What goes on beside the turns of one agent; `condensing.Condenser` says what each of these means."""

    def __init__(
        self, world: Callable[[], World], notice: Callable[[str], None], options: Callable[[Memory], Options]
    ) -> None:
        self._world, self._notice, self._options = world, notice, options
        self._condenser: Condenser | None = None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        return self._condenser.tasks if self._condenser else ()

    @property
    def asked_for(self) -> asyncio.Task[None] | None:
        return self._condenser.asked_for if self._condenser else None

    @property
    def idle(self) -> bool:
        """Whether nothing is being made, and nothing that was made waits for its turn to end."""
        return self._condenser is None or not (self._condenser.tasks or self._condenser.made)

    def asked(self, memory: Memory, focus: str) -> None:
        self._needed().asked(memory, focus)

    def stop(self) -> None:
        if self._condenser:
            self._condenser.stop()

    def refused(self, memory: Memory) -> None:
        if self._condenser:
            self._condenser.refused(memory)

    def recorded(self, facts: tuple[Event, ...], before: Memory, now: Memory) -> None:
        if self._condenser or self._options(before).concerns(facts):
            self._needed().recorded(facts, before, now)

    def _needed(self) -> Condenser:
        if self._condenser is None:
            from ikigai.agent.condenser import Condenser

            self._condenser = Condenser(self._world(), self._notice, self._options)
        return self._condenser
