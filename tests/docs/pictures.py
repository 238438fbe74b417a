"""Draw stored screens as SVG: one as a picture, or a walk of them as an animation.

The screens are those that `tests.e2e.test_tour` compares with the running program.
"""

import ast
import re
from html import escape
from typing import NamedTuple

from wcwidth import wcswidth

from tests.support.screens import FOLDER

FIRST = "03-answered"
"""The screen that the animation begins with: those before it are empty boxes in an index of pages."""
SECONDS = {"04-typed": 1.5, "03-answered": 6.0, "05-asked": 6.0, "06-fixed": 6.0, "12-again": 6.0}
"""Seconds for which a screen stays; others stay for USUAL."""
USUAL = 3.0

CELL, LINE, PAD = 8.4, 18, 14
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
INK, GROUND = "#d8dee9", "#14171c"
COLORS = {
    "black": "#3b4252", "red": "#f07178", "green": "#a3d977", "yellow": "#f0c674", "blue": "#82aaff",
    "magenta": "#c792ea", "cyan": "#7fdbca", "white": "#d8dee9", "brightblack": "#7a8494", "brightred": "#ff8b92",
    "brightgreen": "#b9f27c", "brightyellow": "#ffd580", "brightblue": "#9cc4ff", "brightmagenta": "#ddb3ff",
    "brightcyan": "#a1efe4", "brightwhite": "#ffffff",
}  # fmt: skip
RUN = re.compile(r"""((?:[a-z0-9#]+ )+)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


class StyledRun(NamedTuple):
    """A stretch of one row: its first cell, its text, and the words of its style."""

    column: int
    text: str
    style: frozenset[str]


class StoredScreen(NamedTuple):
    """A stored screen: its size, the cell of the cursor, and the runs of each row."""

    columns: int
    lines: int
    cursor: tuple[int, int] | None
    rows: list[list[StyledRun]]


def load(state: str, walk: str = "tour") -> StoredScreen:
    """Return a stored screen of a walk with its styles."""
    text, _, size = (FOLDER / walk / f"{state}.txt").read_text(encoding="utf-8").rpartition("\n──\n")
    columns, lines = map(int, re.findall(r"^(\d+) × (\d+)", size)[0])
    found = re.search(r"cursor (\d+):(\d+)", size)
    styled = {
        int(line[:3]): RUN.findall(line[3:])
        for line in (FOLDER / walk / f"{state}.dark.styles").read_text(encoding="utf-8").splitlines()
        if line.strip()
    }
    rows = [_runs(row, styled.get(number, [])) for number, row in enumerate(text.split("\n"), start=1)]
    return StoredScreen(columns, lines, (int(found[1]), int(found[2])) if found else None, rows)


def _runs(row: str, styled: list[tuple[str, str]]) -> list[StyledRun]:
    """Return the row in runs; a styled one is the next place where its text stands."""
    runs, end = list[StyledRun](), 0
    for words, quoted in styled:
        text = ast.literal_eval(quoted)
        if (start := row.find(text, end)) < 0:
            continue  # a part of it differs from run to run
        runs += [_run(row, end, start, ""), _run(row, start, start + len(text), words)]
        end = start + len(text)
    runs.append(_run(row, end, len(row), ""))
    return [run for run in runs if run.text.strip() or "reverse" in run.style]


def _run(row: str, start: int, end: int, words: str) -> StyledRun:
    text = row[start:end]
    blanks = len(text) - len(text.lstrip()) if not words else 0
    return StyledRun(
        wcswidth(row[:start]) + blanks, text[blanks:].rstrip() if not words else text, frozenset(words.split())
    )


def picture() -> str:
    """Return the picture of one screen."""
    screen = load("memory", "picture")
    told = (
        "ikigai in a terminal: earlier turns, a forgotten one, the line where the memory begins, and the newest turns."
    )
    return _svg(screen, _frame(screen), told)


def recording() -> str:
    """Return the animation of the whole walk."""
    names = sorted(file.stem for file in (FOLDER / "tour").glob("*.txt") if file.stem >= FIRST)
    screens = [load(name) for name in names]
    wide = _size(screens[0])[0]
    seconds = [SECONDS.get(name, USUAL) for name in names]
    moves, passed = list[str](), 0.0
    for number, stay in enumerate(seconds):
        moves.append(f"{100 * passed / sum(seconds):.2f}%{{transform:translateX({-number * wide:g}px)}}")
        passed += stay
    style = (
        f"<style>@keyframes walk{{{''.join(moves)}}}.walk{{animation:walk {sum(seconds):g}s step-end infinite}}</style>"
    )
    frames = "".join(
        f'<g transform="translate({number * wide:g} 0)">{_frame(screen)}</g>' for number, screen in enumerate(screens)
    )
    told = "A session of ikigai: a question, an approved edit, search, forget and undo, and the start after a kill."
    return _svg(screens[0], f'{style}<g class="walk">{frames}</g>', told)


def _size(screen: StoredScreen) -> tuple[float, float]:
    return round(screen.columns * CELL + 2 * PAD), screen.lines * LINE + 2 * PAD


def _svg(screen: StoredScreen, content: str, told: str) -> str:
    wide, high = _size(screen)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" '
        f'font-family="{FONT}" font-size="14" fill="{INK}" role="img" aria-label="{escape(told)}">\n'
        f'<title>{escape(told)}</title>\n<rect width="{wide:g}" height="{high:g}" rx="8" fill="{GROUND}"/>\n'
        f"{content}\n</svg>\n"
    )


def _frame(screen: StoredScreen) -> str:
    parts = [_text(run, number) for number, row in enumerate(screen.rows) for run in row]
    if screen.cursor:
        y, x = screen.cursor
        place = f'x="{PAD + (x - 1) * CELL:g}" y="{PAD + (y - 1) * LINE + 2:g}"'
        parts.append(f'<rect {place} width="{CELL:g}" height="{LINE - 2}" fill="{INK}" opacity="0.7"/>')
    return "\n".join(parts)


def _text(run: StyledRun, row: int) -> str:
    """Return a run, stretched to its cells whatever font is there."""
    color = next((COLORS.get(word, word) for word in run.style if word in COLORS or re.match("#", word)), "")
    if not color:
        color = next((f"#{word}" for word in run.style if re.fullmatch("[0-9a-f]{6}", word)), "")
    attributes = f' fill="{color}"' * bool(color)
    attributes += ' font-weight="bold"' * ("bold" in run.style) + ' font-style="italic"' * ("italics" in run.style)
    attributes += ' opacity="0.62"' * ("dim" in run.style)
    attributes += ' text-decoration="underline"' * ("underscore" in run.style)
    wide = wcswidth(run.text) * CELL
    place = f'x="{PAD + run.column * CELL:g}" y="{PAD + row * LINE + 14:g}" textLength="{wide:g}"'
    return f'<text {place} xml:space="preserve"{attributes}>{escape(run.text)}</text>'
