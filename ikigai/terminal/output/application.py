"""Run the terminal: keys, signals, suspension, other programs on it, and its restoration at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import Layout

from ikigai.terminal import capabilities
from ikigai.terminal.key_lookup import KeyLookup
from ikigai.terminal.keyboard import Keyboard
from ikigai.terminal.output.frames import Frames
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.painter import Painter
from ikigai.terminal.render.styles import theme_styles
from ikigai.terminal.render.theme import Theme, color_depth
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.background_color import BackgroundColor
    from ikigai.terminal.screen_handler import ScreenHandler

ESCAPE_AFTER = 0.05
"""Seconds after which Esc is the key and not the start of a sequence."""
CLOSING_SECONDS = 1.0
"""Seconds that pending output and tasks may take when the screen closes."""
BLOCK_CURSOR = "\x1b[2 q"
BAR_CURSOR, UNDERLINE_CURSOR = "\x1b[6 q", "\x1b[4 q"
VI_CURSORS = {
    InputMode.INSERT: BAR_CURSOR,
    InputMode.INSERT_MULTIPLE: BAR_CURSOR,
    InputMode.REPLACE: UNDERLINE_CURSOR,
    InputMode.REPLACE_SINGLE: UNDERLINE_CURSOR,
}
"""The cursor's shape in the modes of vi: a bar where text goes in, a line where it is replaced, else a block."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class TerminalApp:
    """A runner of prompt_toolkit's application over a Painter.

    `handler` gets INT, TERM, HUP and QUIT; a terminal that goes away is a HUP. `last_words` is awaited when the screen
    closes, for CLOSING_SECONDS at most. With `vi` its keys edit, instead of Emacs's.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        area: LiveArea,
        layout: Layout,
        handler: ScreenHandler,
        last_words: Callable[[], Coroutine[Any, Any, None]],
        vi: bool = False,
    ) -> None:
        self.keyboard = Keyboard(tty.take_early())
        self._tty = tty
        self._handler, self._last_words = handler, last_words
        self._keys = KeyLookup(vi)  # in the place of the bindings that the application has loaded
        bare = tty.dumb or theme.words
        painter = _bare_painter() if bare else Painter
        painter_theme = Theme(plain=True) if bare else theme
        self._painter = painter(tty, painter_theme, area, lambda: self.frames.resizing(), _reflows(os.environ))
        self._app: Application[None] = Application(
            layout=layout,
            include_default_pygments_style=False,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            input=self.keyboard,
            output=self._painter.output,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
        )
        if vi:
            area.normal = lambda: self._app.vi_state.input_mode is InputMode.NAVIGATION
            if not bare and capabilities.swallows_osc(os.environ):
                self._painter.cursor = lambda: VI_CURSORS.get(self._app.vi_state.input_mode, BLOCK_CURSOR)
        self._app.renderer = self._painter
        self._app.key_processor = KeyProcessor(self._keys)
        self._app.key_processor.after_key_press += lambda _: self._handler.draft_changed(False)
        self._app.ttimeoutlen = ESCAPE_AFTER
        self._tasks: set[asyncio.Task[None]] = set()
        self._unstopped: asyncio.TimerHandle | None = None
        self._suspended = False  # the terminal was given up to stop
        self.frames = Frames(tty, area, self._painter, self._app)
        self._theme = theme
        self._background: BackgroundColor | None = None
        self._ahead: list[KeyPress] = []  # typed before the terminal was given up, and not processed yet
        self._typed_meanwhile = b""  # what another program has read that was meant for the prompt

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_bug)

        def visible(_: object) -> None:
            self._app.after_render -= visible
            loop.add_signal_handler(signal.SIGWINCH, self.frames.resizing)
            if self._theme.asks:
                self._query_background()
            self.start(begin())

        self._app.after_render += visible
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, self._on_signal_number, number)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        loop.add_signal_handler(signal.SIGCONT, self._resume)
        self._tty.hand_over()
        store_typeahead(self.keyboard, self.keyboard.typed_ahead(self._tty.read_waiting()))
        try:
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        except EOFError:
            self._tty.gone = True
            self._handler.signalled(signal.SIGHUP)
        finally:
            await self._leave(loop)

    def _query_background(self) -> None:
        from ikigai.terminal.background_color import BackgroundColor

        self._background = BackgroundColor(self._tty, self.keyboard, self._theme, os.environ, self._app.invalidate)

    def apply_theme(self, name: str, own: Mapping[str, Mapping[str, str]]) -> None:
        """Use this theme from now on: one of `own`, another one, or "auto", which fits the background."""
        from ikigai.terminal.render import colors

        if name == "auto":
            name = (self._background.kind if self._background else "") or colors.guess_background(os.environ)
        styles = colors.named_styles(name, own, color_depth(os.environ)) if name else theme_styles(0)
        self._theme.apply_styles(styles)
        self._app.invalidate()

    async def wait_for_theme(self) -> None:
        """Wait, for ANSWER_WAIT seconds at most, until the theme for the terminal's background is known."""
        if self._background:
            await self._background.wait_until_known()

    async def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for number in (*ENDING_SIGNALS, signal.SIGTSTP, signal.SIGCONT):
                loop.remove_signal_handler(number)
            signal.signal(signal.SIGINT, lambda *_: None)  # else one more Ctrl+C would cut off what closing says
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await self._last_words()
                    await asyncio.gather(*self._tasks, return_exceptions=True)
            self._painter.erase()
            self._settle()
        finally:
            self._tty.restore()
            loop.set_exception_handler(None)

    def close(self, error: BaseException | None = None) -> None:
        """End `run`, which raises `error` if there is one."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error) if error else self._app.exit()

    def bind(self, keys: KeyBindings) -> None:
        """Bind `keys` in the place of all before."""
        self._keys.bind(keys)

    def inserting(self) -> None:
        """Enter vi's insert mode: the next keys are text."""
        self._app.vi_state.input_mode = InputMode.INSERT

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task while the screen is there; an exception in it ends the screen."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def press(self, presses: list[KeyPress]) -> None:
        """Process keys that another reader has read."""
        self._app.key_processor.feed_multiple(presses)
        self._app.key_processor.process_keys()

    def type_meanwhile(self, data: bytes) -> None:
        """Process bytes that another program has read once it has given the terminal back, before those in there."""
        self._typed_meanwhile += data

    def drop_keys(self, drops: bool) -> None:
        """Drop what was typed and not processed yet, and all until this is called with False."""
        if drops != self.keyboard.drops:
            self._app.key_processor.empty_queue()
            self.keyboard.drop(drops)

    # ── giving the terminal to others ────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def away(self, takes_keys: bool = False) -> Iterator[None]:
        """Give the terminal to another program as it was before ours, or to a guest that takes keys from `keyboard`."""
        self._give_up(takes_keys)
        self._press_ahead()  # an editor is to get them with the input
        self.keyboard.has_guest = takes_keys
        try:
            with self.keyboard.detach():
                yield
        finally:
            self.keyboard.has_guest = False
            self._take_again(waited=not takes_keys)

    def suspend(self) -> None:
        """Stop, with all of our process group, until the shell continues it."""
        away, guest = "away" in self._painter.holds, self.frames.guest
        if away and not (guest and guest.give_up()):  # another program has it, and is being suspended with us
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        loop = asyncio.get_running_loop()
        if not away:
            self._give_up()
            self._suspended = True
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(0, signal.SIGTSTP)
        self._unstopped = loop.call_later(0.1, self._resume)  # where there is no shell nothing stops

    def _resume(self) -> None:
        if self._unstopped:  # once: what has been drawn since would be left behind
            self._unstopped.cancel()
            self._unstopped = None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self.suspend)
        if self.frames.guest:
            self.frames.guest.take_again()
        elif self._suspended or "away" not in self._painter.holds:  # else another program continues with it
            self._take_again()
        self._suspended = False
        if self._tty.gone:  # it went away while we were stopped
            self._handler.signalled(signal.SIGHUP)

    def _settle(self) -> None:
        """Let no answer of the terminal arrive in the next program; keep the keys that come with it."""
        if self._background:
            self._ahead += self._background.settle()

    def _give_up(self, takes_keys: bool = False) -> None:
        self._painter.erase()
        if not takes_keys:
            self._settle()
        self._painter.holds.add("away")
        self._tty.restore()

    def _take_again(self, waited: bool = True) -> None:
        """Take the terminal again; `waited` if its text was typed while it was away."""
        self._tty.raw()
        if waited:
            data, self._typed_meanwhile = self._typed_meanwhile + self._tty.read_waiting(), b""
            self._ahead += self.keyboard.typed_ahead(data)
        self._painter.holds.discard("away")
        self._painter.reset()
        self._painter.settle()
        self._app.invalidate()
        self._press_ahead()

    def _press_ahead(self) -> None:
        ahead, self._ahead = self._ahead, []
        if ahead:
            self.press(ahead)

    # ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_signal_number(self, number: int) -> None:
        if not (number == signal.SIGINT and "away" in self._painter.holds):  # that one was meant for the editor
            self._handler.signalled(number)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.close(error)

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Close the screen after a bug in a callback. Exceptions of tasks are left to their owners."""
        error = context.get("exception")
        if error and not context.keys() & {"task", "future"}:
            self.close(error)
        else:
            loop.default_exception_handler(context)


def _bare_painter() -> type[Painter]:
    from ikigai.terminal.output.dumb_painter import DumbPainter

    return DumbPainter


def _reflows(environ: os._Environ[str]) -> bool:
    """Return True if this terminal rewraps its rows when it becomes narrower: most do."""
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(("linux", "screen", "vt"))
