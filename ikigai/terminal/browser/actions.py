"""What the keys of the history browser do: moves, searches, and what can be done to the turn under the cursor."""

from typing import Protocol

from ikigai.core.views.exclusion import Why
from ikigai.terminal.browser.items import Item
from ikigai.terminal.browser.reader import Reader, Work
from ikigai.terminal.browser.source import Seeker, Source
from ikigai.terminal.browser.view import View


class Hands(Protocol):
    """What actions need of the browser."""

    view: View
    reader: Reader
    source: Source

    def load(self, work: Work) -> None:
        """Read, beside the keys."""
        ...

    def say(self, text: str) -> None:
        """Tell the user, until the next key."""
        ...

    def leave(self, line: str = "") -> None:
        """Close, and have this command done."""
        ...

    def ask(self) -> None:
        """Let a search be typed."""
        ...

    def help(self) -> None: ...
    def repaint(self) -> None: ...
    def suspend(self) -> None: ...
    def copy(self, text: str) -> None:
        """Give it to the terminal's clipboard."""
        ...

    def page(self, text: str) -> None:
        """Show it in the user's pager."""
        ...


class Actions:
    """The methods that `browser_keys.BOUND` names, and `seek`."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._hit = self._landed = 0  # the event of the last hit, and where the cursor came to stand for it

    # ── moves ──

    def down(self) -> None:
        self._hands.view.move(1)

    def up(self) -> None:
        self._hands.view.move(-1)

    def page_down(self) -> None:
        self._hands.view.page(1)

    def page_up(self) -> None:
        self._hands.view.page(-1)

    def half_down(self) -> None:
        self._hands.view.page(0.5)

    def half_up(self) -> None:
        self._hands.view.page(-0.5)

    def turn_back(self) -> None:
        self._hands.view.turn(-1)

    def turn_on(self) -> None:
        self._hands.view.turn(1)

    def home(self) -> None:
        if self._hands.reader.pages.first:
            self._hands.view.start()
        else:
            self._hands.load(self._from_the_start)

    def end(self) -> None:
        if self._hands.reader.pages.last:
            self._hands.view.end()
        else:
            self._hands.load(self._from_the_end)

    async def _from_the_start(self) -> None:
        await self._hands.reader.home()
        self._hands.view.show(self._hands.reader.items)
        self._hands.view.start()

    async def _from_the_end(self) -> None:
        await self._hands.reader.end()
        self._hands.view.show(self._hands.reader.items)
        self._hands.view.end()

    # ── searching ──

    def search(self) -> None:
        self._hands.ask()

    def older(self) -> None:
        self._again(older=True)

    def newer(self) -> None:
        self._again(older=False)

    def seek(self, query: str) -> None:
        """Look for it from the cursor back; for nothing, no more."""
        if query:
            self._hands.load(lambda: self._sought(query))
        else:
            self._hands.reader.seeker = None
            self._hands.view.search(())

    def _again(self, older: bool) -> None:
        if self._hands.reader.seeker is None:
            self._hands.say("Nothing is being searched for: / begins.")
        else:
            self._hands.load(lambda: self._next(older))

    async def _sought(self, query: str) -> None:
        seeker = await self._hands.reader.search(query)
        self._hands.view.search(seeker.terms)
        found, not_all = await seeker.older(self._here + 1), _not_all(seeker)
        if found is not None:
            self._hands.say(not_all.strip())
        elif (found := await seeker.newer(self._here)) is not None:
            self._hands.say(f"The nearest hit is later than where you were.{not_all}")
        else:
            self._hands.say(f"Nothing was found for {query}.{not_all}")
            return
        await self._go(found)

    async def _next(self, older: bool) -> None:
        seeker = self._hands.reader.seeker
        assert seeker
        here = self._here
        if here == self._landed:  # beside a hit that is not shown itself
            here = self._hit
        found = await (seeker.older(here) if older else seeker.newer(here))
        if found is None:
            self._hands.say(f"There is no hit further back.{_not_all(seeker)}" if older else "There is no later hit.")
        else:
            await self._go(found)

    async def _go(self, id: int) -> None:
        self._hit = id
        await self._hands.reader.to(id)
        self._hands.view.show(self._hands.reader.items)
        self._hands.view.select(id, searched=True)
        self._landed = self._here

    @property
    def _here(self) -> int:
        """The event under the cursor."""
        return current.id if (current := self._hands.view.current) else 0

    # ── what can be done to what is under the cursor ──

    def unfold(self) -> None:
        if not self._hands.view.unfold():
            self._hands.say("That is all of it.")

    def pager(self) -> None:
        if item := self._item():
            self._hands.page(item.text + "\n")

    def copy(self) -> None:
        if item := self._item():
            self._hands.copy(item.words)

    def fork(self) -> None:
        if item := self._item():  # an agent that is read-only here can be forked, too
            self._hands.leave(f"/fork at {item.id}")

    def rewind(self) -> None:
        self._do("/rewind {id}")

    def forget(self) -> None:
        item = self._item()
        if item and item.outside and item.outside.why is Why.FORGOTTEN:
            self._hands.say(f"That is forgotten already, by #{item.outside.by}: u takes it back.")
        else:
            self._do("/forget {id}")

    def undo(self) -> None:
        if (item := self._item()) is None:
            return
        undone = item.outside is not None and item.outside.why is Why.UNDONE
        by = item.id if item.undoable and not undone else item.outside.by if item.outside else 0
        if by:
            self._do(f"/undo {by}")
        else:
            self._hands.say("There is nothing to undo here: nothing that changed the context, or took this out of it.")

    def _do(self, line: str) -> None:
        """Close, and do it to what is under the cursor, where anything can be done."""
        if self._hands.source.refusal:
            self._hands.say(self._hands.source.refusal)
        elif item := self._item():
            self._hands.leave(line.format(id=item.id))

    def _item(self) -> Item | None:
        """What the cursor is on; where that is the rule, or nothing, the user is told."""
        item = self._hands.view.current
        if item is None or not item.text:
            self._hands.say("There is nothing under the cursor.")
            return None
        return item

    # ── the browser ──

    def help(self) -> None:
        self._hands.help()

    def repaint(self) -> None:
        self._hands.repaint()

    def suspend(self) -> None:
        self._hands.suspend()

    def leave(self) -> None:
        self._hands.leave()


def _not_all(seeker: Seeker) -> str:
    """What a search may have missed."""
    if seeker.reached is not None:
        return f" There was no time to look further back than #{seeker.reached}."
    if not (count := seeker.behind):
        return ""
    return f" {count:,} event{'s are' if count != 1 else ' is'} not in the index yet, and may hold more."
