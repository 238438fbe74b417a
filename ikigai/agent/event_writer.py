"""Events of one agent on their way into its log."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ikigai.core.events.events import CHANGES_THE_PAST, Event, Filtered
from ikigai.core.state.inputs import Quote
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.agent.db_retry import RetryUntilAvailable
    from ikigai.agent.input_queue import InputQueue
    from ikigai.core.ports import Appended, CommandOutputStore, Log


class EventWriter:
    """Stores the events of one agent, and waits while the database is away. `unsaved` are those that it stores now.

    `outputs` keeps the output of a command of the user in a file until it is stored.
    """

    def __init__(
        self, store: Log, retry: RetryUntilAvailable, queue: InputQueue, outputs: CommandOutputStore | None
    ) -> None:
        self._store, self._retry, self._queue, self._outputs = store, retry, queue, outputs
        self.unsaved: tuple[Event, ...] = ()

    async def store(self, memory: Memory, events: tuple[Event, ...]) -> Appended:
        """Store the events in one transaction; with those that change the past, load memory anew."""
        return await self._append(memory, events, ())

    async def store_output(self, memory: Memory, events: tuple[Event, ...], output: Quote) -> Appended:
        """Store the output of a command and delete its file; if storing fails the output goes on waiting."""
        assert self._outputs
        try:
            appended = await self._append(memory, events, (output.id,))
        except BaseException:
            self.unsaved = ()
            self._queue.follow_up.appendleft(output)
            raise
        self._outputs.delete(output)
        return appended

    async def _append(self, memory: Memory, events: tuple[Event, ...], ids: tuple[str, ...]) -> Appended:
        kinds = frozenset(map(type, events))
        self.unsaved = events
        if Filtered in kinds:
            self.unsaved = events = await self._with_sizes(memory, events)

        def append() -> Awaitable[Appended]:
            loading = None if kinds.isdisjoint(CHANGES_THE_PAST) else load_memory(memory.run, memory.agent)
            return self._store.append(events, loading, ids)

        appended = await self._retry(append)
        self.unsaved = ()
        return appended

    async def _with_sizes(self, memory: Memory, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events with the size of the next request in each filter among them."""
        from ikigai.core.context.request_size import add_sizes

        return await self._retry(lambda: self._store.load(add_sizes(memory, events)))
