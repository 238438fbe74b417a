"""Stand in for the condenser in the loop: the code that condenses is imported only when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ikigai.core.context.condense_threshold import TRIGGERS, CondenseOptions
from ikigai.core.events.events import Event
from ikigai.core.ports import View
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.agent.context.condenser import Condenser
    from ikigai.agent.context.forget import ForgetContext


class LazyCondenser:
    """The condenser of one agent, loaded on first use; `condenser.Condenser` documents each method."""

    def __init__(
        self,
        context: Callable[[], ForgetContext],
        view: View,
        options: Callable[[Memory], CondenseOptions],
    ) -> None:
        self._context, self._view, self._options = context, view, options
        self._condenser: Condenser | None = None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        return self._condenser.tasks if self._condenser else ()

    @property
    def manual_task(self) -> asyncio.Task[None] | None:
        return self._condenser.manual_task if self._condenser else None

    @property
    def idle(self) -> bool:
        """True if no summary is being written and none waits for the open turn to end."""
        return self._condenser is None or not (self._condenser.tasks or self._condenser.is_pending)

    def toggle(self, memory: Memory, focus: str) -> None:
        self._load().toggle(memory, focus)

    def stop(self) -> None:
        if self._condenser:
            self._condenser.stop()

    def on_rejected(self, memory: Memory) -> None:
        if self._condenser:
            self._condenser.on_rejected(memory)

    def on_events(self, events: tuple[Event, ...], before: Memory, now: Memory) -> None:
        triggers = any(isinstance(event, TRIGGERS) for event in events)
        if self._condenser or (triggers and self._options(before).may_follow(events)):
            self._load().on_events(events, before, now)

    def _load(self) -> Condenser:
        if self._condenser is None:
            from ikigai.agent.context.condenser import Condenser

            self._condenser = Condenser(self._context(), self._view, self._options)
        return self._condenser
