"""Hand the terminal to the user's editor, the pager or the history browser, one at a time."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean
from ikigai.terminal.browsable_history import HistoryPages
from ikigai.terminal.input.input_actions import InputActions
from ikigai.terminal.input.input_line import InputLine
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.output.conversation import ConversationView
from ikigai.terminal.output.status_view import StatusView
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.screen_handler import ScreenHandler
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.browser.picker_source import PickerSource


class ExternalPrograms:
    """The programs that take the terminal from the screen; loaded at their first use."""

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        terminal_app: TerminalApp,
        input: InputLine,
        view: ConversationView,
        status: StatusView,
        handler: ScreenHandler,
    ) -> None:
        self._tty, self._theme, self._terminal_app = tty, theme, terminal_app
        self._input, self._view, self._status, self._handler = input, view, status, handler
        self._lent = False  # another program has the terminal

    def edit(self) -> None:
        """Change the input in the user's editor."""
        self._lend(self._edit)

    def unfold(self, prompt: InputActions) -> None:
        """Show all of the newest thought or result in the history, or in the pager while it is not stored."""
        text, place = self._view.folded
        if place and (source := self._handler.history()):
            self._lend(lambda: self._browse(source, prompt, place=place))
        elif text:
            self._lend(lambda: self._page(text))
        else:
            self._status.show_hint("There is nothing to open")

    def browse(self, prompt: InputActions, rewinding: bool) -> None:
        """Open the history; with `rewinding` to choose the turn to go back to."""
        if self._view.bare:
            what = "A screen reader" if self._theme.words else "This terminal"
            self._view.notice(f"{what} cannot show the browser. `ikigai history list` prints the history.")
        elif source := self._handler.history():
            self._lend(lambda: self._browse(source, prompt, rewinding))
        else:
            self._status.show_hint("The conversation is being opened")

    async def run(self, program: Sequence[str], hides_typing: bool = False) -> int | None:
        """Run a program on the terminal; return its exit code, or None if another one has the terminal.

        With `hides_typing` the keys are for the program, unechoed from before it starts, and those that it leaves are
        dropped; else they wait for the prompt.
        """
        if self._lent:
            self._status.show_hint("Another program has the terminal")
            return None
        self._lent = True
        try:
            await self._view.drawn()
            if hides_typing:
                with self._terminal_app.away():
                    self._tty.hide_typing()
                    self._terminal_app.drop_keys(False)
                    try:
                        return await _run_process(program)
                    finally:
                        self._tty.drop_waiting()  # it may be the rest of a paste
            with self._terminal_app.away():
                self._tty.hold_typing()
                code, keys = await _run_returning_keys(program)
                self._terminal_app.type_meanwhile(keys)
            return code
        finally:
            self._lent = False

    async def pick(self, source: "PickerSource", drops_keys: bool = False) -> str | None:
        """Let the user pick from a list; return the value, None if the user left or another program has the terminal.

        With `drops_keys` what was typed behind the choice is dropped. Raise Rejected on a terminal that shows no lists.
        """
        if self._view.bare:
            raise Rejected(f"This terminal cannot show the list: {source.title}.", "Type the name after the command.")
        if self._lent:
            return None
        from ikigai.terminal.browser.browser import Browser
        from ikigai.terminal.browser.picker_page import PickerPage

        self._lent, browser = True, Browser(self._tty, self._theme, self._terminal_app)
        try:
            value = await browser.run(PickerPage(browser, source))
            if not drops_keys:
                self._terminal_app.press(browser.ahead)
            await browser.finish_loading()  # behind the screen: the database may not answer
            return value
        finally:
            self._lent = False

    def _lend(self, program: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            try:
                await program()
            finally:
                self._lent = False

        if not self._lent:
            self._lent = True
            self._terminal_app.start(run())

    async def _page(self, text: str) -> None:
        from ikigai.terminal.pager import page_text

        rows = wrap(clean(text).strip("\n"), self._tty.size()[0])
        try:
            with self._terminal_app.away():
                await page_text("\n".join(rows) + "\n")
        except Rejected as refusal:
            self._view.notice(str(refusal))

    async def _browse(
        self, source: HistoryPages, prompt: InputActions, rewinding: bool = False, place: int = 0
    ) -> None:
        from ikigai.terminal.browser.browser import Browser
        from ikigai.terminal.browser.history_page import HistoryPage

        browser = Browser(self._tty, self._theme, self._terminal_app)
        if line := await browser.run(HistoryPage(browser, prompt, source, rewinding, place)):
            self._handler.submit(line)
        self._terminal_app.press(browser.ahead)

    async def _edit(self) -> None:
        from ikigai.terminal.editor import edit_text

        try:
            with self._terminal_app.away():
                text = await edit_text(self._input.text)
        except Rejected as refusal:
            self._view.notice(str(refusal))
        else:
            self._input.put(text)


async def _run_process(program: Sequence[str], *keys_fds: int) -> int:
    """Run a program to its end, which inherits these descriptors; return its exit code."""
    process = await asyncio.create_subprocess_exec(*program, pass_fds=keys_fds)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        raise


async def _run_returning_keys(program: Sequence[str]) -> tuple[int, bytes]:
    """Run a program that reads from the terminal, to its end; return its exit code, and the keys that it has read.

    It writes them to the descriptor that --keys-fd names.
    """
    keys_fd, write_fd = os.pipe()
    reading = asyncio.create_task(asyncio.to_thread(_read_all, keys_fd))  # a long paste is more than the pipe holds
    try:
        code = await _run_process((*program, "--keys-fd", str(write_fd)), write_fd)
    finally:
        os.close(write_fd)
    return code, await reading


def _read_all(descriptor: int) -> bytes:
    """Read to the end of a pipe, and close it."""
    with open(descriptor, "rb") as pipe:
        return pipe.read()
