"""The terminal while the program runs: keys, signals, suspension, who else has it, all put back at the end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding import KeyBindings, KeyPress, defaults
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import Layout

from ikigai.terminal import capabilities
from ikigai.terminal.keyboard import Keyboard
from ikigai.terminal.output.frames import Frames
from ikigai.terminal.output.live_area import Area
from ikigai.terminal.output.painter import Painter
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.output.background_color import Background

ESCAPE_AFTER = 0.05
"""Seconds after which Esc is the key and not the start of a sequence."""
LAST_WORDS = 1.0
"""Seconds that what is under way may take when the screen closes."""
BLOCK = "\x1b[2 q"
BAR, LINE = "\x1b[6 q", "\x1b[4 q"
CURSORS = {
    InputMode.INSERT: BAR,
    InputMode.INSERT_MULTIPLE: BAR,
    InputMode.REPLACE: LINE,
    InputMode.REPLACE_SINGLE: LINE,
}
"""The cursor's shape in the modes of vi, as its users know it: a bar where text goes in, a line where it is replaced,
else a block.
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Stage:
    """Runs prompt_toolkit's application over a Painter. `on_signal` takes INT, TERM, HUP and QUIT.

    The terminal that goes away is a HUP. `last_words` is awaited when the screen closes, for a moment. `vi`: its keys
    edit, instead of those of Emacs.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        area: Area,
        layout: Layout,
        on_signal: Callable[[int], object],
        last_words: Callable[[], Coroutine[Any, Any, None]],
        vi: bool = False,
    ) -> None:
        if not vi:  # hundreds of bindings that no key would reach
            defaults.load_vi_bindings = KeyBindings  # pyright: ignore[reportPrivateImportUsage]
        defaults.load_vi_search_bindings = KeyBindings  # pyright: ignore[reportPrivateImportUsage]
        self.keyboard = Keyboard(tty.taken_over())
        self._tty = tty
        self._on_signal, self._last_words = on_signal, last_words
        bare = tty.dumb or theme.words
        made = _bare_painter() if bare else Painter
        looks, resized = Theme(plain=True) if bare else theme, lambda: self.frames.resizing()
        self._painter = made(tty, looks, area, resized, _reflows(os.environ))
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
            if not bare and capabilities.strings(os.environ):
                self._painter.cursor = lambda: CURSORS.get(self._app.vi_state.input_mode, BLOCK)
        self._app.renderer = self._painter
        self._app.ttimeoutlen = ESCAPE_AFTER
        self._tasks: set[asyncio.Task[None]] = set()
        self._unstopped: asyncio.TimerHandle | None = None
        self._suspended = False  # the terminal was given up to stop
        self.frames = Frames(tty, area, self._painter, self._app)
        self._theme = theme
        self._background: Background | None = None

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)

        def visible(_: object) -> None:
            self._app.after_render -= visible
            loop.add_signal_handler(signal.SIGWINCH, self.frames.resizing)
            if self._theme.asks:
                self._ask()
            self.start(begin())

        self._app.after_render += visible
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        loop.add_signal_handler(signal.SIGCONT, self._resume)
        try:
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        except EOFError:
            self._tty.gone = True
            self._on_signal(signal.SIGHUP)
        finally:
            await self._leave(loop)

    def _ask(self) -> None:
        from ikigai.terminal.output.background_color import Background

        self._background = Background(self._tty, self.keyboard.parser, self._theme, os.environ, self._app.invalidate)

    async def dressed(self) -> None:
        """Wait, for a moment, until it is known what things look like on this terminal."""
        if self._background:
            await self._background.known()

    async def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for number in (*SIGNALS, signal.SIGTSTP, signal.SIGCONT):
                loop.remove_signal_handler(number)
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
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

    def bind(self, keys: KeyBindings, after: Callable[[], None]) -> None:
        """What keys do; `after` is called whenever one has been pressed."""
        self._app.key_bindings = keys
        self._app.key_processor.after_key_press += lambda _: after()

    def inserting(self) -> None:
        """What is typed now is text: vi leaves its other modes."""
        self._app.vi_state.input_mode = InputMode.INSERT

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it while the screen is there; what it raises ends the screen."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def press(self, presses: list[KeyPress]) -> None:
        """Take keys that somebody else has read."""
        self._app.key_processor.feed_multiple(presses)
        self._app.key_processor.process_keys()

    # ── giving the terminal to others ────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def away(self, takes_keys: bool = False) -> Iterator[None]:
        """Another program has the terminal, as it was before ours; or a guest, who takes keys from `keyboard`."""
        self._give_up(takes_keys)
        try:
            with self.keyboard.detach():
                yield
        finally:
            self._take_again()

    def suspend(self) -> None:
        """Stop, with everybody in our process group, until the shell says to go on."""
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
        elif self._suspended or "away" not in self._painter.holds:  # else another program goes on with it
            self._take_again()
        self._suspended = False
        if self._tty.gone:  # it went away while we were stopped
            self._on_signal(signal.SIGHUP)

    def _settle(self) -> None:
        if self._background:
            self._background.settle()

    def _give_up(self, takes_keys: bool = False) -> None:
        self._painter.erase()
        if not takes_keys:
            self._settle()
        self._painter.holds.add("away")
        self._tty.restore()

    def _take_again(self) -> None:
        self._tty.raw()
        self._painter.holds.discard("away")
        self._painter.reset()
        self._painter.settle()
        self._app.invalidate()

    # ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _signalled(self, number: int) -> None:
        if not (number == signal.SIGINT and "away" in self._painter.holds):  # that one was meant for the editor
            self._on_signal(number)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.close(error)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised: a bug in here. Tasks are their owners' business."""
        error = context.get("exception")
        if error and not context.keys() & {"task", "future"}:
            self.close(error)
        else:
            loop.default_exception_handler(context)


def _bare_painter() -> type[Painter]:
    from ikigai.terminal.output.dumb_painter import DumbPainter  # most never need it

    return DumbPainter


def _reflows(environ: os._Environ[str]) -> bool:
    """Whether this terminal rewraps its rows when it becomes narrower: most do."""
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(("linux", "screen", "vt"))
