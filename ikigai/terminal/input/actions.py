"""What keys make the program do: in the input, at a question, and by whoever the screen was made for."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from ikigai.terminal.input.input_line import Input
from ikigai.terminal.keyboard import LONGEST_PASTE
from ikigai.terminal.output.application import Stage
from ikigai.terminal.output.conversation import HINTED, Showing
from ikigai.terminal.output.dialog import Dialogs

LEAVE = HINTED
"""Seconds in which Ctrl+C has to be pressed again to leave: as long as that is told."""

On = Callable[..., Any]
"""Binds what follows it to keys, while no search is under way, or while one is."""


class FullScreenPrograms(Protocol):
    """Hand the terminal to the editor, the pager or the history browser."""

    def edit(self) -> None: ...
    def unfold(self, behind: "Actions") -> None: ...
    def browse(self, behind: "Actions", rewinding: bool) -> None: ...


class Actions:
    """`submit`, `steer`, `interrupt`, `leave`, `cycle` and `go` are those that `Screen` was given.

    `steer` sends a message into the turn under way, `cycle` goes to the next approval mode, `go` to a relative of the
    agent: "up", "down", "left" or "right". `queued` gives the newest queued message back, "" if there is none.
    `lending` is made with the first use.
    """

    def __init__(
        self,
        shown: Showing,
        input: Input,
        dialogs: Dialogs,
        stage: Stage,
        lending: Callable[[], FullScreenPrograms],
        *,
        submit: Callable[[str], object],
        steer: Callable[[str], object],
        interrupt: Callable[[], object],
        leave: Callable[[], object],
        cycle: Callable[[], object],
        go: Callable[[str], object],
        queued: Callable[[], str],
    ) -> None:
        self._shown, self._input, self._dialogs, self._stage, self._lending = shown, input, dialogs, stage, lending
        self.submit, self.steer, self.interrupt, self.leave = submit, steer, interrupt, leave
        self.cycle, self.go, self._queued = cycle, go, queued
        self._asked_to_leave = 0.0

    @property
    def busy(self) -> bool:
        """Whether something is under way that can be stopped from here."""
        return self._shown.busy

    def ask_to_leave(self) -> bool:
        """Say that the same key again leaves; True if it has been pressed a moment ago."""
        now = time.monotonic()
        if now - self._asked_to_leave < LEAVE:
            return True
        self._asked_to_leave = now
        self._shown.hint("Ctrl+C again leaves")
        return False

    def redraw(self) -> None:
        self._stage.frames.redraw()

    def suspend(self) -> None:
        self._stage.suspend()

    # ── a question ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def asked(self) -> bool:
        """Whether a question waits for an answer."""
        return self._dialogs.current is not None

    def pressed(self, key: str) -> bool:
        """Whether the key answered the question."""
        return self._dialogs.pressed(key, self._input.buffer.text)

    def said(self, words: str) -> bool:
        """Enter: whether the words were those of an answer."""
        if not self._dialogs.wording:
            return False
        self._dialogs.said(words)
        return True

    def back(self) -> None:
        """Esc at a question."""
        self._dialogs.back()

    # ── the input ────────────────────────────────────────────────────────────────────────────────────────────────

    def take_back(self) -> bool:
        """Put the newest queued message into the input; False if there is none."""
        text = self._queued()
        if text:
            self._input.put(text)
        return bool(text)

    def pasted(self, text: str) -> str:
        """What stands in the input for a pasted text."""
        if self._stage.keyboard.parser.dropped:
            told = f"The paste is longer than {LONGEST_PASTE >> 20} million characters. The rest was left out."
            self._shown.notice(told)
        return self._input.pastes.collapsed(text)

    def offered(self) -> None:
        """What can complete the input is gone through for the first time."""
        state = self._input.buffer.complete_state
        if self._shown.bare and state and len(state.completions) > 1:
            from ikigai.terminal.output import screen_reader as words  # most never need it

            self._shown.print_text(words.menu(state.completions))

    @property
    def finding(self) -> bool:
        """Whether something is being looked for that was sent before."""
        return self._input.finding

    def find(self) -> None:
        """Begin to look for it."""
        self._stage.inserting()
        self._input.find()

    def find_next(self, by: int) -> None:
        """Go to an older text, or a newer one."""
        self._input.find_next(by)

    def found(self, take: bool) -> None:
        """End that: take what was found, or leave the line as it was."""
        self._input.found(take)

    # ── others ───────────────────────────────────────────────────────────────────────────────────────────────────

    def edit(self) -> None:
        """Change the input in the user's editor."""
        self._lending().edit()

    def unfold(self) -> None:
        """Show all of the newest thought or result."""
        self._lending().unfold(self)

    def browse(self, rewinding: bool = False) -> None:
        """Open the history, maybe to choose where to go back to."""
        self._lending().browse(self, rewinding)
