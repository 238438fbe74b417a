"""This module reads the keyboard for a guest of the TerminalApp: a list or the history browser."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.terminal.output.application import ESCAPE_AFTER, TerminalApp
from ikigai.terminal.output.frames import FullScreenGuest

MAX_TYPED_CHARACTERS = 200


class KeyReader(FullScreenGuest, Protocol):
    """The guest whose keys are read."""

    @property
    def has_left(self) -> bool: ...

    def press(self, press: KeyPress) -> None:
        """Handle a key."""
        ...

    def pressed(self) -> None:
        """Draw what the keys changed that came together."""
        ...

    def quit(self) -> None:
        """Leave: there will be no more keys."""
        ...


class GuestKeys:
    """Gives a guest its keys one by one. Keys with Alt mean nothing to it.

    `ahead` holds the keys after the one with which the guest left: they belong to the input.
    """

    def __init__(self, terminal_app: TerminalApp, guest: KeyReader) -> None:
        self._terminal_app, self._keyboard, self._guest = terminal_app, terminal_app.keyboard, guest
        self._flush: asyncio.TimerHandle | None = None
        self._alt = False  # Alt+key is on its way
        self.ahead: list[KeyPress] = []

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Give the guest the screen and the keys inside, and the TerminalApp both again behind."""
        with self._terminal_app.away(takes_keys=True):
            self._terminal_app.frames.guest = self._guest
            try:
                self._guest.take_again()
                with self._keyboard.attach(self.read):
                    self.flush_later()
                    yield
            finally:
                self._terminal_app.frames.guest = None
                self.close()
                self._guest.give_up()

    def read(self) -> None:
        """Handle the keys that have come."""
        self._handle(self._keyboard.read_keys())
        if self._keyboard.closed:
            self._guest.quit()
        self.flush_later()

    def flush_later(self) -> None:
        """Take an Esc that nothing follows as this key; it may have come with the key that opened the guest."""
        self.close()
        loop = asyncio.get_running_loop()
        self._flush = loop.call_later(ESCAPE_AFTER, lambda: self._handle(self._keyboard.take_held()))

    def close(self) -> None:
        if self._flush:
            self._flush.cancel()

    def _handle(self, presses: Sequence[KeyPress]) -> None:
        for number, press in enumerate(presses):
            if self._guest.has_left:
                self.ahead += presses[number:]
                return
            if press.key == Keys.Escape:
                self._alt = True
            elif self._alt:
                self._alt = False
            else:
                self._guest.press(press)
        if presses:
            self._guest.pressed()


def edit_typed(text: str, press: KeyPress) -> str | None:
    """Return a text that is typed in one line after a key that edits it, None for another key."""
    match press.key:
        case Keys.BracketedPaste:
            text += " ".join(press.data.split())
        case Keys.ControlH:
            text = text[:-1]
        case Keys.ControlU:
            text = ""
        case Keys.ControlW:
            text = text.rstrip().rpartition(" ")[0]
        case Keys():
            return None
        case key:
            text += key
    return text[:MAX_TYPED_CHARACTERS]
