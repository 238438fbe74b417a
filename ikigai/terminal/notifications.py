"""Set the terminal's title, and notify a user who looks elsewhere.

    title           amber-fox · working        (waiting for you, idle); the old one waits on the terminal's stack
    notifications   a turn that took long has ended; a question waits; an agent in the background waits

The terminal reports if it is in front (mode 1004). One that never does is taken to be in front and gets no
notification: a bell at every answer is worse than none. tmux reports it with `set -g focus-events on`. A notification
names the agent and what happened, never the content of a message.
"""

import time
from collections.abc import Mapping
from typing import Protocol

from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.transcript import Speaker
from ikigai.terminal import capabilities
from ikigai.terminal.keys.parser import KeyParser
from ikigai.terminal.output.application import TerminalApp
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.prompt_marks import PromptMarks
from ikigai.terminal.render.text_width import cut
from ikigai.terminal.tty import Tty

LONG_TURN_SECONDS = 10.0
"""Seconds after which the end of a turn is notified: users look elsewhere after that, and stay for a shorter one."""
MAX_TITLE_CELLS = 60
"""Cells of a title or a notification."""
PUSH, POP = "\x1b[22;0t", "\x1b[23;0t"
FOCUS, NO_FOCUS = "\x1b[?1004h", "\x1b[?1004l"
ASKS, WORKING, IDLE = "waiting for you", "working", "idle"


class NotificationSettings(Protocol):
    """The user's configuration under [terminal]."""

    @property
    def title(self) -> bool: ...
    @property
    def notify(self) -> str: ...


def equip_terminal(
    tty: Tty, terminal_app: TerminalApp, entries: Entries, settings: NotificationSettings, environ: Mapping[str, str]
) -> None:
    """Use the terminal's abilities beside drawing text: links, marks of prompts, and as `settings` say the title and
    notifications. A terminal without jumps from prompt to prompt swallows the marks.
    """
    if tty.dumb or not capabilities.swallows_osc(environ):
        return
    entries.links = capabilities.has_hyperlinks(environ)
    if not entries.words:
        entries.marks = PromptMarks()
    terminal_app.frames.watch = Notifier(tty, terminal_app.keyboard.parser, settings, environ).look


class Notifier:
    """A watcher of the live area: `look` is called with every frame, and writes only what has changed."""

    def __init__(self, tty: Tty, parser: KeyParser, settings: NotificationSettings, environ: Mapping[str, str]) -> None:
        self._tty, self._parser, self._environ = tty, parser, environ
        self._titled = settings.title and capabilities.has_titles(environ)
        possible = capabilities.notification_way(environ)
        self._way = possible if settings.notify == "auto" else settings.notify if possible else ""
        self._title = ""
        self._dialog: Dialog | None = None
        self._background_waits = False  # an agent in the background waits for the user
        self._turn: tuple[str, int] | None = None  # the agent's id and the first event of its open turn
        self._since = 0.0
        if self._way in ("", "off"):
            self._way = ""
        else:
            parser.focused = None
            self._tty.tell(FOCUS)
        self._set_modes()

    def look(self, area: LiveArea) -> None:
        if self._titled and area.agent:
            self._set_title(area.agent, ASKS if area.dialog else WORKING if area.busy else IDLE)
        if not self._way:
            return
        if area.dialog is not self._dialog:
            self._dialog = area.dialog
            if area.dialog:
                self._notify(f"{area.agent} waits for your answer" if area.agent else "a question waits")
        waited, self._background_waits = self._background_waits, area.others[0] == "warning"
        if self._background_waits and not waited:
            self._notify("a background agent waits for you")
        self._follow(area)

    def _follow(self, area: LiveArea) -> None:
        """Notify when the turn on screen has ended, if it took long and no other has begun."""
        memory = area.live.memory
        turn = (memory.agent, memory.open.first) if memory and memory.open else None
        if turn == self._turn:
            return
        ended = self._turn is not None and turn is None and memory is not None and memory.agent == self._turn[0]
        if ended and time.monotonic() - self._since >= LONG_TURN_SECONDS:
            self._notify(f"{area.agent} {_ending(area)}")
        self._turn, self._since = turn, area.began

    def _set_title(self, agent: str, state: str) -> None:
        suffix = f" · {state}"
        title = cut(clean_line(agent), MAX_TITLE_CELLS - len(suffix)) + suffix
        if title != self._title:
            push = "" if self._title else PUSH
            self._title = title
            self._set_modes()
            self._tty.tell(push + _titled(title))

    def _set_modes(self) -> None:
        """Keep the title and focus reports ours alone: other programs get the terminal as it was."""
        on = (PUSH + _titled(self._title) if self._title else "") + (FOCUS if self._way else "")
        self._tty.keep(on, (POP if self._title else "") + (NO_FOCUS if self._way else ""))

    def _notify(self, text: str) -> None:
        if self._parser.focused is False:
            self._tty.tell(notification_sequence(text, self._way, self._environ))


def notification_sequence(text: str, way: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that notifies the user with `text`, in the `way` "osc9", "osc777" or "bell"."""
    if way == "bell":
        return "\x07"
    message = cut(clean_line(text), MAX_TITLE_CELLS).replace(";", ",")  # a semicolon would separate arguments
    sequence = f"\x1b]9;ikigai: {message}\x07" if way == "osc9" else f"\x1b]777;notify;ikigai;{message}\x07"
    return capabilities.tmux_passthrough(sequence, environ)


def _titled(title: str) -> str:
    return f"\x1b]2;{title}\x1b\\"


def _ending(area: LiveArea) -> str:
    last = area.shown
    if last and last.speaker is Speaker.STOPPED:
        return "has failed" if last.failed else "was stopped"
    return "has answered"
