"""Actions of keys in the input and at a question. Others go to `handler`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ikigai.terminal.input.input_line import InputLine
from ikigai.terminal.keys.parser import MAX_PASTE_BYTES
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.output.conversation import ConversationView
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.output.status_view import HINT_SECONDS, StatusView

if TYPE_CHECKING:
    from ikigai.terminal.screen_handler import ScreenHandler

LEAVE_SECONDS = HINT_SECONDS
"""Seconds in which Ctrl+C has to be pressed again to leave: the hint stays as long."""

On = Callable[..., Any]
"""A decorator that binds a function to keys, while no search is under way, or while one is."""


class FullScreenPrograms(Protocol):
    """The programs that get the terminal: the editor, the pager and the history browser."""

    def edit(self) -> None: ...
    def unfold(self, prompt: InputActions) -> None: ...
    def browse(self, prompt: InputActions, rewinding: bool) -> None: ...


class InputActions:
    """The actions of the screen. `handler` is the program behind it; `external_programs` are made at the first use."""

    def __init__(
        self,
        view: ConversationView,
        status: StatusView,
        input: InputLine,
        dialogs: Dialogs,
        terminal_app: TerminalApp,
        external_programs: Callable[[], FullScreenPrograms],
        handler: ScreenHandler,
    ) -> None:
        self._view, self._status, self._input, self._dialogs = view, status, input, dialogs
        self._terminal_app, self._external_programs = terminal_app, external_programs
        self.handler = handler
        self._asked_to_leave = 0.0
        self._printed_before_keys = -1  # number of things printed when the list of keys was asked for

    @property
    def busy(self) -> bool:
        """True if a turn or command is under way that can be stopped from here."""
        return self._view.busy

    def retry(self) -> None:
        """Try a failed request again: now if it waits for that, and after the user has stopped the waiting."""
        if self._view.awaits_attempt:
            self.handler.retry_now()
        elif self._view.can_retry and not self.busy:
            self.handler.submit("/retry")

    def ask_to_leave(self, key: str) -> bool:
        """Tell the user that `key` again leaves, and which work still runs; return True if this was told just now."""
        now = time.monotonic()
        if now - self._asked_to_leave < LEAVE_SECONDS:
            return True
        self._asked_to_leave = now
        at_work = self.handler.at_work()
        them = "them" if "," in at_work or " and " in at_work else "it"
        self._status.show_hint(f"{at_work}. {key} again stops {them} and leaves." if at_work else f"{key} again leaves")
        return False

    def show_keys(self) -> None:
        """Print the list of keys, unless it is the last thing that was printed."""
        if self._view.printed - self._printed_before_keys in (0, 1):
            self._status.show_hint("The keys are listed above")
            return
        self._printed_before_keys = self._view.printed
        self.handler.submit("/keys")

    def redraw(self) -> None:
        self._terminal_app.frames.redraw()

    def suspend(self) -> None:
        self._terminal_app.suspend()

    # ── a question ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def asked(self) -> bool:
        """True if a question waits for an answer."""
        return self._dialogs.current is not None

    def pressed(self, key: str) -> bool:
        """Handle a key at a question; return True if it answered."""
        return self._dialogs.pressed(key, self._input.buffer.text)

    def answer_with(self, words: str) -> bool:
        """Handle Enter at a question; return True if `words` are part of an answer."""
        if not self._dialogs.wording:
            return False
        self._dialogs.answer_with(words)
        return True

    def back(self) -> None:
        """Handle Esc at a question."""
        self._dialogs.back()

    # ── the input ────────────────────────────────────────────────────────────────────────────────────────────────

    def take_back(self) -> bool:
        """Put the newest queued message into the input; return False if the queue is empty."""
        text = self.handler.take_back()
        if text:
            self._input.put(text)
        return bool(text)

    def pasted(self, text: str) -> str:
        """Return the text that stands in the input for a pasted text."""
        if self._terminal_app.keyboard.parser.dropped:
            message = f"The paste is longer than {MAX_PASTE_BYTES >> 20} million characters. The rest was cut off."
            self._view.notice(message)
        return self._input.pastes.collapsed(text)

    def offered(self) -> None:
        """Print the completions in a bare terminal, when the user first goes to them."""
        state = self._input.buffer.complete_state
        if self._view.bare and state and len(state.completions) > 1:
            from ikigai.terminal.output import screen_reader

            self._view.print_text(screen_reader.speak_menu(state.completions))

    def entered(self) -> None:
        """Show in a moment that the text in the input was sent."""
        self._terminal_app.frames.after_entry()

    @property
    def finding(self) -> bool:
        """True while the user searches prompts that were sent before."""
        return self._input.finding

    def find(self) -> None:
        """Begin the search of prompts."""
        self._terminal_app.inserting()
        self._input.find()

    def find_next(self, by: int) -> None:
        """Go to an older prompt, or a newer one."""
        self._input.find_next(by)

    def found(self, take: bool) -> None:
        """End the search: take the chosen prompt, or restore the line."""
        self._input.found(take)

    # ── others ───────────────────────────────────────────────────────────────────────────────────────────────────

    def edit(self) -> None:
        """Change the input in the user's editor."""
        self._external_programs().edit()

    def unfold(self) -> None:
        """Show all of the newest thought or result."""
        self._external_programs().unfold(self)

    def browse(self, rewinding: bool = False) -> None:
        """Open the history; with `rewinding` to choose the turn to go back to."""
        self._external_programs().browse(self, rewinding)
