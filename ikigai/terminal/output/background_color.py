"""The terminal's background, as it says itself: asked for behind the first prompt, worn as a theme when it answers.

Nothing waits for that but the first drawing of the history, and not for long. Whoever gives the terminal away meanwhile
lets the answer arrive first: it would be typed into what comes next.
"""

import asyncio
import os
import re
import select
import time
from collections.abc import Callable, Mapping

from ikigai.terminal.keyboard import Parser
from ikigai.terminal.render import colors as colours
from ikigai.terminal.render.theme import Theme, depth
from ikigai.terminal.tty import Tty

QUESTION = "\x1b]11;?\x1b\\\x1b[c"
"""What is the background (OSC 11)? What are you (DA1)? Every terminal answers that, and nothing comes behind it."""
WORTH = 0.1
"""Seconds that the history waits for it: opening the database takes longer."""
OWED, LENT = 1.0, 0.2
"""Seconds after which no answer is expected any more, and that giving the terminal away waits for one."""


class Background:
    """Dresses `theme` as fits the terminal's background; `worn` is called when things look otherwise."""

    def __init__(self, tty: Tty, parser: Parser, theme: Theme, environ: Mapping[str, str], worn: Callable[[], object]):
        self._tty, self._theme, self._environ, self._worn = tty, theme, environ, worn
        self._known = asyncio.Event()
        self._answered = False
        self._asked = time.monotonic()
        self._loop = asyncio.get_running_loop()
        parser.expect(lambda answer: self._loop.call_soon(self._told, answer))
        tty.write(QUESTION)
        self._loop.call_later(WORTH, self._enough)

    async def known(self) -> None:
        """Wait until there is an answer, or it is not worth waiting for one."""
        await self._known.wait()

    def settle(self) -> None:
        """The terminal is about to be given away: an answer that is on its way is taken in, and goes nowhere."""
        said = b""
        until = time.monotonic() + LENT
        if self._answered or time.monotonic() > self._asked + OWED:
            return
        while not re.search(rb"\x1b\[\?[\d;]*c", said) and (left := until - time.monotonic()) > 0:
            if not select.select([self._tty.input], [], [], left)[0]:
                break
            try:
                read = os.read(self._tty.input, 1024)
            except OSError:
                break
            if not read:
                break
            said += read
        self._answered = True

    def _told(self, answer: str) -> None:
        if kind := colours.kind(answer):
            self._wear(kind)
        elif answer.startswith("\x1b[?"):
            self._answered = True
            self._enough()

    def _enough(self) -> None:
        """Nobody says: then the environment does, or the colours stay those that suit any background."""
        if not self._known.is_set() and (kind := colours.guessed(self._environ)):
            self._wear(kind)
        self._known.set()

    def _wear(self, kind: str) -> None:
        self._known.set()
        self._theme.wear(colours.named(kind, {}, depth(self._environ)))
        self._worn()
