"""Reads a history for the browser: the stretch that is held, moved and extended, and where words stand in it."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ikigai.core.events import StoredEvent
from ikigai.core.state.memory import Memory
from ikigai.core.views.exclusion import CONTROLS, Reasons
from ikigai.terminal.browser.items import Item, items
from ikigai.terminal.browser.pages import PAGE, Pages
from ikigai.terminal.browser.source import Lineage, Seeker, Source

Work = Callable[[], Coroutine[Any, Any, None]]


class Reader:
    """Nothing is read before `open`. What reads raises StoreError, and leaves everything as it was."""

    def __init__(self, source: Source) -> None:
        self.pages = Pages()
        self.seeker: Seeker | None = None
        self._source = source
        self._lineage: Lineage | None = None
        self._reasons = Reasons(())
        self._items: list[Item] = []
        self._made_of: tuple[object, ...] = ()  # the items: memory, and the versions of what was read
        self._version = 0

    @property
    def opened(self) -> bool:
        return self._lineage is not None

    @property
    def items(self) -> list[Item]:
        """What is shown of what is held, by what memory is now; the same list as long as nothing has changed."""
        memory: Memory = self._source.memory
        if self._made_of != (id(memory), self._version) or not self._made_of:
            branches = self._lineage.branches if self._lineage else {}
            self._items = items(self.pages.events, memory, self._reasons, branches)
            self._made_of, self._memory = (id(memory), self._version), memory  # kept, so that its id stays its own
        return self._items

    def agent(self, id: str) -> str:
        """The name of the agent or ancestor of this id."""
        return self._lineage.names.get(id, "") if self._lineage else ""

    async def open(self) -> None:
        """Learn whose history it is, and hold its end."""
        lineage = await self._source.lineage()
        reasons = Reasons(lineage.controls)
        events = await self._source.before(None, PAGE)
        self._lineage, self._reasons = lineage, reasons
        self._hold(events, first=not events, last=True)

    async def end(self) -> None:
        events = await self._source.before(None, PAGE)
        self._hold(events, first=not events, last=True)

    async def home(self) -> None:
        events = await self._source.after(0, PAGE)
        self._hold(events, first=True, last=not events)

    async def to(self, id: int) -> None:
        """Hold this event with what is around it."""
        if not any(event.id == id for event in self.pages.events):
            older, newer = await self._source.before(id + 1, PAGE), await self._source.after(id, PAGE)
            self._hold((*older, *newer), first=not older, last=not newer)

    async def more_before(self, seen: Callable[[], tuple[int, int]]) -> None:
        """`seen` gives the first and the last event on the screen: they are held."""
        known = self.pages.events[0].id if self.pages.events else None
        events = await self._source.before(known, PAGE)
        self.pages.add_before(events, seen()[1])
        self._version += 1

    async def more_after(self, seen: Callable[[], tuple[int, int]]) -> None:
        known = self.pages.events[-1].id if self.pages.events else 0
        events = await self._source.after(known, PAGE)
        self.pages.add_after(events, seen()[0])
        self._learn(events)

    async def search(self, query: str) -> Seeker:
        self.seeker = await self._source.seek(query)
        return self.seeker

    def _hold(self, events: Sequence[StoredEvent], first: bool, last: bool) -> None:
        self.pages.set(events, first, last)
        self._learn(events)

    def _learn(self, events: Sequence[StoredEvent]) -> None:
        """What has been read may say what is in the context, too."""
        self._version += 1
        if controls := [event for event in events if isinstance(event.event, CONTROLS)]:
            self._reasons = Reasons((*self._reasons.controls, *controls))
