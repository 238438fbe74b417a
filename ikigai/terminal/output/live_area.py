"""Lay out the rows around the input: the reply, the activity, the queue; completions and status below.

    the last rows of the reply
    ⠹ Waiting for the model · 3 s · Esc stops
    Forget 12 messages, ~4.5k tokens?
      [y] yes · [n] no · Esc: no
      next: a message that is queued
    ❯ the input
      /clear  start with an empty context
    agent · model · ctx 42.1k/100k ██░░ 42% · 12 out · ↑12.3k ↓4.5k $0.12 · embedded

They never take more than a third of the terminal's rows, but for two thirds with a menu of completions, and three
quarters with a question or with the lines of an agent that has no conversation yet.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer

from ikigai.core.request.reply import describe_retry
from ikigai.core.text.sanitize import clean, clean_line
from ikigai.core.views.live_state import LiveState
from ikigai.core.views.transcript import TranscriptBlock
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.terminal.output import status_line
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.render.text_width import cell_width, cut, format_duration, pack_rows, wrap
from ikigai.terminal.render.theme import ASSISTANT, Theme

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory
    from ikigai.terminal.output.live_reply import LiveReply

SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_STEP = 0.1
"""Seconds per step of the spinner."""
MAX_QUEUED_ROWS, MAX_THINKING_ROWS, MAX_OUTPUT_ROWS = 2, 3, 4
MIN_ACTIVITY_CELLS = 20
"""Cells of the activity that are shown before the hint how to stop it is."""
DIALOG_INDENT = "  "
VI_NORMAL = "NORMAL · "
"""The beginning of the status line while keys are vi's commands."""
THINKING, AWAITED = "Thinking…", "waiting for you"
ASKING_ELSEWHERE = "Waiting for an answer in the other ikigai"


def max_rows(rows: int, is_read: bool = False) -> int:
    """Return the rows that the live area may take of the terminal's: a third, but three at least.

    While the user reads a question or the first lines of an agent these are three quarters.
    """
    return max(3, rows * 3 // 4 if is_read else rows // 3)


def max_menu_rows(rows: int) -> int:
    """Return the rows that the live area may take while a menu is open: it is read then, and the rows above it wait."""
    return max(min(rows, 4), rows * 2 // 3)


class LiveArea:
    """The state shown around the input, and its layout in the rows there are."""

    def __init__(self, theme: Theme, buffer: Buffer) -> None:
        self.theme = theme
        self.buffer = buffer  # whose completions are shown
        self.agent = ""
        self.ephemeral = False  # its conversation is not kept
        self.following = False  # another program writes that agent
        self.asking_elsewhere = False  # and waits there for an answer
        self.deserted = False  # or no program writes it
        self.live = LiveState()  # of the agent on screen, whose view writes it
        self.reply: LiveReply | None = None  # that streams, as far as it is drawn
        self.command = ""  # of the user, under way
        self.command_output = ""  # the newest
        self.database = ""
        self.spent = UsageTotals()  # by this session
        self._drawn: tuple[Memory | None, object, str] = None, None, ""  # the status line, and its sources
        self.others: status_line.StyledText = ("dim", "")  # style and text about agents in the background
        self.parts: Sequence[str] = status_line.STATUS_PARTS  # of the status line
        self.normal: Callable[[], bool] = lambda: False  # keys are vi's commands
        self.hint = ""  # takes the place of the status line
        self.recalled: Sequence[str] = ()  # names of earlier turns that a key adds; they also take its place
        self.before_turn: Callable[[Memory], Memory] = lambda memory: memory  # as the meter counts it
        self.first_lines: Callable[[Memory], Sequence[str]] | None = None  # until the first message
        self.shown: TranscriptBlock | None = None  # the last that went into the scrollback
        self.thoughts = True  # are shown as they come
        self.dialog: Dialog | None = None  # the question that waits for an answer
        self.apart = False  # a blank row parts the area from what is above it
        self.began = 0.0  # when the user's own command, or the open turn, did

    @property
    def counted(self) -> Memory | None:
        """The memory as the meter counts it."""
        return self.before_turn(self.live.memory) if self.live.memory else None

    @property
    def busy(self) -> bool:
        memory = self.live.memory
        return bool(self.command) or (memory is not None and memory.open is not None and not self.deserted)

    @property
    def stoppable(self) -> bool:
        """True if this program itself runs the turn or command: it cannot stop another program's."""
        return bool(self.command) or (self.busy and not self.following)

    @property
    def animated(self) -> bool:
        """True if a spinner turns: something is under way, and it is not the user who is waited for."""
        return self.busy and self.dialog is None and not self.asking_elsewhere

    def around(self, input: int, columns: int, rows: int) -> tuple[list[str], list[str]]:
        """Return the rows above and below an input of `input` rows, the most important ones if there is little room."""
        room = max_rows(rows, self.dialog is not None) - input

        def fit(lines: list[str]) -> list[str]:
            nonlocal room
            taken = lines[: max(room, 0)]
            room -= len(taken)
            return taken

        question = fit(self._asked(columns, room))
        state = fit([row] if (row := self._status(columns)) else [])
        activity = fit(self._activity(columns) if self.busy and self.dialog is None else [])
        choices = self._choices(columns, room - self.apart + max_menu_rows(rows) - max_rows(rows))
        room -= len(choices)
        queue = fit(self._queued(columns, room))
        first = self._first_screen(columns, room - self.apart + max_rows(rows, True) - max_rows(rows))
        room -= len(first)
        gap = fit([""] if activity or queue or question else [])
        apart = fit([""] if self.apart else [])
        tail = fit(self._tail(columns, room - 1))
        return [*apart, *first, *tail, *[""] * bool(tail), *activity, *question, *queue, *gap], [*choices, *state]

    def _asked(self, columns: int, rows: int) -> list[str]:
        """Draw the question in a row or two, and the keys always; all of it where there is room."""
        if self.dialog is None:
            return []
        keys = list(pack_rows(self.dialog.keys(self.theme), columns - len(DIALOG_INDENT)))
        height = min(2, max(rows - len(keys), 1 if rows > 1 else 0))
        prompt = list(wrap(clean_line(self.dialog.prompt), columns))
        if len(prompt) > height > 0:
            prompt[height - 1] = cut(" ".join(prompt[height - 1 :]), columns)
        if len(keys) > (room := max(rows - min(len(prompt), height), 1)):
            keys[room - 1] = cut(" · ".join(keys[room - 1 :]), columns - len(DIALOG_INDENT))
        keys = [DIALOG_INDENT + self._draw_keys(row) for row in keys[:room]]
        return [*(self.theme.paint("warning", row) for row in prompt[:height]), *keys]

    def _draw_keys(self, row: str) -> str:
        """Draw keys with their meanings: the letters stand out."""
        pieces = re.split(r"(\[\w\])", row)
        return "".join(self.theme.paint("bold" if n % 2 else "dim", piece) for n, piece in enumerate(pieces))

    def _status(self, columns: int) -> str:
        if self.hint:
            return DIALOG_INDENT + self.theme.paint("warning", cut(clean_line(self.hint), columns - len(DIALOG_INDENT)))
        if self.recalled and self.dialog is None and self.buffer.complete_state is None:
            room = columns - len(DIALOG_INDENT)
            offer = status_line.offer_recalled(self.recalled, self.theme.key("complete"), room)
            return DIALOG_INDENT + self.theme.paint("dim", offer)
        mark = " (following)" if self.following else " (ephemeral)" if self.ephemeral else ""
        name = self.agent + mark
        mode = VI_NORMAL if self.normal() and columns >= 2 * len(VI_NORMAL) else ""
        awaited = f"{AWAITED} · " if self.dialog else ""
        unreachable = self.live.database_unreachable
        look = (columns, id(self.theme.styles), mode, awaited, id(self.parts))
        sources = (name, self.database, unreachable, self.spent, self.others, *look)
        if self.live.memory is not self._drawn[0] or sources != self._drawn[1]:  # most frames show the last one again
            place = clean_line(self.database)
            database = ("warning", f"{place} unreachable") if unreachable else ("dim", place)
            room = columns - len(DIALOG_INDENT) - len(mode) - len(awaited)
            drawn = status_line.draw_status_line(
                name, self.counted, database, room, self.theme, self.spent, self.others, self.parts
            )
            awaits = self.theme.paint("warning", awaited if drawn else awaited.removesuffix(" · "))
            row = DIALOG_INDENT + self.theme.paint("bold", mode) + awaits + drawn
            self._drawn = self.live.memory, sources, row if mode or awaits or drawn or self.parts else ""
        return self._drawn[2]

    def _activity(self, columns: int) -> list[str]:
        """Draw the activity in a row; before another attempt also why the last one failed."""
        now = time.monotonic()
        if self.asking_elsewhere:
            return [DIALOG_INDENT + self.theme.paint("dim", cut(ASKING_ELSEWHERE, columns - len(DIALOG_INDENT)))]
        sign = SPINNER_FRAMES[int((now - self.began) / SPINNER_STEP) % len(SPINNER_FRAMES)]
        ago = f" · {format_duration(now - self.began)}"
        stops = f" · {key} stops" if self.stoppable and (key := self.theme.stop_key) else ""
        waiting = self.reply.waiting if self.reply and not self.command else None
        doing, retry = self._doing(now), f" · {self.theme.key('send')}: now"
        if waiting and stops and not self.buffer.text and cell_width(doing + retry + stops) <= columns - 2:
            stops = retry + stops
        activity = _under_way(doing, "" if waiting else ago, stops, columns - 2)
        rows = [self.theme.paint("prompt", sign) + " " + self.theme.paint("dim", activity)]
        if waiting:
            why = list(wrap(clean_line(waiting.why), columns - len(DIALOG_INDENT)))
            why[1:] = [cut(" ".join(why[1:]), columns - len(DIALOG_INDENT))] if why[1:] else []
            rows += (DIALOG_INDENT + self.theme.paint("warning", row) for row in why)
        return rows

    def _doing(self, now: float) -> str:
        if self.command:
            return f"Running {self.command}"
        memory, reply = self.live.memory, self.reply
        assert memory and memory.open
        from ikigai.core.state.open_turn import AgentStatus

        if memory.status is AgentStatus.RUNNING_TOOLS:
            return "Running " + ", ".join(call.name for _, call in memory.open.pending)
        if reply is None:
            return "Waiting for the model"
        if reply.waiting:
            return describe_retry(reply.waiting, reply.waiting.seconds - (now - reply.since))
        if reply.thinking:
            return f"{THINKING} {format_duration(now - reply.thinking.since)}"
        if reply.hosted:
            from ikigai.core.tools.vendor_search import hosted_query

            return f"Searching the web: {clean_line(hosted_query(reply.hosted))}"
        if reply.calls:
            return "Calling " + ", ".join(reply.calls.values())
        return "Answering"

    def _first_screen(self, columns: int, rows: int) -> list[str]:
        """Draw the last of the first lines that fit, and a blank row below them where there is room."""
        if self.first_lines is None or self.live.memory is None or self.busy or rows < 1:
            return []
        width, shown = columns - len(DIALOG_INDENT), list[str]()
        lines = [clean_line(line) for line in self.first_lines(self.live.memory)]
        for line in reversed(lines):
            wrapped = list(wrap(line, width))
            if len(wrapped) + len(shown) > rows:
                break
            shown = [*wrapped, *shown]
        shown = shown or [cut(lines[-1], width)]
        gap = [""] if len(shown) < rows else []
        return [*(DIALOG_INDENT + self.theme.paint("dim", row) for row in shown), *gap]

    def _queued(self, columns: int, rows_left: int) -> list[str]:
        queue, most = self.live.waiting, max(min(rows_left, MAX_QUEUED_ROWS), 1)
        rows = [f"next: {clean_line(text[:columns])}" for text in queue[:most]]
        if len(queue) > most:
            rows[-1] = f"and {len(queue) - most + 1} more" if most > 1 else f"{len(queue)} messages are queued"
        return [DIALOG_INDENT + self.theme.paint("dim", cut(row, columns - len(DIALOG_INDENT))) for row in rows]

    def _tail(self, columns: int, rows: int) -> list[str]:
        if (self.command_output or self.live.outputs) and rows > 0:
            latest = self.command_output or next(reversed(self.live.outputs.values()))
            last = [row for row in wrap(clean(latest), columns - len(DIALOG_INDENT)) if row.strip()]
            return [DIALOG_INDENT + self.theme.paint("dim", row) for row in last[-min(rows, MAX_OUTPUT_ROWS) :]]
        reply, room = self.reply, columns - len(DIALOG_INDENT)
        if reply is None or rows < 1:
            return []
        if reply.thinking and reply.thinking.has_text:
            shown = min(rows, MAX_THINKING_ROWS) if self.thoughts else 0
            last = [row for row in wrap(reply.thinking.last, room) if row]
            return (
                [DIALOG_INDENT + self.theme.paint("thought", row) for row in last[len(last) - shown :]] if shown else []
            )
        tail, first = reply.tail(room, rows + 1)
        shown = [DIALOG_INDENT + row if row else "" for row in tail[-rows:]]
        if first and 0 < len(tail) <= rows:
            shown[0] = self.theme.paint("assistant", ASSISTANT) + shown[0][1:]
        return shown

    def _choices(self, columns: int, rows: int) -> list[str]:
        """Draw the part of the completion menu around the chosen item, and the number of the others."""
        state = self.buffer.complete_state
        if state is None or rows < 1:
            return []
        all, chosen = state.completions, state.complete_index
        has_more = 1 < rows < len(all)
        rows -= has_more
        start = max(0, min((chosen or 0) - rows // 2, len(all) - rows))
        longest = max(cell_width(clean_line(each.display_text)) for each in all)
        names = min(longest, max(columns * 2 // 5, max(cell_width(clean_line(each.text)) for each in all)))
        shown: list[str] = []
        for index, each in enumerate(all[start : start + rows], start):
            help = clean_line(each.display_meta_text)
            name = cut(clean_line(each.display_text), min(names if help else columns, columns - len(DIALOG_INDENT)))
            about = cut("  " + help, columns - len(DIALOG_INDENT) - names) if help else ""
            padded = name + " " * max(0, names - cell_width(name)) * bool(about)
            style = "selected" if index == chosen else ""
            shown.append(DIALOG_INDENT + self.theme.paint(style, padded) + self.theme.paint("dim", about))
        if has_more:
            more = cut(f"and {len(all) - rows} more", columns - len(DIALOG_INDENT))
            shown.append(DIALOG_INDENT + self.theme.paint("dim", more))
        return shown


@lru_cache(maxsize=4)
def _under_way(activity: str, ago: str, stops: str, room: int) -> str:
    """Return the activity, its duration and the key that stops it in `room` cells. Most frames repeat the result."""
    activity = clean_line(activity)
    if activity.startswith(THINKING):
        ago = ""  # it tells its own time
    for end in (ago + stops, stops):
        if cell_width(activity + end) <= room:
            break
    else:
        end = end if room - len(end) >= MIN_ACTIVITY_CELLS else ""
    return cut(activity, room - len(end)) + end
