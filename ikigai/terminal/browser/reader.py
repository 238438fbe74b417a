"""Read a history for the browser: move and extend the held stretch, and find search hits."""

from collections.abc import Callable, Sequence

from ikigai.core.events.events import StoredEvent
from ikigai.core.state.memory import Memory
from ikigai.core.views.exclusion_reason import CONTROL_EVENTS, Exclusions
from ikigai.terminal.browsable_history import BrowserLineage, HistoryPages, HitSeeker
from ikigai.terminal.browser.items import BrowserItem, build_items
from ikigai.terminal.browser.pages import PAGE_EVENTS, EventPages


class HistoryReader:
    """A reader that begins with `open`. Methods that read raise StoreError and then leave everything as it was."""

    def __init__(self, source: HistoryPages) -> None:
        self.pages = EventPages()
        self.seeker: HitSeeker | None = None
        self._source = source
        self._lineage: BrowserLineage | None = None
        self._reasons = Exclusions(())
        self._items: list[BrowserItem] = []
        self._built_of: tuple[object, ...] = ()  # what `_items` were built of: memory, and the version of the pages
        self._version = 0

    @property
    def opened(self) -> bool:
        return self._lineage is not None

    @property
    def items(self) -> list[BrowserItem]:
        """The items of the held events, by the current memory; the list object stays while nothing has changed."""
        memory: Memory = self._source.memory
        if self._built_of != (id(memory), self._version) or not self._built_of:
            branches = self._lineage.branches if self._lineage else {}
            self._items = build_items(self.pages.events, memory, self._reasons, branches)
            self._built_of, self._memory = (id(memory), self._version), memory  # kept, so that its id stays its own
        return self._items

    def agent(self, id: str) -> str:
        """Return the name of the agent or ancestor with this id."""
        return self._lineage.names.get(id, "") if self._lineage else ""

    async def open(self) -> None:
        """Learn whose history it is, and hold its end."""
        lineage = await self._source.lineage()
        reasons = Exclusions(lineage.controls)
        events = await self._source.before(None, PAGE_EVENTS)
        self._lineage, self._reasons = lineage, reasons
        self._hold(events, first=not events, last=True)

    async def end(self) -> None:
        events = await self._source.before(None, PAGE_EVENTS)
        self._hold(events, first=not events, last=True)

    async def home(self) -> None:
        events = await self._source.after(0, PAGE_EVENTS)
        self._hold(events, first=True, last=not events)

    async def go_to(self, id: int) -> None:
        """Load this event with the pages around it, unless it is held."""
        if not any(event.id == id for event in self.pages.events):
            older, newer = await self._source.before(id + 1, PAGE_EVENTS), await self._source.after(id, PAGE_EVENTS)
            self._hold((*older, *newer), first=not older, last=not newer)

    async def more_before(self, seen: Callable[[], tuple[int, int]]) -> None:
        """Load the page before; `seen` gives the first and the last event on the screen, which stay held."""
        known = self.pages.events[0].id if self.pages.events else None
        events = await self._source.before(known, PAGE_EVENTS)
        self.pages.add_before(events, seen()[1])
        self._version += 1

    async def more_after(self, seen: Callable[[], tuple[int, int]]) -> None:
        known = self.pages.events[-1].id if self.pages.events else 0
        events = await self._source.after(known, PAGE_EVENTS)
        self.pages.add_after(events, seen()[0])
        self._add_controls(events)

    async def search(self, query: str) -> HitSeeker:
        self.seeker = await self._source.seek(query)
        return self.seeker

    def _hold(self, events: Sequence[StoredEvent], first: bool, last: bool) -> None:
        self.pages.set(events, first, last)
        self._add_controls(events)

    def _add_controls(self, events: Sequence[StoredEvent]) -> None:
        """Take note of control events among those read: they also decide about the context."""
        self._version += 1
        if controls := [event for event in events if isinstance(event.event, CONTROL_EVENTS)]:
            self._reasons = Exclusions((*self._reasons.controls, *controls))
