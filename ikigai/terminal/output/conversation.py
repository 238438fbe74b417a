"""Show the conversation in the scrollback, the work under way, and the questions to the user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from ikigai.core.events.events import CUT_OFF, StoredEvent, ToolStarted, UsageReported
from ikigai.core.request.reply import Delta, RetryScheduled, describe_retry
from ikigai.core.views import usage_totals
from ikigai.core.views.call_words import join_results
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.live_state import LiveState, newest_output
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.held_lines import AnnouncedChanges, HeldCalls
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.live_reply import FinishedPiece, LiveReply, piece_size
from ikigai.terminal.output.scrollback import Scrollback, ScrollbackEntry
from ikigai.terminal.render import blocks
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.core.search.snippets import MarkedText
    from ikigai.core.state.memory import Memory
    from ikigai.core.views.usage_totals import UsageTotals
    from ikigai.terminal.screen_handler import ScreenHandler

THREADED_CHARACTERS = 2000
"""Characters of Markdown from which it is drawn in a thread."""


class AnswerInput(Protocol):
    """The input, as far as questions and returned messages need it."""

    def restore_input(self, text: str) -> None: ...
    def use_for_answer(self, is_used: bool) -> None: ...


class ConversationView:
    """The View of a terminal: draws the live state it is attached to, and prints in the order of the calls.

    `thinking` says how a model's thoughts are shown: "fold" (in a row, once it speaks), "full" or "hide". `bare` is a
    terminal that shows nothing around the input; such rows are printed instead. `usage` holds the ids of the usage
    events of this session.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        area: LiveArea,
        terminal_app: TerminalApp,
        input: AnswerInput,
        dialogs: Dialogs,
        handler: ScreenHandler,
        thinking: str,
    ) -> None:
        self._tty, self._theme, self._area, self._terminal_app = tty, theme, area, terminal_app
        self._input, self._dialogs, self._handler = input, dialogs, handler
        self._printed = ""  # the question, in a bare terminal
        self._frames = terminal_app.frames
        self.bare = tty.dumb or theme.words
        self._scroll = Scrollback(self._print, self._columns)
        self.entries = Entries(theme, thinking)
        self.steps = HeldCalls()
        self._unanswered: str | None = None  # why the request failed that can be retried; "" if it stands above
        self._turn: int | None = None  # first event of the open turn that is shown; 0 for none, None with no agent
        self._queued = 0  # texts that wait, as shown
        self._unreachable = False  # the database, as shown
        self._began: dict[int, float] = {}  # when open turns were first seen, by their first events
        self._warm = False
        self._command_questions = 0  # open ones
        self.announced = AnnouncedChanges()
        self.usage: list[int] = []
        self.changed_idle = asyncio.Event()  # set when a memory without an open turn is shown
        area.thoughts = thinking != "hide"

    def preload(self) -> None:
        """Import in a thread the modules that draw Markdown, before anything that is printed from here on."""
        if not self._warm:
            self._warm = True
            self._scroll.add(blocks.preload, big=True)

    async def drawn(self) -> None:
        """Wait until everything that was to be printed is printed."""
        await self._scroll.drained()

    @property
    def busy(self) -> bool:
        """True if a turn or command is under way that can be stopped from here."""
        return self._area.stoppable

    @property
    def spent(self) -> UsageTotals:
        """The usage of this session."""
        return self._area.spent

    @property
    def folded(self) -> tuple[str, int]:
        """All of the newest thought or result, and the event that holds it; 0 where it cannot be looked up."""
        thinking = self._area.reply.thinking if self._area.reply else None
        streaming = thinking.text if thinking and thinking.has_text else ""
        return streaming or self.entries.folded, 0 if streaming or self.bare else self.entries.folded_in

    @property
    def awaits_attempt(self) -> bool:
        """True if a request of this program waits for its next attempt."""
        reply = self._area.reply
        return not self._area.following and reply is not None and reply.waiting is not None

    @property
    def can_retry(self) -> bool:
        """True if the newest turn has no answer: it failed, or was stopped while it waited for another attempt."""
        return self._unanswered is not None

    # ── the conversation ─────────────────────────────────────────────────────────────────────────────────────────

    def history(
        self, shown: Sequence[Shown], skipped: int, last_turn: bool = False, held: Collection[str] = ()
    ) -> None:
        """Draw the last screenfuls of a stretch of history, or its last turn; `skipped` events lie before it.

        The calls `held` have not started: each is drawn with its question, or when it starts.
        """
        shown = self.steps.hold_again(join_results(shown), held)
        self.entries.fold_newest(shown, self._columns())
        if self._theme.asks:
            self._scroll.after(self._terminal_app.wait_for_theme)
        columns, rows = self._tty.size()
        first = blocks.first_of_last_turn(shown) if last_turn else blocks.first_visible(shown, columns, rows)
        if self.entries.takes_markdown(shown[first:], columns):
            self.preload()
        self._scroll.add(lambda columns: self.entries.history(shown, skipped, first, columns))
        self._scroll.after(self._show_at_once)

    async def _show_at_once(self) -> None:
        """Draw the printed lines now, and not with the next frame."""
        self._frames.at_once()

    def show(self, block: TranscriptBlock) -> None:
        if self.announced.replaces(block.id):
            return
        reply, before = self._area.reply, self._area.shown
        self._area.shown = block
        if block.speaker is Speaker.USER:
            self._area.first_lines = None
        if block.speaker is Speaker.ASSISTANT and reply and reply.waits:
            self._print_pieces(reply.stored(block.text, len(block.thoughts)))
            self.entries.stored(block)
            return
        if block.hosted and reply and reply.awaits_step:
            self._print_pieces(reply.stored_step())
            return
        if self.steps.hold(block):
            return
        if block.speaker is Speaker.STOPPED and reply:
            self._print_pieces(reply.dropped())
        calls, block = self.steps.before(block)
        self._print_calls(calls)
        if block.speaker is Speaker.STOPPED and not self._area.following:
            if block.failed:
                self._unanswered = "" if before and before.speaker is Speaker.USER else None
            elif reply and reply.waiting:
                self._unanswered = reply.waiting.why
        self.entries.fold(block, self._columns())
        if block.speaker is Speaker.ASSISTANT:
            self.preload()
        self._scroll.add(lambda columns: self.entries.draw(block, columns), big=len(block.text) > THREADED_CHARACTERS)
        if block.speaker is Speaker.STOPPED and self._unanswered is not None:
            again = f"{self._theme.key('send')} on the empty line tries again."
            self.notice(f"{self._unanswered} {again}") if self._unanswered else self.note(again)
        if block.speaker is Speaker.STOPPED and block.text == CUT_OFF and not self._area.following:
            self.note("/retry asks again.")
        if block.speaker is Speaker.USER:  # the answer will take it
            self.preload()

    def _print_calls(self, calls: Sequence[TranscriptBlock]) -> None:
        for each in calls:
            self._scroll.add(lambda columns, each=each: self.entries.draw(each, columns))

    def rule(self, rule: ContextRule) -> None:
        self._scroll.add(lambda columns: self.entries.draw(rule, columns))

    def show_delta(self, asked_by: int, event: Delta | RetryScheduled) -> None:
        reply = self._area.reply
        begins = reply is None or reply.asked_by != asked_by or reply.waiting is not None
        if reply is None or reply.asked_by != asked_by:
            reply = self._area.reply = LiveReply(asked_by)
            self.preload()
        finished = reply.add(event)
        if isinstance(event, RetryScheduled) and self.bare:
            self.notice(f"{describe_retry(event, event.seconds)}: {event.why}")
        if begins and not finished and not isinstance(event, RetryScheduled):
            self._frames.at_once()
        elif finished:
            self._print_pieces(finished)
        else:
            self._frames.soon()

    def draft_saved(self, asked_by: int, characters: int) -> None:
        if (reply := self._area.reply) and reply.asked_by == asked_by:
            self._print_pieces(reply.saved(characters))

    def _print_pieces(self, pieces: list[FinishedPiece]) -> None:
        for piece in pieces:
            self.entries.fold(piece, self._columns())
            big = piece_size(piece) > THREADED_CHARACTERS
            self._scroll.add(lambda columns, piece=piece: self.entries.draw_piece(piece, columns), big)
        self._frames.soon()

    @property
    def printed(self) -> int:
        """The number of things printed so far."""
        return self._scroll.added

    # ── what is printed beside it ────────────────────────────────────────────────────────────────────────────────

    def notice(self, text: str) -> None:
        self._scroll.add(lambda columns: [ScrollbackEntry(blocks.draw_notice(text, columns, self._theme), "notice")])

    def note(self, text: str) -> None:
        self._scroll.add(lambda columns: [ScrollbackEntry(blocks.draw_note(text, columns, self._theme))])

    def print_text(self, text: str) -> None:
        """Print the plain text that a command answers with."""
        self._area.first_lines = None
        self._scroll.add(lambda columns: [ScrollbackEntry(blocks.draw_plain(text, columns))])

    def print_marked(self, lines: Sequence[MarkedText]) -> None:
        """Print the lines that a search found, its hits highlighted."""
        self._area.first_lines = None
        self._scroll.add(lambda columns: [ScrollbackEntry(blocks.draw_marked(lines, columns, self._theme))])

    def print_drawn(self, draw: Callable[[int, Theme], str]) -> None:
        """Print the lines that `draw` returns for so many cells and this theme. All escapes in them are the theme's."""
        self._area.first_lines = None
        self._scroll.add(
            lambda columns: [ScrollbackEntry(blocks.indent_lines(draw(columns - blocks.BLOCK_INDENT, self._theme)))]
        )

    async def propose(self, question: Question) -> None:
        """Print the lines of a question; return when they are on screen. They name the calls that they are about."""
        text = self.steps.propose(question)
        from ikigai.terminal.render.question_lines import draw_question

        self._scroll.add(
            lambda columns: [ScrollbackEntry(draw_question(question, columns, self._theme))],
            len(text) > THREADED_CHARACTERS,
        )
        await self._scroll.drained()

    # ── what is under way ────────────────────────────────────────────────────────────────────────────────────────

    def attach(self, live: LiveState) -> None:
        self._area.live, reply = live, live.reply
        if live.memory is None:
            return  # no agent is open yet
        self.changed(live.memory)
        if reply and not (self._area.reply and self._area.reply.asked_by == reply.asked_by):
            for each in reply.deltas:
                self.show_delta(reply.asked_by, each)
            if reply.saved:
                self.draft_saved(reply.asked_by, reply.saved)
        self.queued(live.waiting)
        self.database_unreachable(live.database_unreachable)

    def progress(self, call_id: str, text: str) -> None:
        self._frames.soon()

    def running(self, command: str) -> None:
        """Show that the user's own command is under way; "" when it has ended."""
        self._area.command, self._area.command_output = command, ""
        if not self._turn:
            self._area.began = time.monotonic()
        self._frames.soon()

    def command_output(self, text: str) -> None:
        """Show more output of the user's own command."""
        self._area.command_output = newest_output(self._area.command_output, text)
        self._frames.soon()

    def changed(self, memory: Memory) -> None:
        before, self._turn = self._turn, memory.open.first if memory.open else 0
        if memory.open is None:
            self._print_calls(self.steps.end_turn())
            self.changed_idle.set()
            if before != self._turn:
                self._scroll.add(lambda columns: self.entries.ended())
        elif before != self._turn:
            self._unanswered = None
            self._area.began = self._began.setdefault(memory.open.first, time.monotonic())
        if self._area.live.reply is None:
            self._area.reply = None
        self._frames.soon()

    # ── how things stand ─────────────────────────────────────────────────────────────────────────────────────────

    def stored(self, event: StoredEvent) -> None:
        self.announced.stored(event)
        if isinstance(event.event, ToolStarted):
            self._print_calls(self.steps.started(event.event.call_id))
        if isinstance(event.event, UsageReported):
            self.usage.append(event.id)
            self._area.spent += usage_totals.totals_of(event.event)

    def database_unreachable(self, is_unreachable: bool) -> None:
        """Show that the database cannot be reached, or can be again."""
        if self.bare and is_unreachable != self._unreachable:
            if is_unreachable:
                self.notice("The database cannot be reached.")
            else:
                self.note("The database can be reached again.")
        self._unreachable = is_unreachable
        self._frames.soon()

    def forget_agent(self) -> None:
        """Take everything of the agent on screen out of the live area, until another one attaches."""
        self._area.first_lines = self._area.reply = self._turn = None
        self._area.live = LiveState()
        self.announced.forget()
        self.steps.end_turn()
        self._unanswered = None

    def show_other_agent(self, name: str) -> None:
        """Show another agent: nothing of the one before stays in the live area."""
        self.forget_agent()
        from ikigai.terminal.render.rule_line import draw_agent_heading

        self._scroll.add(lambda columns: [ScrollbackEntry(draw_agent_heading(name, columns, self._theme))])

    # ── questions, and what the user has sent ─────────────────────────────────────────────────────────────────────────

    async def ask(self, question: Question) -> QuestionAnswer:
        """Ask the user. The lines of the question go into the scrollback; the question stays above the input."""

        async def show() -> None:
            if question.lines:
                await self.propose(question)  # the user answers only lines that are on screen

        self._command_questions += question.of_command
        try:
            answered = await self._dialogs.ask(question, show)
        finally:
            self._command_questions -= question.of_command
            if question.of_command:
                self._handler.question_closed()
        label = next((each.label for each in question.choices if each.key == answered.key), answered.key)
        self.print_text(f"{question.title} {label}" + (f": {answered.words}" if answered.words else ""))
        return answered

    @property
    def asks_for_command(self) -> bool:
        """True while a question of a command is open."""
        return self._command_questions > 0

    @property
    def wording(self) -> bool:
        """True if the input holds the words of an answer."""
        return self._dialogs.wording

    def update_question(self) -> None:
        """Show another question, or none; use the input for it while it needs words for an answer."""
        self._area.dialog = dialog = self._dialogs.current
        if self.bare and dialog and dialog.since:
            asked = f"{dialog.prompt}\n{' · '.join(dialog.keys(self._theme))}"
            if self._theme.words:
                from ikigai.terminal.output.screen_reader import speak_question

                asked = speak_question(dialog, self._theme)
            if asked != self._printed:
                self.print_text(asked)
            self._printed = asked
        else:
            self._printed = ""
        self._input.use_for_answer(is_used=self._dialogs.wording)
        self._frames.at_once()
        self._frames.invalidate()

    def restore_input(self, text: str) -> None:
        """Put `text` before the text in the input."""
        self._input.restore_input(text)

    def queued(self, texts: tuple[str, ...]) -> None:
        entered, self._queued = len(texts) > self._queued, len(texts)
        if self.bare and entered:
            self.print_text(f"Queued: {texts[-1]}")
        self._handler.draft_changed(entered)
        self._frames.soon()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _columns(self) -> int:
        """Return the columns that the scrollback is drawn for."""
        if not self._theme.words:
            return self._tty.size()[0]
        from ikigai.terminal.output.screen_reader import UNWRAPPED_COLUMNS

        return UNWRAPPED_COLUMNS

    def _print(self, text: str) -> None:
        if self._theme.words:
            from ikigai.terminal.output.screen_reader import wrap_lines

            text = wrap_lines(text, self._tty.size()[0])
        self._frames.print(text)
