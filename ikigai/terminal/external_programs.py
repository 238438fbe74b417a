"""The terminal in other hands: the user's editor and pager, and the history browser, one at a time."""

from collections.abc import Callable, Coroutine
from typing import Any

from ikigai.core.errors import Refused
from ikigai.core.sanitize import clean
from ikigai.terminal.browser.source import Source
from ikigai.terminal.input.actions import Actions
from ikigai.terminal.input.input_line import Input
from ikigai.terminal.output.application import Stage
from ikigai.terminal.output.conversation import Showing
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty


class Lending:
    """Loaded when first somebody wants it. `source` gives the history to look through, None while there is none."""

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        stage: Stage,
        input: Input,
        shown: Showing,
        source: Callable[[], Source | None],
    ) -> None:
        self._tty, self._theme, self._stage = tty, theme, stage
        self._input, self._shown, self._source = input, shown, source
        self._lent = False  # another program has the terminal

    def edit(self) -> None:
        """Change the input in the user's editor."""
        self._lend(self._edited)

    def unfold(self, behind: Actions) -> None:
        """Show all of the newest thought or result in the history, or in the pager while it is not stored."""
        text, place = self._shown.folded
        if place and (source := self._source()):
            self._lend(lambda: self._browsed(source, behind, place=place))
        elif text:
            self._lend(lambda: self._paged(text))
        else:
            self._shown.hint("There is nothing to open")

    def browse(self, behind: Actions, rewinding: bool) -> None:
        """Open the history, maybe to choose where to go back to."""
        if self._shown.bare:
            who = "A screen reader" if self._theme.words else "This terminal"
            self._shown.notice(f"{who} cannot show the browser. `ikigai history list` prints the history.")
        elif source := self._source():
            self._lend(lambda: self._browsed(source, behind, rewinding))
        else:
            self._shown.hint("The conversation is being opened")

    def _lend(self, use: Callable[[], Coroutine[Any, Any, None]]) -> None:
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
            self._shown.notice(str(refusal))

    async def _browsed(self, source: Source, behind: Actions, rewinding: bool = False, place: int = 0) -> None:
        from ikigai.terminal.browser.browser import Browser

        browser = Browser(self._tty, self._theme, self._stage, behind, source, rewinding, place)
        if line := await browser.run():
            behind.submit(line)
        self._stage.press(browser.ahead)

    async def _edited(self) -> None:
        from ikigai.terminal.editor import edit

        try:
            with self._stage.away():
                text = await edit(self._input.text)
        except Refused as refusal:
            self._shown.notice(str(refusal))
        else:
            self._input.put(text)
