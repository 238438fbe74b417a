"""This module asks the terminal for its background behind the first prompt and applies the theme that fits.

Only the first drawing of the history waits for the answer, and not for long. A caller that gives the terminal away lets
the answer arrive first: it would be typed into the next program.
"""

import asyncio
import os
import re
import select
import time
from collections.abc import Callable, Mapping

from ikigai.terminal.keyboard import KeyParser
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
        self, tty: Tty, parser: KeyParser, theme: Theme, environ: Mapping[str, str], on_change: Callable[[], object]
    ):
        self._tty, self._theme, self._environ, self._on_change = tty, theme, environ, on_change
        self.kind = ""  # "light" or "dark", once it is known
        self._known = asyncio.Event()
        self._answered = False
        self._asked = time.monotonic()
        self._loop = asyncio.get_running_loop()
        parser.expect(lambda answer: self._loop.call_soon(self._take_answer, answer))
        tty.write(COLOR_QUERY)
        self._loop.call_later(ANSWER_WAIT, self._stop_waiting)

    async def known(self) -> None:
        """Wait until there is an answer, or waiting takes too long."""
        await self._known.wait()

    def settle(self) -> None:
        """Read and drop an answer that is on its way: the terminal is about to be given away."""
        answer = b""
        until = time.monotonic() + MAX_HANDOVER_SECONDS
        if self._answered or time.monotonic() > self._asked + MAX_ANSWER_SECONDS:
            return
        while not re.search(rb"\x1b\[\?[\d;]*c", answer) and (left := until - time.monotonic()) > 0:
            if not select.select([self._tty.input], [], [], left)[0]:
                break
            try:
                read = os.read(self._tty.input, 1024)
            except OSError:
                break
            if not read:
                break
            answer += read
        self._answered = True

    def _take_answer(self, answer: str) -> None:
        if kind := colors.background_kind(answer):
            self._apply_styles(kind)
        elif answer.startswith("\x1b[?"):
            self._answered = True
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
