"""What stands around the input: the reply as it comes, what is under way, what is queued; completions and status below.

    the last rows of the reply

    ⠹ Waiting for the model · 3 s · Esc stops
    Forget 12 messages, ~4.5k tokens?
      [y] yes · [n] no · Esc: no
      next: a message that is queued

    ❯ the input
      /clear  start with an empty context
    agent · model · ctx 42.1k/100k ██░░ 42% · 12 out · ↑12.3k ↓4.5k $0.12 · embedded

Never more than a third of the terminal's rows.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from prompt_toolkit.buffer import Buffer

from ikigai.core.request.reply import Waiting
from ikigai.core.sanitize import clean, clean_line
from ikigai.core.state.memory import Memory, Status
from ikigai.core.state.open_turn import OpenTurn
from ikigai.core.views.transcript import Block
from ikigai.core.views.usage_totals import Spent
from ikigai.terminal.output import status_line as status
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_reply import LiveReply
from ikigai.terminal.render import theme as glyph
from ikigai.terminal.render.text_width import columns as width
from ikigai.terminal.render.text_width import cut, lasting, packed, wrap
from ikigai.terminal.render.theme import Theme

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TURN = 0.1
"""Seconds per step of the spinner."""
MOST_CHOICES, MOST_QUEUED, MOST_THOUGHT, MOST_OUTPUT = 6, 2, 3, 4
LEAST = 20
"""Cells of what is going on that are shown before the way to stop it is."""
INDENT = "  "
NORMAL = "NORMAL · "
"""Before all else in the status line while keys are vi's commands."""
THINKING, ASKING = "Thinking…", "Waiting for your answer"
ASKING_ELSEWHERE = "Waiting for an answer in the other program"
DECIDED_WITHIN = 1.0
"""Seconds in which a call has started that nobody is asked about, and a follower has read of it."""


def most(rows: int) -> int:
    """The rows that the live area may take of the terminal's: a third, but three at least."""
    return max(3, rows // 3)


class Area:
    """The state of what is shown around the input, and how it is laid out in the rows there are."""

    def __init__(self, theme: Theme, buffer: Buffer) -> None:
        self.theme = theme
        self.buffer = buffer  # whose completions are shown
        self.agent = ""
        self.following = False  # another program writes that agent
        self.deserted = False  # or none does
        self.memory: Memory | None = None
        self.database = ""
        self.spent = Spent()  # by this session
        self.away = False  # the database, just now
        self._told: tuple[Memory | None, object, str] = (None, None, "")  # the status line, and what it was drawn from
        self.others: status.Part = ("dim", "")  # what agents in the background are about: style and text
        self.parts: Sequence[str] = status.PARTS  # of the status line
        self.normal: Callable[[], bool] = lambda: False  # whether keys are vi's commands
        self.hint = ""  # takes the place of the status line
        self.shown: Block | None = None  # the last that went into the scrollback
        self.thoughts = True  # are shown as they come
        self.reply: LiveReply | None = None
        self.outputs: dict[str, str] = {}  # the latest that running tools have written, by call
        self.queue: tuple[str, ...] = ()
        self.waiting: tuple[str, ...] = ()  # behind those of the agent: for it to be opened, or what is being read
        self.dialog: Dialog | None = None  # the question that waits for an answer
        self.apart = False  # a blank row parts the area from what is above it
        self.command = ""  # the user's own that is running
        self.began = 0.0  # when that, or the open turn, did
        self._undecided: tuple[OpenTurn | None, float] = (None, 0.0)  # a followed turn with no call running, since when

    @property
    def busy(self) -> bool:
        return bool(self.command) or (self.memory is not None and self.memory.open is not None and not self.deserted)

    @property
    def stoppable(self) -> bool:
        """Whether what is under way is this program's own: a wish to stop reaches no other."""
        return bool(self.command) or (self.busy and not self.following)

    def around(self, input: int, columns: int, rows: int) -> tuple[list[str], list[str]]:
        """The rows above and below an input of so many rows, the most important ones if there is little room."""
        room = most(rows) - input

        def fit(wanted: list[str]) -> list[str]:
            nonlocal room
            taken = wanted[: max(room, 0)]
            room -= len(taken)
            return taken

        asked = fit(self._asked(columns, room))
        state = fit([row] if (row := self._status(columns)) else [])
        activity = fit([self._activity(columns)] if self.busy else [])
        choices = fit(self._choices(columns, min(room - self.apart, MOST_CHOICES)))
        queue = fit(self._queued(columns))
        gap = fit([""] if activity or queue or asked else [])
        apart = fit([""] if self.apart else [])
        tail = fit(self._tail(columns, room - 1))
        return [*apart, *tail, *[""] * bool(tail), *activity, *asked, *queue, *gap], [*choices, *state]

    def _asked(self, columns: int, rows: int) -> list[str]:
        """The question in a row or two, and always what can be pressed: all of it where there is room."""
        if self.dialog is None:
            return []
        keys = list(packed(self.dialog.keys, columns - len(INDENT)))
        most = min(2, max(rows - len(keys), 1 if rows > 1 else 0))
        prompt = list(wrap(clean_line(self.dialog.prompt), columns))
        if len(prompt) > most > 0:
            prompt[most - 1] = cut(" ".join(prompt[most - 1 :]), columns)
        if len(keys) > (room := max(rows - min(len(prompt), most), 1)):
            keys[room - 1] = cut(" · ".join(keys[room - 1 :]), columns - len(INDENT))
        keys = [INDENT + self.theme.paint("dim", row) for row in keys[:room]]
        return [*(self.theme.paint("warning", row) for row in prompt[:most]), *keys]

    def _status(self, columns: int) -> str:
        if self.hint:
            return INDENT + self.theme.paint("warning", cut(clean_line(self.hint), columns - len(INDENT)))
        name = f"{self.agent} (following)" if self.following else self.agent
        mode = NORMAL if self.normal() and columns >= 2 * len(NORMAL) else ""
        of = (name, self.database, self.away, self.spent, self.others, columns, id(self.theme.styles), mode)
        if self.memory is not self._told[0] or of != self._told[1]:  # else it is the same in every frame
            place = clean_line(self.database)
            database = ("warning", f"{place} unreachable") if self.away else ("dim", place)
            room = columns - len(INDENT) - len(mode)
            drawn = status.line(name, self.memory, database, room, self.theme, self.spent, self.others, self.parts)
            told = INDENT + self.theme.paint("bold", mode) + drawn
            self._told = self.memory, of, told if mode or drawn or self.parts else ""
        return self._told[2]

    def _activity(self, columns: int) -> str:
        now = time.monotonic()
        sign = SPINNER[int((now - self.began) / TURN) % len(SPINNER)]
        ago = f" · {lasting(now - self.began)}"
        stops = " · Esc stops" if self.stoppable and not self.dialog else ""  # Esc answers the question first
        what = _under_way(self._doing(now), ago, stops, columns - 2)
        return self.theme.paint("prompt", sign) + " " + self.theme.paint("dim", what)

    def _doing(self, now: float) -> str:
        if self.dialog is not None:
            return ASKING
        if self.command:
            return f"Running {self.command}"
        assert self.memory and self.memory.open
        if self.memory.status is Status.RUNNING_TOOLS:
            if self.following and self._asks_elsewhere(self.memory.open, now):
                return ASKING_ELSEWHERE
            return "Running " + ", ".join(call.name for _, call in self.memory.open.pending)
        reply = self.reply
        if reply is None or reply.asked_by != self.memory.open.last:
            return "Waiting for the model"
        if reply.waiting:
            return waiting(reply.waiting, reply.waiting.seconds - (now - reply.since))
        if reply.thinking:
            return f"{THINKING} {lasting(now - reply.thinking.since)}"
        if reply.calls:
            return "Calling " + ", ".join(reply.calls.values())
        return "Answering"

    def _asks_elsewhere(self, opened: OpenTurn, now: float) -> bool:
        """Whether the program that writes asks its user: its log holds calls of which none has been started."""
        if opened.running:
            return False
        if self._undecided[0] is not opened:
            self._undecided = opened, now
        return now - self._undecided[1] >= DECIDED_WITHIN

    def _queued(self, columns: int) -> list[str]:
        queue = *self.queue, *self.waiting
        rows = [f"next: {clean_line(text[:columns])}" for text in queue[:MOST_QUEUED]]
        if len(queue) > MOST_QUEUED:
            rows[-1] = f"and {len(queue) - MOST_QUEUED + 1} more"
        return [INDENT + self.theme.paint("dim", cut(row, columns - len(INDENT))) for row in rows]

    def _tail(self, columns: int, rows: int) -> list[str]:
        if self.outputs and rows > 0:
            latest = next(reversed(self.outputs.values()))
            last = [row for row in wrap(clean(latest), columns - len(INDENT)) if row.strip()][-min(rows, MOST_OUTPUT) :]
            return [INDENT + self.theme.paint("dim", row) for row in last]
        if self.reply is None or rows < 1:
            return []
        room = columns - len(INDENT)
        if self.reply.thinking and self.reply.thinking.inked:
            shown = min(rows, MOST_THOUGHT) if self.thoughts else 0
            last = [row for row in wrap(self.reply.thinking.last, room) if row]
            return [INDENT + self.theme.paint("thought", row) for row in last[len(last) - shown :]] if shown else []
        tail, first = self.reply.tail(room, rows + 1)
        shown = [INDENT + row if row else "" for row in tail[-rows:]]
        if first and 0 < len(tail) <= rows:
            shown[0] = self.theme.paint("assistant", glyph.ASSISTANT) + shown[0][1:]
        return shown

    def _choices(self, columns: int, rows: int) -> list[str]:
        """The part of the completion menu around what is chosen, and how many more there are."""
        state = self.buffer.complete_state
        if state is None or rows < 1:
            return []
        all, chosen = state.completions, state.complete_index
        told = 1 < rows < len(all)
        rows -= told
        start = max(0, min((chosen or 0) - rows // 2, len(all) - rows))
        names = max(width(clean_line(each.display_text)) for each in all)
        shown: list[str] = []
        for index, each in enumerate(all[start : start + rows], start):
            name = cut(clean_line(each.display_text), columns - len(INDENT))
            help = clean_line(each.display_meta_text)
            about = cut("  " + help, columns - len(INDENT) - names) if help else ""
            padded = name + " " * max(0, names - width(name)) * bool(about)
            style = "selected" if index == chosen else ""
            shown.append(INDENT + self.theme.paint(style, padded) + self.theme.paint("dim", about))
        if told:
            more = cut(f"and {len(all) - rows} more", columns - len(INDENT))
            shown.append(INDENT + self.theme.paint("dim", more))
        return shown


@lru_cache(maxsize=4)
def _under_way(what: str, ago: str, stops: str, room: int) -> str:
    """What goes on, for how long, and what stops it, in so many cells; the same in most frames of a second."""
    what = clean_line(what)
    if what.startswith(THINKING):
        ago = ""  # it tells its own time
    for end in (ago + stops, stops):
        if width(what + end) <= room:
            break
    else:
        end = end if room - len(end) >= LEAST else ""
    return cut(what, room - len(end)) + end


def waiting(waiting: Waiting, left: float) -> str:
    """What a request that failed waits for, `left` seconds before it is made again."""
    of = f" of {waiting.most}" if waiting.most else ""
    when = f"in {math.ceil(left)} s " if left > 0 else ""
    return f"Trying again {when}(attempt {waiting.attempt}{of}): {waiting.why}"
