"""Compare the screens of a terminal with stored text files, and their styles with others beside them.

    tests/golden/screens/WALK/STATE.txt               the text of the screen
    tests/golden/screens/WALK/STATE.VARIANT.styles    its styles in one variant: row, style, the text that has it

A walk is one run through many states. To make all of them anew, or only some tests' screens, and read them in `git
diff`:

    IKIGAI_RENEW_SCREENS=1 python -m pytest tests/e2e/test_screens.py
"""

import difflib
import os
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol, Self

import pyte

from ikigai.store.agents.agent_names import ADJECTIVES, NOUNS
from tests import GOLDEN
from tests.terminal.alternate import is_dim

FOLDER = GOLDEN / "screens"
RENEW = bool(os.environ.get("IKIGAI_RENEW_SCREENS"))
PATIENCE, SHORT, QUIET = 30.0, 0.5, 0.6
"""Seconds until a screen must look as stored, after a failure of this run, and without change before one is stored."""

VARIANTS: dict[str, dict[str, str]] = {"dark": {}, "light": {"IKIGAI_TERMINAL_THEME": "light"}}
"""Environment of each way in which the program can look, by name."""

# What differs from run to run, and what stands for it. Nothing else does, and no width changes if it can be helped.
_VARYING = (
    (rf"\b(?:{'|'.join(ADJECTIVES.split())})-(?:{'|'.join(NOUNS.split())})\b", "amber-fox"),
    (r"\b[a-z-]+… · ctx", "amber-fox · ctx"),  # a name that is cut
    (r"/tmp/golden-\w{8}", "/tmp/golden-00000000"),
    (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋"),
    (r"∴ thought for \d+ s", "∴ thought"),
    (r"\b\d+(\.\d)? s\b", "0 s"),
    (r"\b\d min ago\b", "just now"),
    (r"\b20\d\d-\d\d-\d\d( \d\d:\d\d?)?", lambda found: "2026-01-02 03:04"[: len(found[0])]),
    (r"\band \d+ more", "and 40 more"),  # commands
    (r"· (127\.0\.0\.1|localhost)\b(:\d+)?", "· local"),  # the database, where it is not the embedded one
)


class Terminal(Protocol):
    """A terminal that shows the screen; `Program` is one."""

    @property
    def screen(self) -> pyte.Screen: ...
    def pump(self, seconds: float) -> bool: ...


@cache
def same(text: str) -> str:
    """Return a row with the parts replaced that differ from run to run."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text)
    return text


def shown(screen: pyte.Screen) -> str:
    """Return the rows of the screen without the empty ones at its end; a bar marks the cursor."""
    rows = [same(row.rstrip()) for row in screen.display]
    cursor = f"cursor {screen.cursor.y + 1}:{screen.cursor.x + 1}" if not screen.cursor.hidden else "no cursor"
    return "\n".join(rows).rstrip("\n") + f"\n──\n{screen.columns} × {screen.lines}, {cursor}\n"


def styles(screen: pyte.Screen) -> str:
    """Return a line per row that is not all plain: its number, and each styled stretch with its style in words."""
    lines: list[str] = []
    for y in range(screen.lines):
        runs: list[tuple[str, str, str]] = []
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            ink, ground = _words(cell)
            if runs and runs[-1][1] == ground and (cell.data == " " or runs[-1][0] == ink):
                runs[-1] = runs[-1][0], ground, runs[-1][2] + cell.data  # a blank shows no ink
            else:
                runs.append(("" if cell.data == " " else ink, ground, cell.data))
        told = [f"{ink} {ground}".strip() + f" {same(text.rstrip() or text)!r}" for ink, ground, text in runs]
        told = [run for run in told if not run.startswith((" ", "'", '"'))]
        if told:
            lines.append(f"{y + 1:3}  " + "  ".join(told))
    return "\n".join(lines) + "\n"


@cache
def _words(cell: pyte.screens.Char) -> tuple[str, str]:
    """Return the style of a cell, its ink and its ground; "" for none."""
    ink = [word for word, on in (("bold", cell.bold), ("dim", is_dim(cell)), ("italics", cell.italics)) if on]
    ink += [_COLOURS.get(cell.fg, cell.fg)] * (cell.fg != "default")
    names = ("underscore", "strikethrough", "reverse")
    ground = [name for name in names if getattr(cell, name)]
    ground += [f"on {_COLOURS.get(cell.bg, cell.bg)}"] * (cell.bg != "default")
    return " ".join(ink), " ".join(ground)


_COLOURS = {"brown": "yellow", "brightbrown": "brightyellow", "bfightmagenta": "brightmagenta"}
"""Standard names of colors, by the names that pyte has for them."""


class Screens:
    """The stored screens of one walk, for the time of a `with`; it fails at its end, with all differences.

    A stored screen that the walk never showed is a difference. Without a variant styles are not compared.
    """

    def __init__(self, walk: str, variant: str = "") -> None:
        self._folder, self._variant = FOLDER / walk, variant
        self._walked: set[str] = set()
        self._differ: list[str] = []

    def __enter__(self) -> Self:
        if RENEW:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        for unused in sorted(file for file in self._folder.iterdir() if self._mine(file.name) and not self._used(file)):
            if RENEW:
                unused.unlink()
            else:
                self._differ.append(f"{unused.relative_to(FOLDER)} is of a state that the walk does not come to.")
        assert not self._differ, "\n\n".join([*self._differ, "If it is meant to look so: IKIGAI_RENEW_SCREENS=1"])

    def _mine(self, name: str) -> bool:
        return name.endswith((".txt", f".{self._variant}.styles"))

    def _used(self, file: Path) -> bool:
        return file.name.partition(".")[0] in self._walked

    def agrees(self, state: str, terminal: Terminal) -> None:
        """Wait until the terminal shows the stored screen of this state; a difference is reported at the end."""
        looks: dict[str, Callable[[pyte.Screen], str]] = {f"{state}.txt": shown}
        if self._variant:
            looks[f"{state}.{self._variant}.styles"] = styles
        if RENEW:
            _quiet(terminal)
        stored = {name: self._stored(name) for name in looks}
        deadline = time.monotonic() + (0 if RENEW else SHORT if self._differ else PATIENCE)
        while (now := {name: look(terminal.screen) for name, look in looks.items()}) != stored:
            while not (news := terminal.pump(0.05)) and time.monotonic() < deadline:
                pass
            if not news:
                break
            while terminal.pump(0):  # a look costs more than a read
                pass
        self._compare(state, stored, now)

    def printed(self, state: str, text: str) -> None:
        """Compare the output of a program without a screen."""
        name = f"{state}.txt"
        self._compare(state, {name: self._stored(name)}, {name: "\n".join(map(same, text.split("\n")))})

    def _stored(self, name: str) -> str:
        file = self._folder / name
        return file.read_text() if file.exists() else ""

    def _compare(self, state: str, stored: dict[str, str], now: dict[str, str]) -> None:
        assert state not in self._walked, f"{state} twice"
        self._walked.add(state)
        for name, text in now.items():
            if RENEW:
                (self._folder / name).write_text(text)
            elif text != stored[name]:
                before, after = stored[name].splitlines(), text.splitlines()
                place = str((self._folder / name).relative_to(FOLDER))
                self._differ.append("\n".join(difflib.unified_diff(before, after, place, "the screen", lineterm="")))


def _quiet(terminal: Terminal) -> None:
    """Wait until the screen stays as it is."""
    before, since = "", time.monotonic()
    deadline = since + PATIENCE
    while time.monotonic() < min(since + QUIET, deadline):
        terminal.pump(0.05)
        now = shown(terminal.screen) + styles(terminal.screen)
        if now != before:
            before, since = now, time.monotonic()
