"""Actions of the history browser's keys: moves, searches, and changes of a turn."""

from functools import partial

from ikigai.core.views.exclusion_reason import ExclusionReason
from ikigai.terminal.browsable_history import HistoryPages, HitSeeker
from ikigai.terminal.browser.browser import Browser
from ikigai.terminal.browser.items import BrowserItem
from ikigai.terminal.browser.reader import HistoryReader
from ikigai.terminal.browser.view import BrowserView


class HistoryActions:
    """The actions of a `browser` that shows the history of `source`, and `seek`. Those of the keys are named by
    `browser.keys.KEY_BINDINGS`.
    """

    def __init__(self, browser: Browser, source: HistoryPages, rewinding: bool) -> None:
        self._browser, self._source, self.rewinding = browser, source, rewinding
        self.reader, self.view = HistoryReader(source), BrowserView(browser.theme, 1, 1)
        self.query: str | None = None  # being typed
        self.help_row: int | None = None  # the first row of the help on the screen, while it is there
        self._hit = self._landed = 0  # the events of the last hit, and under the cursor after it

    # ── moves ──

    def turn_back(self) -> None:
        self.view.turn(-1)

    def turn_on(self) -> None:
        self.view.turn(1)

    def home(self) -> None:
        if self.reader.pages.first:
            self.view.start()
        else:
            self._browser.load(self._from_the_start)

    def end(self) -> None:
        if self.reader.pages.last:
            self.view.end()
        else:
            self._browser.load(self._from_the_end)

    async def _from_the_start(self) -> None:
        await self.reader.home()
        self.view.show(self.reader.items)
        self.view.start()

    async def _from_the_end(self) -> None:
        await self.reader.end()
        self.view.show(self.reader.items)
        self.view.end()

    # ── searching ──

    def search(self) -> None:
        self.query = ""

    def older(self) -> None:
        self._again(older=True)

    def newer(self) -> None:
        self._again(older=False)

    def seek(self, query: str) -> None:
        """Search from the cursor back; end the search if `query` is empty."""
        if query:
            self._browser.load(lambda: self._search(query))
        else:
            self.reader.seeker = None
            self.view.search(())

    def _again(self, older: bool) -> None:
        if self.reader.seeker is None:
            self._browser.say("There is no search yet: / starts one.")
        else:
            self._browser.load(lambda: self._next(older))

    async def _search(self, query: str) -> None:
        seeker = await self.reader.search(query)
        self.view.search(seeker.terms)
        hit, limits = await seeker.older(self._here + 1), _limits(seeker)
        if hit is not None:
            self._browser.say(limits.strip())
        elif (hit := await seeker.newer(self._here)) is not None:
            self._browser.say(f"The nearest match is later in the history.{limits}")
        else:
            self._browser.say(f"Nothing was found for {query}.{limits}")
            return
        await self._go(hit)

    async def _next(self, older: bool) -> None:
        seeker = self.reader.seeker
        assert seeker
        here = self._here
        if here == self._landed:  # beside a hit that is not shown itself
            here = self._hit
        hit = await (seeker.older(here) if older else seeker.newer(here))
        if hit is None:
            self._browser.say(f"There is no earlier match.{_limits(seeker)}" if older else "There is no later match.")
        else:
            await self._go(hit)

    async def _go(self, id: int) -> None:
        self._hit = id
        await self.reader.go_to(id)
        self.view.show(self.reader.items)
        self.view.select(id, searched=True)
        self._landed = self._here

    @property
    def _here(self) -> int:
        """The id of the event under the cursor; 0 for none."""
        return current.id if (current := self.view.current) else 0

    # ── what can be done to what is under the cursor ──

    def open(self) -> None:
        if self.view.unfold():
            return
        if self.rewinding:
            self.edit()
        else:
            self._browser.say("Everything is shown.")

    def pager(self) -> None:
        if item := self._item():
            self._browser.page(item.text + "\n")

    def copy(self) -> None:
        if item := self._item():
            self._browser.copy(item.words)

    def fork(self) -> None:
        if item := self._item():  # an agent that is read-only here can also be forked
            self._browser.leave(f"/fork at {item.id}")

    def edit(self) -> None:
        self._do("/edit {id}")

    def rewind(self) -> None:
        self._do("/rewind {id}")

    def forget(self) -> None:
        item = self._item()
        if item and item.exclusion and item.exclusion.reason is ExclusionReason.FORGOTTEN:
            self._browser.say(f"This was forgotten already by #{item.exclusion.by}: u undoes that.")
        else:
            self._do("/forget {id}")

    def undo(self) -> None:
        if (item := self._item()) is None:
            return
        undone = item.exclusion is not None and item.exclusion.reason is ExclusionReason.UNDONE
        by = item.id if item.undoable and not undone else item.exclusion.by if item.exclusion else 0
        if by:
            self._do(f"/undo {by}")
        else:
            message = "There is nothing to undo here: this neither changed the context nor was removed from it."
            self._browser.say(message)

    def _do(self, line: str) -> None:
        """Close the browser and run `line` for the item under the cursor, if the agent can be changed."""
        if self._source.refusal:
            self._browser.say(self._source.refusal)
        elif self._browser.is_loading and not self.reader.opened:  # the key came before the history
            self._browser.load(partial(self._do_when_open, line))
        elif item := self._item():
            self._browser.leave(line.format(id=item.id))

    async def _do_when_open(self, line: str) -> None:
        if item := self._item():
            self._browser.leave(line.format(id=item.id))

    def _item(self) -> BrowserItem | None:
        """Return the item under the cursor; tell the user where that is the context rule, or nothing."""
        item = self.view.current
        if item is None or not item.text:
            self._browser.say("There is nothing under the cursor.")
            return None
        return item

    def help(self) -> None:
        self.help_row = 0


def _limits(seeker: HitSeeker) -> str:
    """Return a sentence about the events that a search may have missed; "" if it missed none."""
    if seeker.reached is not None:
        return f" The search stopped at #{seeker.reached}, when its time was over."
    if not (count := seeker.behind):
        return ""
    return f" {count:,} event{'s are' if count != 1 else ' is'} not in the index yet and may contain more."
