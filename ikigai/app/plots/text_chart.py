"""Draws figures with characters for a terminal of any width, or says them in words; shapes mean things, colours do not.

A bar ends to an eighth of a cell; what a cache held is hatched. The window has a column for each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from ikigai.app.plots.data import Figures, Window
from ikigai.core.sanitize import clean
from ikigai.core.tokens import short
from ikigai.core.views.usage_totals import Spent, dollars, total
from ikigai.terminal.render.text_width import columns, cut, wrap
from ikigai.terminal.render.theme import Theme

NARROWEST, WIDEST = 24, 120
"""Cells that a picture takes; in less it is drawn all the same."""
BESIDE = 72
"""Cells from which cost stands beside tokens instead of below."""
LONGEST_NAME = 24
HEIGHT = 8
"""Rows of the window's picture."""
ACROSS, UP = " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█"
HATCHED, LINE, LEFT = "▒", "╌", "↓"
NOTHING = "There are no requests to add up."
SAID = 30
"""Turns that are told in words, at most."""


def drawn(figures: Figures, width: int, theme: Theme) -> str:
    """The picture in at most `width` cells (24 at least), its escapes the theme's own."""
    if not figures.rows:
        return NOTHING
    width = max(NARROWEST, min(WIDEST, width))
    lines = [theme.paint("bold", cut(figures.title, width)), *_bars(figures, width)]
    if any(of.cached for _, of in figures.rows):
        lines.append(theme.paint("dim", cut(f"{HATCHED} read from a cache", width)))
    lines += _folded(figures.notes, width)
    if figures.window:
        lines += ["", *_sawtooth(figures.window, width, theme)]
    return "\n".join(line.rstrip() for line in lines)


def worded(figures: Figures) -> str:
    """The same without a picture: a line for each bar and each turn, for those who have it read to them."""
    if not figures.rows:
        return NOTHING
    lines = [figures.title, *(f"{name}: {_said(of)}" for name, of in figures.rows if of.requests)]
    lines += [f"total: {_said(total(of for _, of in figures.rows))}", *figures.notes]
    if window := figures.window:
        budget = f"the budget is {window.budget:,} tokens" if window.budget else "there is no budget"
        lines += ["", f"The window of {window.agent}, {_turns(len(window.turns[-SAID:]))}; {budget}"]
        for turn, left in list(zip(window.turns, window.left, strict=True))[-SAID:]:
            lines.append(f"{turn.tokens:,} tokens" + (f", {_turns(left)} left" if left else ""))
    return clean("\n".join(lines))


def _said(of: Spent) -> str:
    cached = f" ({of.cached:,} cached)" if of.cached else ""
    requests = "1 request" if of.requests == 1 else f"{of.requests:,} requests"
    known = f"{money(of)}" if of.known_cost is not None else "cost unknown"
    return f"{of.input:,} tokens in{cached}, {of.output:,} out, {known}, {requests}"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


def amount(tokens: int) -> str:
    """A count in seven characters at most."""
    return short(tokens) if tokens < 10**9 else f"{Decimal(tokens):.1e}".replace("e+", "e")


def money(of: Spent) -> str:
    """A cost in few characters; a question mark stands for what nobody knows."""
    if of.known_cost is None:
        return "?"
    known = of.known_cost
    text = dollars(known) if known < 10**4 else f"${known:,.0f}" if known < 10**7 else f"${known:.1e}"
    return text.replace("e+", "e") + "+?" * bool(of.unpriced)


# ── bars ──


def _bars(figures: Figures, width: int) -> Iterator[str]:
    rows = [(_shortened(figures.by, name), of) for name, of in figures.rows]
    whole = total(of for _, of in rows)
    names = [cut(name, min(LONGEST_NAME, width // 3)) for name, _ in rows]
    edge = max(map(columns, (*names, "total")))
    priced = whole.known_cost is not None
    counts = [_Row(of.input + of.output, of.cached, amount(of.input + of.output)) for _, of in (*rows, ("", whole))]
    costs = [_Row(of.known_cost or Decimal(0), 0, money(of) if of.requests else "") for _, of in (*rows, ("", whole))]
    both = width >= BESIDE and priced
    room = (width - edge - 4) // 2 if both else width - edge - 2
    panels = [_panel("tokens", counts, room), *([_panel("cost", costs, room)] if priced else ())]
    named = [name + " " * (edge - columns(name)) for name in ("", *names, "total")]
    if both:
        for name, first, second in zip(named, *panels, strict=True):
            yield f"{name}  {first}  {second}"
        return
    for number, panel in enumerate(panels):
        if number:
            yield ""
        for name, line in zip(named, panel, strict=True):
            yield f"{name}  {line}"


class _Row:
    """One bar: how long it is, how much of it is hatched, and the figure behind it."""

    __slots__ = ("hatched", "label", "value")

    def __init__(self, value: int | Decimal, hatched: int, label: str) -> None:
        self.value, self.hatched, self.label = value, hatched, label


def _panel(head: str, rows: Sequence[_Row], width: int) -> list[str]:
    """A heading, a bar and its figure for each row, and for the last, which is the sum, only that."""
    figure = max(len(row.label) for row in rows)
    cells = max(1, width - figure - 1)
    most = max((row.value for row in rows[:-1]), default=0)
    made = [f"{head:<{width}}"]
    for row in rows[:-1]:
        bar = _bar(row, most, cells)
        made.append(f"{bar:<{cells}} {row.label:>{figure}}")
    return [*made, f"{'':<{cells}} {rows[-1].label:>{figure}}"]


def _bar(row: _Row, most: int | Decimal, cells: int) -> str:
    if row.value <= 0 or most <= 0:
        return ""
    whole, rest = divmod(max(1, int(row.value * cells * 8 // most)), 8)
    hatched = min(whole, int(row.hatched * cells // most))
    return HATCHED * hatched + ACROSS[8] * (whole - hatched) + ACROSS[rest].strip()


def _shortened(by: str, name: str) -> str:
    """A moment without its year where the picture is too short to need one."""
    return name[5:] if by in ("hour", "day") and name[:4].isdecimal() else name


# ── the window ──


def _sawtooth(window: Window, width: int, theme: Theme) -> Iterator[str]:
    most = max(turn.tokens for turn in window.turns)
    shown = 0 < window.budget <= 4 * most  # else the turns would lie flat below it
    top = max(most, window.budget) if shown else most
    scale = max(len(amount(top)), len(amount(top // 2)))
    room = width - scale - 2
    turns, left = window.turns[-room:], window.left[-room:]
    step = max(1, min(4, room // len(turns)))
    for line in _folded([f"The window of {window.agent}, in tokens: {_turns(len(turns))}"], width):
        yield theme.paint("bold", line)
    levels = [max(1, turn.tokens * HEIGHT * 8 // top) for turn in turns]
    budget = -(-window.budget * HEIGHT // top) if shown else 0
    ticks = {HEIGHT: amount(top), HEIGHT // 2: amount(top // 2)}
    for row in range(HEIGHT, 0, -1):
        cells = [UP[min(8, max(0, level - 8 * (row - 1)))] for level in levels]
        if row == budget:
            cells = [LINE if cell == " " else cell for cell in cells]
        gap = LINE if row == budget else " "
        line = "".join(cell * (step - (step > 2)) + gap * (step > 2) for cell in cells)
        yield f"{ticks.get(row, ''):>{scale}} {'┤' if row in ticks else '│'}{line}"
    yield f"{'0':>{scale}} └{'─' * (step * len(turns))}"
    if any(left):
        yield " " * (scale + 2) + "".join((LEFT if gone else " ").ljust(step) for gone in left)
    yield from (theme.paint("dim", line) for line in _folded(_legend(window, left, shown), width))


def _legend(window: Window, left: Sequence[int], shown: bool) -> Iterator[str]:
    if shown:
        yield f"{LINE} the budget, {window.budget:,} tokens"
    elif window.budget:
        yield f"The budget, {window.budget:,} tokens, is far above."
    else:
        yield "There is no budget: nothing slides out."
    if times := sum(map(bool, left)):
        often = "once" if times == 1 else f"{times:,} times"
        yield f"{LEFT} turns left the window: {often}, {sum(left):,} in all"


def _folded(lines: Iterable[str], width: int) -> list[str]:
    """Sentences broken at words."""
    return [row for line in lines for row in wrap(line, width)]
