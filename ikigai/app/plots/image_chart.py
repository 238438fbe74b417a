"""This module draws plots as PNG or SVG with matplotlib, from the extra `plot`: on white, and reproducible byte by
byte.

The user's matplotlib settings are ignored, no state is shared, and names are never parsed as mathematics.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

from ikigai.app.plots.data import PlotData, WindowHistory
from ikigai.app.plots.text_chart import short_cost, short_count
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.system.install_command import extra_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGE_SUFFIXES = (".png", ".svg")
INCHES, DPI = 9.0, 150
"""The width in inches, and dots per inch."""
MAX_DRAWN_VALUE = 1e15
"""Larger values are drawn as this: they are unrealistic, and numbers of hundreds of digits break scales."""
# From the palette of Okabe and Ito, which color-blind people can distinguish; hatches repeat the distinction.
FRESH_COLOR, CACHED_COLOR, OUTPUT_COLOR, COST_COLOR, EDGE_COLOR = "#0072b2", "#9ecae1", "#d55e00", "#009e73", "#333333"
LEGEND_OPTIONS: dict[str, Any] = {
    "loc": "lower left",
    "frameon": False,
    "ncols": 3,
    "bbox_to_anchor": (0, 1),
    "borderpad": 0.2,
}
MATPLOTLIB_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "ikigai",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def check() -> None:
    """Raise IkigaiError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise IkigaiError("Pictures in files need matplotlib.", f"Install it with: {extra_command('plot')}")


def draw_image(figures: PlotData, suffix: str) -> bytes:
    """Return the plot as bytes of a file with this suffix, one of IMAGE_SUFFIXES. The import takes seconds."""
    check()
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except (ImportError, OSError) as error:
        raise ConfigError("matplotlib is installed, but cannot be imported.", "Reinstall it.") from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")  # a name in a script that the font has not
        mpl.rcdefaults()
        mpl.rcParams.update(dict[Any, Any](MATPLOTLIB_SETTINGS))
        panels = 3 if figures.window else 2
        figure = Figure((INCHES, 2.7 * panels + 0.5), DPI, facecolor="white", layout="constrained")
        figure.suptitle(figures.title, fontweight="bold")
        above, below, *rest = figure.subplots(panels, 1)
        _tokens(above, figures)
        _costs(below, figures)
        for axes in rest:
            assert figures.window
            _window(axes, figures.window)
        file = io.BytesIO()
        date = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(file, format=suffix[1:], metadata=date)
    return file.getvalue()


def _tokens(axes: Axes, figures: PlotData) -> None:
    places = range(len(figures.rows))
    cached = [_height(of.cached) for _, of in figures.rows]
    fresh = [_height(of.input - of.cached) for _, of in figures.rows]
    out = [_height(of.output) for _, of in figures.rows]
    look: dict[str, Any] = {"edgecolor": EDGE_COLOR, "linewidth": 0.4}
    axes.bar(places, cached, color=CACHED_COLOR, hatch="///", label="in, read from a cache", **look)
    axes.bar(places, fresh, bottom=cached, color=FRESH_COLOR, label="in", **look)
    under = [low + high for low, high in zip(cached, fresh, strict=True)]
    axes.bar(places, out, bottom=under, color=OUTPUT_COLOR, hatch="...", label="out", **look)
    axes.set_ylabel("tokens")
    axes.yaxis.set_major_formatter(lambda value, place: short_count(int(value)))
    axes.legend(**LEGEND_OPTIONS)
    _names(axes, figures)


def _costs(axes: Axes, figures: PlotData) -> None:
    places = range(len(figures.rows))
    costs = [_height(of.known_cost or 0) for _, of in figures.rows]
    bars = axes.bar(places, costs, color=COST_COLOR, edgecolor=EDGE_COLOR, linewidth=0.4)
    axes.set_ylabel("cost in US dollars")
    axes.set_ylim(0, max(costs, default=0) * 1.15 or 1)
    labels = [short_cost(of) if of.requests and (of.cost or of.unpriced) else "" for _, of in figures.rows]
    axes.bar_label(bars, labels, fontsize=7, padding=2, rotation=90 if len(labels) > 12 else 0)
    if len(labels) > 12:
        axes.set_ylim(0, (axes.get_ylim()[1]) * 1.3)
    _names(axes, figures)
    if figures.notes:
        axes.set_xlabel("\n".join(figures.notes), loc="left", fontsize=8)


def _names(axes: Axes, figures: PlotData) -> None:
    names = [name if len(name) <= 24 else name[:23] + "…" for name, _ in figures.rows]
    turned = len(names) > 6 or any(len(name) > 12 for name in names)
    axes.set_xticks(range(len(names)), names, rotation=40 if turned else 0, ha="right" if turned else "center")
    axes.set_xlim(-0.7, max(len(names) - 0.3, 3))
    axes.tick_params("x", labelsize=7)


def _window(axes: Axes, window: WindowHistory) -> None:
    held = [_height(turn.tokens) for turn in window.turns]
    places = list(range(1, len(held) + 1))
    axes.bar(places, held, width=1, color=CACHED_COLOR, alpha=0.6)
    axes.step(places, held, where="mid", color=FRESH_COLOR, linewidth=1.2, label="in the window")
    if window.budget:
        axes.axhline(
            _height(window.budget), color=EDGE_COLOR, linestyle="--", linewidth=1, label=f"budget, {window.budget:,}"
        )
    pruned = [(place, high) for place, high, left in zip(places, held, window.left, strict=True) if left]
    if pruned:
        axes.plot(
            *zip(*pruned, strict=True), linestyle="", marker="v", color=OUTPUT_COLOR, label="turns left the window"
        )
    axes.set_title(f"The window of {window.agent}", loc="left", fontsize=9, pad=20)
    axes.set_ylabel("tokens")
    axes.set_xlabel("its newest turns" if len(held) > 1 else "its turn")
    axes.set_ylim(0, max((*held, _height(window.budget))) * 1.1)
    axes.set_xlim(0.5, max(len(held), 2) + 0.5)
    axes.yaxis.set_major_formatter(lambda value, place: short_count(int(value)))
    axes.legend(**LEGEND_OPTIONS)
    axes.locator_params("x", integer=True)


def _height(value: Any) -> float:
    return float(min(max(value, 0), int(MAX_DRAWN_VALUE)))
