"""For a user who looks elsewhere: the terminal's title says what goes on, and what waits for them is called out.

    title     amber-fox · working        (asks, idle); the old one waits on the terminal's stack
    calls     a turn that took long has ended; a question waits; an agent in the background does

The terminal says itself whether it is in front (mode 1004). One that never says so is taken to be: nobody is called
there, for a bell at every answer is worse than none. tmux says so with `set -g focus-events on`. A call names the agent
and what happened, never what was said.
"""

import time
from collections.abc import Mapping
from typing import Protocol

from ikigai.core.sanitize import clean_line
from ikigai.core.views.transcript import Speaker
from ikigai.terminal import capabilities
from ikigai.terminal.keyboard import Parser
from ikigai.terminal.output.application import Stage
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_area import Area
from ikigai.terminal.output.prompt_marks import PromptMarks
from ikigai.terminal.render.text_width import cut
from ikigai.terminal.tty import Tty

LONGEST = 60
"""Cells of a title or a call."""
PUSH, POP = "\x1b[22;0t", "\x1b[23;0t"
FOCUS, NO_FOCUS = "\x1b[?1004h", "\x1b[?1004l"
ASKS, WORKING, IDLE = "asks", "working", "idle"


class Wanted(Protocol):
    """What the user has configured under [terminal]."""

    @property
    def title(self) -> bool: ...
    @property
    def notify(self) -> str: ...
    @property
    def notify_after(self) -> int:
        """Seconds; 0 for never."""
        ...

    @property
    def links(self) -> str: ...
    @property
    def prompt_marks(self) -> bool: ...


def equip(tty: Tty, stage: Stage, entries: Entries, wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Use what the terminal can do beside drawing text, as far as it is wanted: title, calls, links, marks."""
    if tty.dumb or not capabilities.strings(environ):
        return
    entries.links = wanted.links == "on" or (wanted.links == "auto" and capabilities.hyperlinks(environ))
    if wanted.prompt_marks and not entries.words:
        entries.marks = PromptMarks()
    stage.frames.watch = Attention(tty, stage.keyboard.parser, wanted, environ).look


class Attention:
    """Watches the live area: `look` is called with every frame, and writes only what has changed."""

    def __init__(self, tty: Tty, parser: Parser, wanted: Wanted, environ: Mapping[str, str]) -> None:
        self._tty, self._parser, self._environ = tty, parser, environ
        self._titled = wanted.title and capabilities.titles(environ)
        possible = capabilities.notices(environ)
        self._way = possible if wanted.notify == "auto" else wanted.notify if possible else ""
        self._after = wanted.notify_after
        self._title = ""
        self._dialog: Dialog | None = None
        self._pressing = False  # somebody waits in the background
        self._turn: tuple[str, int] | None = None  # the agent's id and the first event of its open turn
        self._since = 0.0
        if self._way in ("", "off"):
            self._way = ""
        else:
            parser.focused = None
            self._tty.tell(FOCUS)
        self._keep()

    def look(self, area: Area) -> None:
        if self._titled and area.agent:
            self._entitle(area.agent, ASKS if area.dialog else WORKING if area.busy else IDLE)
        if not self._way:
            return
        if area.dialog is not self._dialog:
            self._dialog = area.dialog
            if area.dialog:
                self._call(f"{area.agent} waits for your answer" if area.agent else "there is a question")
        pressing, self._pressing = self._pressing, area.others[0] == "warning"
        if self._pressing and not pressing:
            self._call("an agent in the background waits for you")
        self._follow(area)

    def _follow(self, area: Area) -> None:
        """Call when the turn on screen has ended, if that took long and no other has begun."""
        memory = area.memory
        turn = (memory.agent, memory.open.first) if memory and memory.open else None
        if turn == self._turn:
            return
        ended = self._turn is not None and turn is None and memory is not None and memory.agent == self._turn[0]
        if ended and 0 < self._after <= time.monotonic() - self._since:
            self._call(f"{area.agent} {_ending(area)}")
        self._turn, self._since = turn, area.began

    def _entitle(self, agent: str, state: str) -> None:
        told = f" · {state}"
        title = cut(clean_line(agent), LONGEST - len(told)) + told
        if title != self._title:
            push = "" if self._title else PUSH
            self._title = title
            self._keep()
            self._tty.tell(push + _titled(title))

    def _keep(self) -> None:
        """Whoever has the terminal in between, and after us, gets it as it was."""
        on = (PUSH + _titled(self._title) if self._title else "") + (FOCUS if self._way else "")
        self._tty.keep(on, (POP if self._title else "") + (NO_FOCUS if self._way else ""))

    def _call(self, text: str) -> None:
        if self._parser.focused is False:
            self._tty.tell(notification(text, self._way, self._environ))


def notification(text: str, way: str, environ: Mapping[str, str]) -> str:
    """What makes the terminal call the user with `text`, in the way of "osc9" or "osc777", or with its "bell"."""
    if way == "bell":
        return "\x07"
    said = cut(clean_line(text), LONGEST).replace(";", ",")  # which would part arguments
    sequence = f"\x1b]9;ikigai: {said}\x07" if way == "osc9" else f"\x1b]777;notify;ikigai;{said}\x07"
    return capabilities.passed(sequence, environ)


def _titled(title: str) -> str:
    return f"\x1b]2;{title}\x1b\\"


def _ending(area: Area) -> str:
    last = area.shown
    if last and last.speaker is Speaker.STOPPED:
        return "has failed" if last.failed else "was stopped"
    return "has answered"
