"""Ask the terminal for its background behind the first prompt, and apply the theme that fits.

Only the first drawing of the history waits for the answer, and not for long. A caller that gives the terminal away lets
the answer arrive first: it would be typed into the next program.
"""

import asyncio
import select
import time
from collections.abc import Callable, Mapping

from prompt_toolkit.key_binding import KeyPress

from ikigai.terminal.keyboard import Keyboard
from ikigai.terminal.render import colors
from ikigai.terminal.render.theme import Theme, color_depth
from ikigai.terminal.tty import Tty

COLOR_QUERY = "\x1b]11;?\x1b\\\x1b[c"
"""The queries for the background (OSC 11) and, last, the attributes (DA1), which every terminal answers."""
ANSWER_WAIT = 0.1
"""Seconds that the history waits for the answer: opening the database takes longer."""
MAX_ANSWER_SECONDS, MAX_HANDOVER_SECONDS = 1.0, 0.2
"""Seconds after which no answer is expected any more, and seconds to wait for one before the terminal is given away."""


class BackgroundColor:
    """The styles of `theme` that fit the terminal's background; `on_change` is called when they have changed."""

    def __init__(
        self, tty: Tty, keyboard: Keyboard, theme: Theme, environ: Mapping[str, str], on_change: Callable[[], object]
    ):
        self._keyboard, self._theme, self._environ, self._on_change = keyboard, theme, environ, on_change
        self.kind = ""  # "light" or "dark", once it is known
        self._known = asyncio.Event()
        self._answered = False
        self._asked = time.monotonic()
        self._loop = asyncio.get_running_loop()
        keyboard.parser.expect(self._on_answer)
        tty.write(COLOR_QUERY)
        self._loop.call_later(ANSWER_WAIT, self._stop_waiting)

    async def wait_until_known(self) -> None:
        """Wait until there is an answer, or waiting takes too long."""
        await self._known.wait()

    def settle(self) -> list[KeyPress]:
        """Read an answer that is on its way, since the terminal is about to be given away; return keys between it."""
        keys: list[KeyPress] = []
        until = time.monotonic() + MAX_HANDOVER_SECONDS
        if time.monotonic() > self._asked + MAX_ANSWER_SECONDS:
            return keys
        while not self._answered and (left := until - time.monotonic()) > 0:
            if not select.select([self._keyboard.fileno()], [], [], left)[0]:
                break
            keys += self._keyboard.read_keys()
            if self._keyboard.closed:
                break
        self._answered = True
        return keys

    def _on_answer(self, answer: str) -> None:
        self._answered = self._answered or answer.startswith("\x1b[?")
        self._loop.call_soon(self._take_answer, answer)

    def _take_answer(self, answer: str) -> None:
        if kind := colors.background_kind(answer):
            self._apply_styles(kind)
        elif answer.startswith("\x1b[?"):
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        """Stop waiting for an answer: the environment decides, or the colors stay those that suit any background."""
        if not self._known.is_set() and (kind := colors.guess_background(self._environ)):
            self._apply_styles(kind)
        self._known.set()

    def _apply_styles(self, kind: str) -> None:
        self.kind = kind
        self._known.set()
        self._theme.apply_styles(colors.named_styles(kind, {}, color_depth(self._environ)))
        self._on_change()
