"""Pictures in a terminal: every width, every figure, nothing that only a color says; and the same in words."""

import random
import re
from decimal import Decimal

import pytest

from ikigai.app.plots.command import draw_on_screen
from ikigai.app.plots.data import PlotData, WindowHistory
from ikigai.app.plots.text_chart import NO_REQUESTS, describe_plot, draw_text, short_cost, short_count
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.store.usage.window_history import WindowFill
from ikigai.terminal.render.styles import STYLE_THEMES as THEMES
from ikigai.terminal.render.text_width import cell_width
from ikigai.terminal.render.theme import Theme, strip_styles, terminal_theme

PLAIN, COLOURED = Theme(plain=True), Theme()


def of(tokens: int, cost: str | None, cached: int = 0) -> UsageTotals:
    unknown = cost is None
    return UsageTotals(1, input=tokens, cached=cached, cost=Decimal(cost or 0), unpriced=int(unknown))


def saw(count: int, budget: int = 100_000, seed: int = 1) -> WindowHistory:
    """A window that fills up and lets turns leave when it is full."""
    draw, held, out, turns = random.Random(seed), 5_000, 0, list[WindowFill]()
    for number in range(count):
        held += draw.randrange(500, 5_000)
        if held > budget:
            held, out = held - budget // 3, out + 7
        turns.append(WindowFill(float(number), held, out))
    return WindowHistory("calm-otter", turns, budget)


DAYS = [(f"2026-11-{day:02}", of(day * 1_000, f"{day / 100}", day * 300)) for day in range(1, 32)]
NAMES = [("a/b", of(5, None)), ("é漢字" * 30, of(10**300, "1e300")), ("", of(0, "0"))]


@pytest.mark.parametrize("width", [1, 20, 24, 40, 71, 72, 100, 300])
@pytest.mark.parametrize(
    ("by", "rows", "window"),
    [
        ("day", DAYS, saw(400)),
        ("model", NAMES, saw(1)),
        ("agent", NAMES[:1], None),
        ("hour", [("2026-11-22 14:00", of(0, "0"))], WindowHistory("x", [WindowFill(0.0, 1)], 0)),
        ("day", DAYS[:2], WindowHistory("y" * 200, [WindowFill(0.0, 3, 9), WindowFill(1.0, 10**300, 0)], 5)),
    ],
)
def test_it_fits_and_has_no_escapes_but_ours(by: str, rows: list, window: WindowHistory | None, width: int) -> None:
    figures = PlotData("Tokens and cost", by, rows, ("A note that is longer than some.",), window)
    bare = draw_text(figures, width, PLAIN)
    assert "\x1b" not in bare and "\r" not in bare
    assert max(cell_width(line) for line in bare.split("\n")) <= max(24, min(120, width))
    painted = draw_text(figures, width, COLOURED)
    assert "\n".join(map(strip_styles, painted.split("\n"))) == bare
    assert {*re.findall(r"\x1b\[[^m]*m", painted)} <= {"\x1b[1m", "\x1b[2m", "\x1b[0m"}, "no colours, so none is missed"


def test_bars_are_as_long_as_what_they_mean() -> None:
    rows = [("2026-11-01", of(800, "0.5")), ("2026-11-02", of(0, "0")), ("2026-11-03", of(1_600, "2", 800))]
    lines = draw_text(PlotData("t", "day", rows), 40, PLAIN).split("\n")
    assert lines[1].split() == ["tokens"] and lines[7].split() == ["cost"]
    first, second, third = (line.split() for line in lines[2:5])
    assert (first[0], second, third[0]) == ("11-01", ["11-02", "0"], "11-03") and lines[5].split() == ["total", "2.4k"]
    full = 40 - len("11-01  ") - len(" 1.6k") + (len("1.6k") - len("2.4k"))
    assert third[1] == "▒" * (full // 2) + "█" * (full - full // 2) and len(third[1]) == full
    assert first[1].rstrip("▌") == "█" * (full // 2)
    assert lines[8].split()[1:] == ["█" * 6 + "▎", "$0.5000"] and lines[10].split()[-1] == "$2.00"
    assert "▒ read from a cache" in lines


def test_both_beside_each_other_where_there_is_room() -> None:
    lines = draw_text(PlotData("t", "day", DAYS), 100, PLAIN).split("\n")
    assert lines[1].split() == ["tokens", "cost"] and len(lines) == 35
    assert lines[-2].split() == ["total", "496k", "$4.96"]


def test_cost_nobody_knows_is_no_bar() -> None:
    lines = draw_text(PlotData("t", "model", [("a/b", of(5, None)), ("c/d", of(5, "1"))]), 80, PLAIN).split("\n")
    assert lines[2].split()[2:] == ["5", "unknown"] and lines[3].split()[4:] == ["$1.00"]
    assert lines[3].split()[3].strip("█") == "" and lines[4].split() == ["total", "10", "≥$1.00"]
    assert "cost" not in draw_text(PlotData("t", "model", [("a/b", of(5, None))]), 80, PLAIN)


def test_window_shows_budget_and_what_left() -> None:
    window = saw(60)
    lines = draw_text(PlotData("t", "day", DAYS[:1], (), window), 80, PLAIN).split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("The window of calm-otter"))
    top, *rows, axis, arrows, budget, left = lines[start + 1 :]
    assert top.startswith("100k ┤") and "╌" in top and "╌" not in "".join(rows) and axis.startswith("   0 └──")
    gone = [number for number, turns in enumerate(window.left) if turns]
    assert [found.start() - 6 for found in re.finditer("↓", arrows)] == gone and len(gone) > 1
    assert budget == "╌ the budget, 100,000 tokens"
    assert left == f"↓ turns left the window: {len(gone)} times, {7 * len(gone)} in all"
    cells = ["".join(row.ljust(66)[6 + column] for row in (top, *rows)).strip(" ╌") for column in range(60)]
    for before, turn in zip(range(60), range(1, 60), strict=False):
        if window.left[turn]:
            assert len(cells[turn]) < len(cells[before]), "the tooth falls"


def test_budget_far_above_is_said() -> None:
    text = draw_text(PlotData("t", "day", DAYS[:1], (), WindowHistory("x", [WindowFill(0.0, 900)], 100_000)), 60, PLAIN)
    assert "The budget, 100,000 tokens, is far above." in text and "900 ┤███" in text
    text = draw_text(PlotData("t", "day", DAYS[:1], (), WindowHistory("x", [WindowFill(0.0, 900)])), 60, PLAIN)
    assert "There is no budget: no turn leaves the window." in text


def test_words_say_the_same() -> None:
    lines = describe_plot(PlotData("Tokens", "day", DAYS[:3], ("A note.",), saw(60))).split("\n")
    assert lines[1] == "2026-11-01: 1,000 tokens in (300 cached), 0 out, $0.0100, 1 request"
    assert lines[4] == "total: 6,000 tokens in (1,800 cached), 0 out, $0.0600, 3 requests"
    assert lines[7] == "The window of calm-otter, 30 turns; the budget is 100,000 tokens"
    assert len(lines) == 38 and any(line.endswith(" tokens, 7 turns left") for line in lines)
    assert not re.search("[▀-▟─-╿↓]", "\n".join(lines))


def test_screen_has_it_drawn_or_read() -> None:
    figures = PlotData("Tokens", "day", DAYS[:3], (), saw(60))
    for looks in (Theme(), Theme(color=False), terminal_theme({"TERM": "xterm", "NO_COLOR": "1"})):
        assert draw_on_screen(figures, 60, looks) == draw_text(figures, 60, looks)
    for looks in (Theme(words=True), terminal_theme({"TERM": "dumb"})):
        assert draw_on_screen(figures, 60, looks) == describe_plot(figures)
    for name in THEMES:
        assert "▒" in draw_on_screen(figures, 60, terminal_theme({"TERM": "xterm-256color"}, name=name)), name


def test_empty_ledger() -> None:
    nothing = PlotData("t", "day", [])
    assert draw_text(nothing, 80, COLOURED) == describe_plot(nothing) == NO_REQUESTS


def test_figures_are_short() -> None:
    assert [short_count(n) for n in (0, 999, 1_500, 2_000_000, 10**9, 10**300)] == [
        "0", "999", "1.5k", "2M", "1.0e9", "1.0e300",
    ]  # fmt: skip
    costs = ["0", "0.00001", "0.5", "9999", "123456.7", "1e9", "1e300"]
    assert [short_cost(of(1, cost)) for cost in costs] == [
        "$0.00", "<$0.0001", "$0.5000", "$9,999.00", "$123,457", "$1.0e9", "$1.0e300",
    ]  # fmt: skip
    assert short_cost(of(1, None)) == "unknown" and short_cost(of(1, None) + of(1, "1")) == "≥$1.00"
