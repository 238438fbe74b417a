"""What is shown above and below the input: the conversation in the scrollback, what is under way, how things stand."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ikigai.core.events import StoredEvent, UsageReported
from ikigai.core.request.reply import Delta, Waiting
from ikigai.core.state.memory import Memory
from ikigai.core.views import usage_totals as spending
from ikigai.core.views.transcript import Block, Rule, Shown, Speaker
from ikigai.terminal.output.application import Stage
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_area import Area, waiting
from ikigai.terminal.output.live_reply import Folded, LiveReply, Rising
from ikigai.terminal.output.scrollback import Entry, Scroll
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from types import ModuleType

    from ikigai.core.search.snippets import Marked

HINTED = 1.0
"""Seconds that a hint stays in the status line."""
LATEST = 2000
"""Characters kept of what a running tool writes."""
BIG = 2000
"""Characters of Markdown from which it is drawn in a thread."""


class Showing:
    """The part of a View that asks nothing and takes nothing back. What is printed, is printed in its order.

    `thinking` says how a model's thoughts are shown: "fold" (in a row, once it speaks), "full" or "hide". `bare` is a
    terminal where nothing is shown around the input: what would stand there is printed. `usage` are the ids of the
    usage events of this session.
    """

    def __init__(self, tty: Tty, theme: Theme, area: Area, stage: Stage, thinking: str) -> None:
        self._tty, self._theme, self._area, self._stage = tty, theme, area, stage
        self._frames = stage.frames
        self.bare = tty.dumb or theme.words
        self._scroll = Scroll(self._print, self._columns)
        self._entries = Entries(theme, thinking)
        self._began: dict[int, float] = {}  # when open turns were first seen, by their first events
        self._warm = False
        self.usage: list[int] = []
        area.thoughts = thinking != "hide"

    def warm(self) -> None:
        """Import in a thread what drawing Markdown takes, before anything that is printed from here on."""
        if not self._warm:
            self._warm = True
            self._scroll.add(render.warm, big=True)

    async def drawn(self) -> None:
        """Wait until all that was to be printed is printed."""
        await self._scroll.drained()

    @property
    def busy(self) -> bool:
        """Whether something is under way that can be stopped from here."""
        return self._area.stoppable

    @property
    def folded(self) -> tuple[str, int]:
        """All of the newest thought or result, and the event that holds it, 0 where it is not to be looked up."""
        thinking = self._area.reply.thinking if self._area.reply else None
        going_on = thinking.text if thinking and thinking.inked else ""
        return going_on or self._entries.folded, 0 if going_on or self.bare else self._entries.folded_in

    # ── the conversation ─────────────────────────────────────────────────────────────────────────────────────────

    def history(self, shown: Sequence[Shown], skipped: int) -> None:
        """The last screenfuls of a stretch of history, drawn anew; `skipped` events lie before it."""

        self._entries.folded, self._entries.folded_in = "", 0
        for each in shown:
            self._entries.fold(each)
        if self._theme.asks:
            self._scroll.after(self._stage.dressed)
        if self._entries.takes_markdown(shown, *self._tty.size()):
            self.warm()
        self._scroll.add(lambda columns: self._entries.history(shown, skipped, columns, self._tty.size()[1]))
        self._scroll.after(self._waited_for)

    async def _waited_for(self) -> None:
        """What was printed is seen now, and not with the next frame."""
        self._frames.at_once()

    def show(self, block: Block) -> None:
        reply = self._area.reply
        self._area.shown = block
        if block.speaker is Speaker.ASSISTANT and reply and reply.waits:
            self._say(reply.stored(block.text, len(block.thoughts)))
            self._entries.stored(block)
            return
        if block.speaker is Speaker.STOPPED and reply:
            self._say(reply.dropped())
        self._entries.fold(block)
        if block.speaker is Speaker.ASSISTANT:
            self.warm()
        self._scroll.add(lambda columns: self._entries.of(block, columns), big=len(block.text) > BIG)
        if block.speaker is Speaker.USER:  # the answer will take it
            self.warm()

    def rule(self, rule: Rule) -> None:
        self._scroll.add(lambda columns: self._entries.of(rule, columns))

    def live(self, asked_by: int, event: Delta | Waiting) -> None:
        reply = self._area.reply
        begins = reply is None or reply.asked_by != asked_by or reply.waiting is not None
        if reply is None or reply.asked_by != asked_by:
            reply = self._area.reply = LiveReply(asked_by)
            self.warm()
        risen = reply.add(event)
        if isinstance(event, Waiting) and self.bare:
            self.notice(waiting(event, event.seconds))
        if begins and not risen and not isinstance(event, Waiting):
            self._frames.at_once()
        elif risen:
            self._say(risen)
        else:
            self._frames.soon()

    def saved(self, asked_by: int, characters: int) -> None:
        if self._area.reply and self._area.reply.asked_by == asked_by:
            self._say(self._area.reply.saved(characters))

    def _say(self, pieces: list[Rising]) -> None:
        for piece in pieces:
            self._entries.fold(piece)
            text = piece.text if isinstance(piece, Folded) else piece.source
            self._scroll.add(lambda columns, piece=piece: self._entries.risen(piece, columns), big=len(text) > BIG)
        self._frames.soon()

    # ── what is printed beside it ────────────────────────────────────────────────────────────────────────────────

    def notice(self, text: str) -> None:
        self._scroll.add(lambda columns: [Entry(render.notice(text, columns, self._theme), "notice")])

    def print_text(self, text: str) -> None:
        """Print what a command answers: plain text."""
        self._scroll.add(lambda columns: [Entry(render.plain(text, columns))])

    def print_marked(self, lines: "Sequence[Marked]") -> None:
        """Print what a search found, the places in it that were searched for set off."""
        self._scroll.add(lambda columns: [Entry(render.marked(lines, columns, self._theme))])

    def print_drawn(self, draw: Callable[[int, Theme], str]) -> None:
        """Print what `draw` makes for so many cells and this theme, its escapes the theme's own."""
        self._scroll.add(lambda columns: [Entry(render.shifted(draw(columns - render.INDENT, self._theme)))])

    async def propose(self, lines: Sequence[str]) -> None:
        """Print what a question is about; returns when it is on screen."""
        rows = (text := "\n".join(lines)).split("\n")
        self._scroll.add(lambda columns: [Entry(render.proposed(rows, columns, self._theme))], len(text) > BIG)
        await self._scroll.drained()

    # ── what is under way ────────────────────────────────────────────────────────────────────────────────────────

    def progress(self, call_id: str, text: str) -> None:
        self._area.outputs[call_id] = (self._area.outputs.get(call_id, "") + text)[-LATEST:]
        self._frames.soon()

    def running(self, command: str) -> None:
        """The user's own command is under way, its progress told under its own words; "" when it has ended."""
        self._area.outputs.pop(self._area.command, None)
        self._area.command = command
        if self._area.memory is None or self._area.memory.open is None:
            self._area.began = time.monotonic()
        self._frames.soon()

    def changed(self, memory: Memory) -> None:
        before = self._area.memory
        if memory.open is None:
            self._area.reply = None
            if before is None or before.open:
                self._scroll.add(lambda columns: self._entries.ended())
        elif before is None or before.open is None or before.open.first != memory.open.first:
            self._area.began = self._began.setdefault(memory.open.first, time.monotonic())
        pending = {call.id for _, call in memory.open.pending} if memory.open else set[str]()
        pending.add(self._area.command)
        self._area.outputs = {id: text for id, text in self._area.outputs.items() if id in pending}
        self._area.memory = memory
        self._frames.soon()

    # ── how things stand ─────────────────────────────────────────────────────────────────────────────────────────

    def stored(self, event: StoredEvent) -> None:
        if isinstance(event.event, UsageReported):
            self.usage.append(event.id)
            self._area.spent += spending.spent(event.event)

    def away(self, is_away: bool) -> None:
        """The database cannot be reached, or can be again."""
        if self.bare and is_away != self._area.away:
            self.notice("The database cannot be reached." if is_away else "The database can be reached again.")
        self._area.away = is_away
        self._frames.soon()

    def database(self, text: str) -> None:
        """Where the database is, for the status line."""
        self._area.database = text
        self._frames.soon()

    def agent(self, name: str, following: bool = False, deserted: bool = False) -> None:
        """The name in the status line, and whether it is only followed, and nobody writes it."""
        self._area.agent, self._area.following, self._area.deserted = name, following, deserted
        self._frames.soon()

    def another(self, name: str) -> None:
        """Another agent comes on stage: nothing of the one before stays in the live area."""
        self._area.reply, self._area.memory, self._area.queue, self._area.outputs = None, None, (), {}
        self._scroll.add(lambda columns: [Entry(render.another(name, columns, self._theme))])

    def others(self, text: str, pressing: bool) -> None:
        """What agents in the background are about, for the status line; `pressing` where one waits for the user."""
        if self.bare and pressing and text != self._area.others[1]:
            self.notice(text)
        self._area.others = ("warning" if pressing else "dim", text)
        self._frames.soon()

    def hint(self, text: str) -> None:
        """Tell something in the status line for a moment."""
        if self.bare:
            self.print_text(text)
            return
        self._area.hint = text
        asyncio.get_running_loop().call_later(HINTED, self._unhint)

    def _unhint(self) -> None:
        self._area.hint = ""
        self._frames.soon()

    def status_told(self) -> str:
        """What the status line tells, in rows, beside what is in the memory."""
        return self._in_words().status(self._area)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _in_words(self) -> "ModuleType":
        from ikigai.terminal.output import screen_reader as words  # most never need it

        return words

    def _columns(self) -> int:
        """Columns that the scrollback is drawn for."""
        return self._in_words().UNWRAPPED if self._theme.words else self._tty.size()[0]

    def _print(self, text: str) -> None:
        self._frames.print(self._in_words().wrapped(text, self._tty.size()[0]) if self._theme.words else text)
