"""Draw plots with characters for a terminal of any width, or describe them in words. No meaning is only in colors.

A bar is exact to an eighth of a cell; its cached part is hatched. The window has a column for each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from ikigai.app.plots.data import PlotData, WindowHistory
from ikigai.core.text.sanitize import clean
from ikigai.core.text.tokens import format_tokens
from ikigai.core.views.usage_totals import NO_PRICE, UsageTotals, at_least, format_dollars, sum_totals
from ikigai.terminal.render.text_width import cell_width, cut, wrap
from ikigai.terminal.render.theme import Theme

MIN_CHART_CELLS, MAX_CHART_CELLS = 24, 120
"""Width of a plot in cells; a narrower terminal also gets the minimum."""
MIN_WIDTH_SIDE_BY_SIDE = 72
"""Width in cells from which cost stands beside tokens instead of below."""
MAX_LABEL_WIDTH = 24
CHART_ROWS = 8
"""Rows of the window's plot."""
HORIZONTAL_BARS, VERTICAL_BARS = " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█"
CACHED_BAR, BUDGET_LINE, PRUNE_SIGN = "▒", "╌", "↓"
NO_REQUESTS = "No requests were found."
MAX_DESCRIBED_TURNS = 30
"""Turns that are described in words at most."""


def draw_text(figures: PlotData, width: int, theme: Theme) -> str:
    """Return the plot in at most `width` cells (24 at least), painted with `theme`."""
    if not figures.rows:
        return NO_REQUESTS
    width = max(MIN_CHART_CELLS, min(MAX_CHART_CELLS, width))
    lines = [theme.paint("bold", cut(figures.title, width)), *_bars(figures, width)]
    if any(of.cached for _, of in figures.rows):
        lines.append(theme.paint("dim", cut(f"{CACHED_BAR} read from a cache", width)))
    lines += _wrap(figures.notes, width)
    if figures.window:
        lines += ["", *_sawtooth(figures.window, width, theme)]
    return "\n".join(line.rstrip() for line in lines)


def describe_plot(figures: PlotData) -> str:
    """Return the plot in words, for a screen reader: a line for each bar and each turn."""
    if not figures.rows:
        return NO_REQUESTS
    lines = [figures.title, *(f"{name}: {_describe(of)}" for name, of in figures.rows if of.requests)]
    lines += [f"total: {_describe(sum_totals(of for _, of in figures.rows))}", *figures.notes]
    if window := figures.window:
        budget = f"the budget is {window.budget:,} tokens" if window.budget else "there is no budget"
        lines += [
            "",
            f"The window of {window.agent}, {_count_turns(len(window.turns[-MAX_DESCRIBED_TURNS:]))}; {budget}",
        ]
        for turn, left in list(zip(window.turns, window.left, strict=True))[-MAX_DESCRIBED_TURNS:]:
            lines.append(f"{turn.tokens:,} tokens" + (f", {_count_turns(left)} left" if left else ""))
    return clean("\n".join(lines))


def _describe(of: UsageTotals) -> str:
    cached = f" ({of.cached:,} cached)" if of.cached else ""
    requests = "1 request" if of.requests == 1 else f"{of.requests:,} requests"
    known = f"{short_cost(of)}" if of.known_cost is not None else NO_PRICE
    return f"{of.input:,} tokens in{cached}, {of.output:,} out, {known}, {requests}"


def _count_turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


def short_count(tokens: int) -> str:
    """Return a count in seven characters at most."""
    return format_tokens(tokens) if tokens < 10**9 else f"{Decimal(tokens):.1e}".replace("e+", "e")


def short_cost(of: UsageTotals) -> str:
    """Return a cost in few characters: a lower bound if a part is unknown."""
    if of.known_cost is None:
        return "unknown"
    known = of.known_cost
    text = format_dollars(known) if known < 10**4 else f"${known:,.0f}" if known < 10**7 else f"${known:.1e}"
    return at_least(text.replace("e+", "e"), of)


# ── bars ──


def _bars(figures: PlotData, width: int) -> Iterator[str]:
    rows = [(_short_day(figures.by, name), of) for name, of in figures.rows]
    whole = sum_totals(of for _, of in rows)
    names = [cut(name, min(MAX_LABEL_WIDTH, width // 3)) for name, _ in rows]
    edge = max(map(cell_width, (*names, "total")))
    priced = whole.known_cost is not None
    counts = [
        _Row(of.input + of.output, of.cached, short_count(of.input + of.output)) for _, of in (*rows, ("", whole))
    ]
    costs = [
        _Row(of.known_cost or Decimal(0), 0, short_cost(of) if of.requests else "") for _, of in (*rows, ("", whole))
    ]
    both = width >= MIN_WIDTH_SIDE_BY_SIDE and priced
    room = (width - edge - 4) // 2 if both else width - edge - 2
    panels = [_panel("tokens", counts, room), *([_panel("cost", costs, room)] if priced else ())]
    named = [name + " " * (edge - cell_width(name)) for name in ("", *names, "total")]
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
    """One bar: its value, the hatched part of it, and its label."""

    __slots__ = ("hatched", "label", "value")

    def __init__(self, value: int | Decimal, hatched: int, label: str) -> None:
        self.value, self.hatched, self.label = value, hatched, label


def _panel(head: str, rows: Sequence[_Row], width: int) -> list[str]:
    """Return a heading, a bar and label for each row, and only the label for the last one, the total."""
    label_width = max(len(row.label) for row in rows)
    cells = max(1, width - label_width - 1)
    most = max((row.value for row in rows[:-1]), default=0)
    lines = [f"{head:<{width}}"]
    for row in rows[:-1]:
        bar = _bar(row, most, cells)
        lines.append(f"{bar:<{cells}} {row.label:>{label_width}}")
    return [*lines, f"{'':<{cells}} {rows[-1].label:>{label_width}}"]


def _bar(row: _Row, most: int | Decimal, cells: int) -> str:
    if row.value <= 0 or most <= 0:
        return ""
    whole, rest = divmod(max(1, int(row.value * cells * 8 // most)), 8)
    hatched = min(whole, int(row.hatched * cells // most))
    return CACHED_BAR * hatched + HORIZONTAL_BARS[8] * (whole - hatched) + HORIZONTAL_BARS[rest].strip()


def _short_day(by: str, name: str) -> str:
    """Return the time without its year if the plot is too short to need one."""
    return name[5:] if by in ("hour", "day") and name[:4].isdecimal() else name


# ── the window ──


def _sawtooth(window: WindowHistory, width: int, theme: Theme) -> Iterator[str]:
    most = max(turn.tokens for turn in window.turns)
    shown = 0 < window.budget <= 4 * most  # else the turns would lie flat below it
    top = max(most, window.budget) if shown else most
    scale = max(len(short_count(top)), len(short_count(top // 2)))
    room = width - scale - 2
    turns, left = window.turns[-room:], window.left[-room:]
    step = max(1, min(4, room // len(turns)))
    for line in _wrap([f"The window of {window.agent}, in tokens: {_count_turns(len(turns))}"], width):
        yield theme.paint("bold", line)
    levels = [max(1, turn.tokens * CHART_ROWS * 8 // top) for turn in turns]
    budget = -(-window.budget * CHART_ROWS // top) if shown else 0
    ticks = {CHART_ROWS: short_count(top), CHART_ROWS // 2: short_count(top // 2)}
    for row in range(CHART_ROWS, 0, -1):
        cells = [VERTICAL_BARS[min(8, max(0, level - 8 * (row - 1)))] for level in levels]
        if row == budget:
            cells = [BUDGET_LINE if cell == " " else cell for cell in cells]
        gap = BUDGET_LINE if row == budget else " "
        line = "".join(cell * (step - (step > 2)) + gap * (step > 2) for cell in cells)
        yield f"{ticks.get(row, ''):>{scale}} {'┤' if row in ticks else '│'}{line}"
    yield f"{'0':>{scale}} └{'─' * (step * len(turns))}"
    if any(left):
        yield " " * (scale + 2) + "".join((PRUNE_SIGN if gone else " ").ljust(step) for gone in left)
    yield from (theme.paint("dim", line) for line in _wrap(_legend(window, left, shown), width))


def _legend(window: WindowHistory, left: Sequence[int], shown: bool) -> Iterator[str]:
    if shown:
        yield f"{BUDGET_LINE} the budget, {window.budget:,} tokens"
    elif window.budget:
        yield f"The budget, {window.budget:,} tokens, is far above."
    else:
        yield "There is no budget: no turn leaves the window."
    if times := sum(map(bool, left)):
        often = "once" if times == 1 else f"{times:,} times"
        yield f"{PRUNE_SIGN} turns left the window: {often}, {sum(left):,} in all"


def _wrap(lines: Iterable[str], width: int) -> list[str]:
    """Return the lines wrapped at words."""
    return [row for line in lines for row in wrap(line, width)]
