"""This module draws frames on the terminal's alternate screen: rows that have changed, in one synchronised update."""

from collections.abc import Sequence

from ikigai.terminal.tty import Tty

ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
"""The alternate screen; no cursor, no wrapping, pastes marked."""
LEAVE_SCREEN = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


class AlternateScreen:
    """The alternate screen of `tty`. It is `up` from `enter` to `leave`."""

    def __init__(self, tty: Tty) -> None:
        self._tty = tty
        self._shown: Sequence[str] = ()  # rows on the screen
        self.up = False

    def enter(self) -> None:
        """Enter the screen, with keys one by one."""
        self._tty.raw()
        self.up, self._shown = True, ()
        self._tty.write(ENTER_SCREEN)

    def leave(self) -> None:
        """Restore the terminal, if the screen is up."""
        if self.up:
            self.up = False
            self._tty.write(LEAVE_SCREEN)
            self._tty.restore()

    def repaint(self) -> None:
        """Draw all rows with the next frame."""
        self._shown = ()

    def paint(self, frame: Sequence[str]) -> None:
        """Draw the rows of the frame that are not on the screen yet."""
        if not self.up:
            return
        out = [
            f"\x1b[{number + 1};1H\x1b[0m\x1b[K{row}"
            for number, row in enumerate(frame)
            if number >= len(self._shown) or self._shown[number] != row
        ]
        self._shown = frame
        if out:
            self._tty.write(BEGIN + "".join(out) + END)
