"""The screen: a prompt that is never away, the conversation above it, and what is under way in between."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.core import spending
from ikigai.core.errors import Refused
from ikigai.core.events import StoredEvent, UsageReported
from ikigai.core.memory import Memory
from ikigai.core.questions import Answered, Question
from ikigai.core.reply import Delta, Waiting
from ikigai.core.sanitize import clean
from ikigai.core.transcript import Block, Rule, Shown, Speaker
from ikigai.terminal import prompt, render
from ikigai.terminal.area import Area, waiting
from ikigai.terminal.completion import Menu, Sources
from ikigai.terminal.dialog import Dialogs
from ikigai.terminal.entries import Entries
from ikigai.terminal.keyboard import LONGEST_PASTE
from ikigai.terminal.keys import bindings
from ikigai.terminal.live import Folded, LiveReply, Rising
from ikigai.terminal.pastes import Pastes
from ikigai.terminal.scroll import Entry, Scroll
from ikigai.terminal.stage import Stage
from ikigai.terminal.status import PARTS
from ikigai.terminal.text import wrap
from ikigai.terminal.theme import USER, Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.core.snippets import Marked
    from ikigai.terminal.attention import Wanted
    from ikigai.terminal.browser_source import Source
    from ikigai.terminal.finder import Finder, Look

LEAVE = 1.0
"""Seconds in which Ctrl+C has to be pressed again to leave."""
LATEST = 2000
"""Characters kept of what a running tool writes."""
BIG = 2000
"""Characters of Markdown from which it is drawn in a thread."""


class Screen:
    """A View over a terminal. Callbacks are called on the event loop and must not wait; text they get is as typed.

    `on_submit` takes what was sent, also while a turn is open, also before `begin` has got anywhere; `on_interrupt`
    a wish to stop the turn, `on_quit` to leave, `on_cycle` one for the next approval mode; `on_take_back` gives the
    newest queued message back, "" if there is none; `on_signal` takes INT, TERM, HUP or QUIT, HUP also when the
    terminal has gone; `on_go` a wish to go "up", "down", "left" or "right" in the tree of agents. `sources` completes
    arguments. `on_typing` takes what is in the input whenever it has grown. `thinking` says how a model's thoughts are
    shown: "fold" (in a row, once it speaks), "full" or "hide"; `parts` are those of the status line. `suggestions` says
    whether earlier ones are suggested, `vi` whether its keys edit. `on_browse` gives the history to look through, None
    while there is none; `on_search` looks for what was sent before; `on_draft` is called when `unsent` may be another;
    `on_steer` takes what is to go into the turn under way.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        *,
        on_submit: Callable[[str], object],
        on_interrupt: Callable[[], object],
        on_quit: Callable[[], object],
        on_take_back: Callable[[], str],
        on_cycle: Callable[[], object] = lambda: None,
        on_signal: Callable[[int], object],
        on_go: Callable[[str], object] = lambda where: None,
        sources: Sources,
        on_typing: Callable[[str], object] = lambda text: None,
        thinking: str = "fold",
        parts: Sequence[str] = PARTS,
        suggestions: bool = True,
        vi: bool = False,
        on_browse: Callable[[], "Source | None"] = lambda: None,
        on_steer: Callable[[str], object] | None = None,
        on_draft: Callable[[], None] = lambda: None,
        on_search: "Look" = lambda typed, found: lambda: None,
    ) -> None:
        self.submit, self.interrupt, self.leave, self.cycle = on_submit, on_interrupt, on_quit, on_cycle
        self.go, self._take_back = on_go, on_take_back
        self._tty, self._theme = tty, theme
        self._bare = tty.dumb or theme.words  # nothing is shown around the input: what stands there is printed
        self._pastes = Pastes()
        self._prompts = prompt.Prompts(self._pastes)
        self._on_draft = on_draft
        self.steer = on_steer or on_submit
        self._typing = on_typing
        self._buffer = Buffer(history=self._prompts, on_text_insert=self._typed, on_text_changed=lambda _: on_draft())
        self._area = Area(theme, self._buffer)
        self._scroll = Scroll(self._print, self._columns)
        self._menu = Menu(self._buffer, sources)
        suggests = suggestions and theme.color and not self._bare  # nothing but colour would tell them from the text
        allowed, columns = lambda: suggests and not self.asked, lambda: tty.size()[0]
        ghost = prompt.Ghost(self._buffer, self._prompts, allowed, columns)
        keys = bindings(self, self._buffer, self._pastes, self._menu, ghost, vi)
        self._field = Buffer(multiline=False, on_text_changed=self._sought)
        self._finder: Finder | None = None
        self._look = on_search
        self._layout = prompt.layout(self._buffer, self._field, self._field_label, ghost, tty, theme.sign(USER))
        self._stage = Stage(tty, theme, self._area, self._layout, keys, on_signal, self._scroll.drained, vi)
        self._stage.after_keys(on_draft)
        self._asked = 0.0
        self._began: dict[int, float] = {}  # when open turns were first seen, by their first events
        self._area.parts = parts
        self._area.thoughts = thinking != "hide"
        self._entries = Entries(theme, thinking)
        self._warm = False
        self._lent = False  # another program has the terminal
        self._source = on_browse
        self._dialogs = Dialogs(self._asking)
        self._put_by: str | None = None  # what was in the input when an answer needed it
        self._printed = ""  # the question, on a dumb terminal
        self.usage: list[int] = []  # usage events of this session

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible.

        Raises what `begin` raises, and any bug in here. The terminal is restored in any case.
        """
        await self._stage.run(begin)

    def warm(self) -> None:
        """Import in a thread what drawing Markdown takes, before anything that is printed from here on."""
        if not self._warm:
            self._warm = True
            self._scroll.add(render.warm, big=True)

    def equip(self, wanted: "Wanted") -> None:
        """From here on, use what this terminal can do beside drawing text, as far as it is wanted."""
        from ikigai.terminal.attention import equip

        equip(self._tty, self._stage, self._entries, wanted, os.environ)

    async def copied(self, text: str) -> str:
        """Give safe text to the terminal's clipboard; says what came of it. Raises Refused where that cannot be."""
        from ikigai.terminal.clipboard import copied

        return await copied(text, self._tty, os.environ)

    async def drawn(self) -> None:
        """Wait until all that was to be printed is printed."""
        await self._scroll.drained()

    def close(self, error: BaseException | None = None) -> None:
        """End `run`, which raises `error` if there is one."""
        self._stage.close(error)

    def restore(self) -> None:
        """Put the terminal back as it was: for exits that go past `run`."""
        self._tty.restore()

    # ── the view ─────────────────────────────────────────────────────────────────────────────────────────────────

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
        if isinstance(event, Waiting) and self._bare:
            self.notice(waiting(event, event.seconds))
        if begins and not risen and not isinstance(event, Waiting):
            self._stage.at_once()
        else:
            self._say(risen)

    def progress(self, call_id: str, text: str) -> None:
        self._area.outputs[call_id] = (self._area.outputs.get(call_id, "") + text)[-LATEST:]
        self._stage.soon()

    def running(self, command: str) -> None:
        """The user's own command is under way, its progress told under its own words; "" when it has ended."""
        self._area.outputs.pop(self._area.command, None)
        self._area.command = command
        if self._area.memory is None or self._area.memory.open is None:
            self._area.began = time.monotonic()
        self._stage.soon()

    def saved(self, asked_by: int, characters: int) -> None:
        if self._area.reply and self._area.reply.asked_by == asked_by:
            self._say(self._area.reply.saved(characters))

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
        self._stage.soon()

    def stored(self, event: StoredEvent) -> None:
        if isinstance(event.event, UsageReported):
            self.usage.append(event.id)
            self._area.spent += spending.spent(event.event)

    def notice(self, text: str) -> None:
        self._scroll.add(lambda columns: [Entry(render.notice(text, columns, self._theme), "notice")])

    async def ask(self, question: Question) -> Answered:
        """Ask the user; what it is about goes into the scrollback, the question stays above the input."""

        async def show() -> None:
            if question.lines:
                rows = (text := "\n".join(question.lines)).split("\n")
                self._scroll.add(lambda columns: [Entry(render.proposed(rows, columns, self._theme))], len(text) > BIG)
                await self._scroll.drained()  # what is not on screen yet is not answered

        answered = await self._dialogs.ask(question, show)
        label = next((each.label for each in question.choices if each.key == answered.key), answered.key)
        self.print_text(f"{question.title} {label}" + (f": {answered.words}" if answered.words else ""))
        return answered

    def away(self, is_away: bool) -> None:
        """The database cannot be reached, or can be again."""
        if self._bare and is_away != self._area.away:
            self.notice("The database cannot be reached." if is_away else "The database can be reached again.")
        self._area.away = is_away
        self._stage.soon()

    def returned(self, text: str) -> None:
        """Put `text` before what is in the input."""
        if text:
            self._replace("\n".join(filter(None, (self._pastes.collapsed(text), self._buffer.text))))

    def queued(self, texts: tuple[str, ...]) -> None:
        if self._bare and len(texts) > len(self._area.queue):
            self.print_text(f"Queued: {texts[-1]}")
        self._area.queue = texts
        self._on_draft()
        self._stage.soon()

    def print_text(self, text: str) -> None:
        """Print what a command answers: plain text."""
        self._scroll.add(lambda columns: [Entry(render.plain(text, columns))])

    def print_marked(self, lines: "Sequence[Marked]") -> None:
        """Print what a search found, the places in it that were searched for set off."""
        self._scroll.add(lambda columns: [Entry(render.marked(lines, columns, self._theme))])

    def print_drawn(self, draw: Callable[[int, Theme], str]) -> None:
        """Print what `draw` makes for so many cells and this theme, its escapes the theme's own."""
        self._scroll.add(lambda columns: [Entry(render.shifted(draw(columns - render.INDENT, self._theme)))])

    # ── what is known later than the first paint ─────────────────────────────────────────────────────────────────

    def agent(self, name: str, following: bool = False, deserted: bool = False) -> None:
        """The name in the status line, and whether it is only followed, and nobody writes it."""
        self._area.agent, self._area.following, self._area.deserted = name, following, deserted
        self._stage.soon()

    def another(self, name: str) -> None:
        """Another agent comes on stage: nothing of the one before stays in the live area."""
        self._area.reply, self._area.memory, self._area.queue, self._area.outputs = None, None, (), {}
        self._scroll.add(lambda columns: [Entry(render.another(name, columns, self._theme))])

    def others(self, text: str, pressing: bool) -> None:
        """What agents in the background are about, for the status line; `pressing` where one waits for the user."""
        if self._bare and pressing and text != self._area.others[1]:
            self.notice(text)
        self._area.others = ("warning" if pressing else "dim", text)
        self._stage.soon()

    def put_by(self) -> str:
        """Take what is in the input out of it."""
        text = self._pastes.expanded(self._buffer.text)
        if text:
            self._replace("")
        return text

    @property
    def unsent(self) -> str:
        """What was typed and is not sent: what is queued, and what is in the input or was before a search or answer."""
        typed = self._put_by if self._put_by is not None else self._finder.before if self._finder else self._buffer.text
        return "\n".join(filter(None, (*self._area.queue, self._pastes.expanded(typed))))

    def database(self, text: str) -> None:
        """Where the database is, for the status line."""
        self._area.database = text
        self._stage.soon()

    def set_prompts(self, texts: Iterable[str]) -> None:
        """Prompts of earlier runs for Up and Ctrl+R, the newest first."""
        self._prompts.fill(texts)
        self._buffer.reset(self._buffer.document)  # they are read with the next paint
        self._stage.invalidate()

    def earlier(self) -> list[str]:
        """What was sent before, as far as it is known here, the newest first."""
        return list(self._prompts.load_history_strings())

    def offer_again(self) -> None:
        """A source of the completions has found more."""
        if self._menu.again():
            self._stage.invalidate()

    # ── what keys do ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def busy(self) -> bool:
        return self._area.stoppable

    @property
    def asked(self) -> bool:
        return self._dialogs.current is not None

    @property
    def wording(self) -> bool:
        """Whether the input holds the words of an answer."""
        return self._dialogs.wording

    def pressed(self, key: str) -> bool:
        return self._dialogs.pressed(key, self._buffer.text)

    def said(self, words: str) -> bool:
        if not self._dialogs.wording:
            return False
        self._dialogs.said(words)
        return True

    def back(self) -> None:
        self._dialogs.back()

    def ask_to_leave(self) -> bool:
        now = time.monotonic()
        if now - self._asked < LEAVE:
            return True
        self._asked = now
        self.hint("Ctrl+C again leaves")
        return False

    def take_back(self) -> bool:
        text = self._take_back()
        if text:
            self._replace(self._pastes.collapsed(text))
        return bool(text)

    def pasted(self, text: str) -> str:
        if self._stage.keyboard.parser.dropped:
            self.notice(f"The paste is longer than {LONGEST_PASTE >> 20} million characters. The rest was left out.")
        return self._pastes.collapsed(text)

    def offered(self) -> None:
        """What can complete the input is gone through for the first time."""
        state = self._buffer.complete_state
        if self._bare and state and len(state.completions) > 1:
            self.print_text(self._in_words().menu(state.completions))

    def status_told(self) -> str:
        """What the status line tells, in rows, beside what is in the memory."""
        return self._in_words().status(self._area)

    def _in_words(self) -> ModuleType:
        from ikigai.terminal import words  # most never need it

        return words

    @property
    def finding(self) -> bool:
        return self._finder is not None

    def find(self) -> None:
        self._stage.inserting()
        from ikigai.terminal.finder import begun

        changed, columns = self._stage.invalidate, lambda: self._tty.size()[0]
        self._field.reset()
        self._finder = begun(self._buffer, self._prompts, self._look, self._pastes.collapsed, columns, changed)
        self._layout.focus(self._field)

    def find_next(self, by: int) -> None:
        if self._finder:
            self._finder.move(by)

    def found(self, take: bool) -> None:
        finder, self._finder = self._finder, None
        self._layout.focus(self._buffer)
        if finder and (text := finder.ended(take)) is not None:
            self._replace(self._pastes.collapsed(text))

    def _sought(self, field: Buffer) -> None:
        if self._finder:
            self._finder.typed(field.text)

    def _field_label(self) -> str:
        return "search (nothing found): " if self._finder and self._finder.empty else "search: "

    def redraw(self) -> None:
        self._stage.redraw()

    def suspend(self) -> None:
        self._stage.suspend()

    def edit(self) -> None:
        self._lend(self._edited)

    def unfold(self) -> None:
        """Show all of the newest thought or result in the history, or in the pager while it is not stored."""
        thinking = self._area.reply.thinking if self._area.reply else None
        going_on = thinking.text if thinking and thinking.inked else ""
        text, place = going_on or self._entries.folded, 0 if going_on or self._bare else self._entries.folded_in
        if place and (source := self._source()):
            self._lend(lambda: self._browsed(source, place=place))
        elif text:
            self._lend(lambda: self._paged(text))
        else:
            self.hint("There is nothing to open")

    def browse(self, rewinding: bool = False) -> None:
        if self._bare:
            who = "A screen reader" if self._theme.words else "This terminal"
            self.notice(f"{who} cannot show the browser. `ikigai history list` prints the history.")
        elif source := self._source():
            self._lend(lambda: self._browsed(source, rewinding))
        else:
            self.hint("The conversation is being opened")

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _columns(self) -> int:
        """Columns that the scrollback is drawn for."""
        return self._in_words().UNWRAPPED if self._theme.words else self._tty.size()[0]

    def _print(self, text: str) -> None:
        self._stage.print(self._in_words().wrapped(text, self._tty.size()[0]) if self._theme.words else text)

    def _lend(self, use: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let another program have the terminal, one at a time."""

        async def lent() -> None:
            try:
                await use()
            finally:
                self._lent = False

        if not self._lent:
            self._lent = True
            self._stage.start(lent())

    async def _paged(self, text: str) -> None:
        from ikigai.terminal.pager import page

        rows = wrap(clean(text).strip("\n"), self._tty.size()[0])
        try:
            with self._stage.away():
                await page("\n".join(rows) + "\n")
        except Refused as refusal:
            self.notice(str(refusal))

    async def _browsed(self, source: "Source", rewinding: bool = False, place: int = 0) -> None:
        from ikigai.terminal.browser import Browser

        browser = Browser(self._tty, self._theme, self._stage, self, source, rewinding, place)
        if line := await browser.run():
            self.submit(line)
        self._stage.press(browser.ahead)

    async def _edited(self) -> None:
        from ikigai.terminal.editor import edit

        try:
            with self._stage.away():
                text = await edit(self._pastes.expanded(self._buffer.text))
        except Refused as refusal:
            self.notice(str(refusal))
        else:
            self._replace(self._pastes.collapsed(text))

    def _typed(self, buffer: Buffer) -> None:
        self._dialogs.typed()
        self._menu.offer()
        self._typing(buffer.text)

    def _asking(self) -> None:
        """Another question is to be shown, or none; while words of an answer are wanted the input is lent to them."""
        self._area.dialog = dialog = self._dialogs.current
        if self._bare and dialog and dialog.since:
            asked = f"{dialog.prompt}\n{' · '.join(dialog.keys)}"
            if self._theme.words:
                asked = self._in_words().question(dialog)
            if asked != self._printed:
                self.print_text(asked)
            self._printed = asked
        else:
            self._printed = ""
        if self._dialogs.wording and self._put_by is None:
            self._put_by = self._buffer.text
            self._replace("")
        elif not self._dialogs.wording and self._put_by is not None:
            self._replace(self._put_by)
            self._put_by = None
        self._stage.at_once()
        self._stage.invalidate()

    def _replace(self, text: str) -> None:
        """Make `text` the input, so that undo brings back what was there."""
        self._buffer.save_to_undo_stack()
        self._buffer.document = Document(text)
        self._stage.invalidate()

    def _say(self, pieces: list[Rising]) -> None:
        for piece in pieces:
            self._entries.fold(piece)
            text = piece.text if isinstance(piece, Folded) else piece.source
            self._scroll.add(lambda columns, piece=piece: self._entries.risen(piece, columns), big=len(text) > BIG)
        self._stage.soon()

    def hint(self, text: str) -> None:
        """Tell something in the status line for a moment."""
        if self._bare:
            self.print_text(text)
            return
        self._area.hint = text
        asyncio.get_running_loop().call_later(LEAVE, self._unhint)

    def _unhint(self) -> None:
        self._area.hint = ""
        self._stage.soon()
