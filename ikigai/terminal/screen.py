"""The screen: a prompt that is never away, the conversation above it, and what is under way in between."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, defaults

from ikigai.core.errors import Refused
from ikigai.core.events import StoredEvent
from ikigai.core.memory import Memory
from ikigai.core.reply import Delta, Waiting
from ikigai.core.transcript import Block, Rule, Shown, Speaker
from ikigai.terminal import prompt, render
from ikigai.terminal.area import Area
from ikigai.terminal.completion import Sources
from ikigai.terminal.dumb import DumbPainter
from ikigai.terminal.keyboard import LONGEST_PASTE, Keyboard
from ikigai.terminal.keys import bindings, offer, replace
from ikigai.terminal.live import LiveReply, Piece
from ikigai.terminal.painter import Painter
from ikigai.terminal.pastes import Pastes
from ikigai.terminal.scroll import Entry, Scroll
from ikigai.terminal.theme import Theme
from ikigai.terminal.tty import Tty

FRAME, STEP = 0.05, 0.1
"""Seconds between two frames while text streams in, and while only time goes by."""
LEAVE = 1.0
"""Seconds in which Ctrl+C has to be pressed again to leave."""
SETTLE = 0.3 if "TMUX" in os.environ else 0.1
"""Seconds without a further change until the terminal's size is believed: tmux tells of one every 250 ms at most."""
BIG = 2000
"""Characters of Markdown from which it is drawn in a thread."""
ESCAPE_AFTER = 0.05
"""Seconds after which Esc is the key and not the start of a sequence."""
# Hundreds of bindings that no key reaches as long as there is no vi mode.
defaults.load_vi_bindings = defaults.load_vi_search_bindings = KeyBindings  # pyright: ignore[reportPrivateImportUsage]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Screen:
    """A View over a terminal. Callbacks are called on the event loop and must not wait; text they get is as typed.

    `on_submit` takes what was sent, also while a turn is open, also before `begin` has got anywhere; `on_interrupt` a
    wish to stop the turn, `on_quit` to leave; `on_take_back` gives the newest queued message back, "" if there is none;
    `on_signal` takes INT, TERM, HUP or QUIT, HUP also when the terminal has gone. `sources` completes arguments.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        *,
        on_submit: Callable[[str], object],
        on_interrupt: Callable[[], object],
        on_quit: Callable[[], object],
        on_take_back: Callable[[], str],
        on_signal: Callable[[int], object],
        sources: Sources,
    ) -> None:
        self.submit, self.interrupt, self.leave = on_submit, on_interrupt, on_quit
        self._take_back, self._on_signal = on_take_back, on_signal
        self._tty, self._theme = tty, theme
        self._pastes = Pastes()
        self._prompts = prompt.Prompts(self._pastes)
        self._buffer = Buffer(history=self._prompts, on_text_insert=lambda buffer: offer(buffer, sources))
        self._area = Area(theme, self._buffer)
        painter = DumbPainter if tty.dumb else Painter
        self._painter = painter(tty, theme, self._area, self._resizing, _reflows(os.environ))
        self._scroll = Scroll(self._print, lambda: tty.size()[0])
        self._keyboard = Keyboard(tty.taken_over())
        self._app: Application[None] = Application(
            layout=prompt.layout(self._buffer, tty),
            include_default_pygments_style=False,
            key_bindings=bindings(self, self._buffer, self._pastes, sources),
            erase_when_done=True,
            terminal_size_polling_interval=None,
            input=self._keyboard,
            output=self._painter.output,
        )
        self._app.renderer = self._painter
        self._app.ttimeoutlen = ESCAPE_AFTER
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._size = tty.size()
        self._drawn = self._asked = 0.0

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible.

        Raises what `begin` raises, and any bug in here. The terminal is restored in any case.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)

        def visible(_: object) -> None:
            self._app.after_render -= visible
            loop.add_signal_handler(signal.SIGWINCH, self._resizing)
            self._scroll.add(render.warm, big=True)
            self._start(begin())

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
            for number in (*SIGNALS, signal.SIGTSTP, signal.SIGCONT):
                loop.remove_signal_handler(number)
            for task in self._tasks:
                task.cancel()
            await self._scroll.drained()
            self._painter.erase()
            self._tty.restore()
            loop.set_exception_handler(None)

    def close(self, error: BaseException | None = None) -> None:
        """End `run`, which raises `error` if there is one."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error) if error else self._app.exit()

    def restore(self) -> None:
        """Put the terminal back as it was: for exits that go past `run`."""
        self._tty.restore()

    # ── the view ─────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, shown: Sequence[Shown], skipped: int) -> None:
        """A stretch of history drawn anew; `skipped` events before it are not."""

        def draw(columns: int) -> Iterator[Entry]:
            if skipped:
                yield Entry(render.skipped(skipped, columns, self._theme))
            yield from (self._entry(each, columns) for each in shown)

        self._scroll.add(draw)

    def show(self, block: Block) -> None:
        if block.speaker is Speaker.ASSISTANT and self._area.reply:
            self._say(self._area.reply.stored(block.text))
        else:
            self._scroll.add(lambda columns: [self._entry(block, columns)], big=len(block.text) > BIG)

    def rule(self, rule: Rule) -> None:
        self._scroll.add(lambda columns: [self._entry(rule, columns)])

    def live(self, asked_by: int, event: Delta | Waiting) -> None:
        if self._area.reply is None or self._area.reply.asked_by != asked_by:
            self._area.reply = LiveReply(asked_by)
        self._area.reply.add(event)
        self._soon()

    def saved(self, asked_by: int, characters: int) -> None:
        if self._area.reply and self._area.reply.asked_by == asked_by:
            self._say(self._area.reply.saved(characters))

    def changed(self, memory: Memory) -> None:
        before = self._area.memory
        if memory.open is None:
            self._area.reply = None
        elif before is None or before.open is None or before.open.first != memory.open.first:
            self._area.began = time.monotonic()
        self._area.memory = memory
        self._soon()

    def stored(self, event: StoredEvent) -> None:
        pass

    def notice(self, text: str) -> None:
        self._scroll.add(lambda columns: [Entry(render.notice(text, columns, self._theme), "notice")])

    def away(self, is_away: bool) -> None:
        self._area.away = is_away
        self._soon()

    def returned(self, text: str) -> None:
        """Put `text` before what is in the input."""
        replace(self._buffer, "\n".join(filter(None, (self._pastes.collapsed(text), self._buffer.text))))
        self._app.invalidate()

    def queued(self, texts: tuple[str, ...]) -> None:
        self._area.queue = texts
        self._soon()

    def print_text(self, text: str) -> None:
        """Print what a command answers: plain text."""
        self._scroll.add(lambda columns: [Entry(render.plain(text, columns))])

    # ── what is known later than the first paint ─────────────────────────────────────────────────────────────────

    def agent(self, name: str) -> None:
        """The name in the status line."""
        self._area.agent = name
        self._soon()

    def database(self, text: str) -> None:
        """Where the database is, for the status line."""
        self._area.database = text
        self._soon()

    def set_prompts(self, texts: Iterable[str]) -> None:
        """Prompts of earlier runs for Up and Ctrl+R, the newest first."""
        self._prompts.fill(texts)
        self._buffer.reset(self._buffer.document)  # they are read with the next paint
        self._app.invalidate()

    # ── what keys do ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def busy(self) -> bool:
        return self._area.busy

    def ask_to_leave(self) -> bool:
        now = time.monotonic()
        if now - self._asked < LEAVE:
            return True
        self._asked = now
        self._area.hint = "Ctrl+C again leaves"
        asyncio.get_running_loop().call_later(LEAVE, self._unhint)
        return False

    def take_back(self) -> bool:
        text = self._take_back()
        if text:
            replace(self._buffer, self._pastes.collapsed(text))
        return bool(text)

    def pasted(self, text: str) -> str:
        if self._keyboard.parser.dropped:
            self.notice(f"The paste is longer than {LONGEST_PASTE >> 20} million characters. The rest was left out.")
        return self._pastes.collapsed(text)

    def redraw(self) -> None:
        self._painter.erase()
        self._app.invalidate()

    def suspend(self) -> None:
        if "away" in self._painter.holds:  # another program has the terminal, and is being suspended with us
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        loop = asyncio.get_running_loop()
        self._give_up()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(0, signal.SIGTSTP)
        loop.call_later(0.1, self._resume)  # time stands still meanwhile; and nothing stops where there is no shell

    def edit(self) -> None:
        self._start(self._edited())

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _edited(self) -> None:
        from ikigai.terminal.editor import edit

        self._give_up()
        try:
            with self._keyboard.detach():
                text = await edit(self._pastes.expanded(self._buffer.text))
        except Refused as refusal:
            self.notice(str(refusal))
        else:
            replace(self._buffer, self._pastes.collapsed(text))
        finally:
            self._take_again()

    def _give_up(self) -> None:
        self._painter.erase()
        self._painter.holds.add("away")
        self._tty.restore()

    def _take_again(self) -> None:
        self._tty.raw()
        self._painter.holds.discard("away")
        self._painter.reset()
        self._painter.settle()
        self._app.invalidate()

    def _resume(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self.suspend)
        self._take_again()

    def _entry(self, shown: Shown, columns: int) -> Entry:
        if isinstance(shown, Rule):
            return Entry(render.rule(shown, columns, self._theme))
        tools = shown.speaker in (Speaker.TOOL_CALL, Speaker.TOOL_RESULT)
        return Entry(render.block(shown, columns, self._theme), "tools" if tools else "")

    def _say(self, pieces: list[Piece]) -> None:
        for source, voice in pieces:

            def draw(columns: int, source: str = source, voice: render.Voice = voice) -> list[Entry]:
                drawn = render.piece(source, voice, columns, self._theme)
                return [Entry(drawn)] if drawn else []

            self._scroll.add(draw, big=len(source) > BIG)
        self._soon()

    def _print(self, text: str) -> None:
        self._painter.print(text)
        self._area.apart = True
        self._soon()

    def _soon(self, delay: float = 0.0) -> None:
        """Draw a frame after `delay` seconds, and not too soon after the last one."""
        loop = asyncio.get_running_loop()
        due = max(loop.time() + delay, self._drawn + FRAME)
        if self._timer is None or due < self._timer.when():
            if self._timer:
                self._timer.cancel()
            self._timer = loop.call_at(due, self._frame)

    def _frame(self) -> None:
        self._timer = None
        if not self._app.is_running:
            return
        self._drawn = asyncio.get_running_loop().time()
        self._painter.refresh()
        if self.busy:
            self._soon(STEP)

    def _unhint(self) -> None:
        self._area.hint = ""
        self._soon()

    def _resizing(self) -> None:
        """Draw nothing until the size stays as it is: what is drawn in between may be cut, wrapped or left behind."""
        size = self._tty.size()
        if self._settling and size == self._size:
            return
        self._size = size
        self._painter.holds.add("size")
        if self._settling:
            self._settling.cancel()
        self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self._painter.holds.discard("size")
        self._painter.settle()
        self._app.invalidate()

    def _signalled(self, number: int) -> None:
        if not (number == signal.SIGINT and "away" in self._painter.holds):  # that one was meant for the editor
            self._on_signal(number)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

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


def _reflows(environ: os._Environ[str]) -> bool:
    """Whether this terminal rewraps its rows when it becomes narrower: most do."""
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(("linux", "screen", "vt"))
