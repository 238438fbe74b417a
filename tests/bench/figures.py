"""Results of the bench: figures beside their references, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One measured thing and its reference, both sampled in turns in the same run.

    `unit` is of the samples of both sides: "s", "B", or a word for what is counted. `bar` is the highest permitted
    ratio of the medians; without one the figure is only reported.
    """

    row: str
    what: str
    unit: str
    samples: Sequence[float]
    against: str
    base_samples: Sequence[float]
    bar: float | None = None

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def base(self) -> float:
        return median(self.base_samples)

    @property
    def ratio(self) -> float:
        return self.value / self.base

    @property
    def holds(self) -> bool | None:
        return None if self.bar is None else self.ratio <= self.bar


def percentile(samples: Iterable[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def table(figures: Iterable[Figure]) -> str:
    rows = [("id", "what", "figure", "against", "", "ratio", "bar", "holds?")]
    for figure in figures:
        value, base = _shown(figure.value, figure.unit), _shown(figure.base, figure.unit)
        bar = "" if figure.bar is None else f"≤ {figure.bar:.4g}"
        holds = {True: "yes", False: "NO", None: ""}[figure.holds]
        rows.append((figure.row, figure.what, value, figure.against, base, _ratio(figure), bar, holds))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _ratio(figure: Figure) -> str:
    """Return three digits, but never rounded onto a bar that the ratio misses."""
    shown = f"{figure.ratio:.3g}"
    return shown if figure.bar is None or (float(shown) <= figure.bar) is figure.holds else f"{figure.ratio:.5g}"


def as_json(figure: Figure) -> dict[str, Any]:
    """Return all data of a figure; times are seconds, sizes bytes."""
    return {
        "id": figure.row,
        "what": figure.what,
        "unit": figure.unit,
        "figure": figure.value,
        "range": [min(figure.samples), max(figure.samples)],
        "against": figure.against,
        "base": figure.base,
        "base_range": [min(figure.base_samples), max(figure.base_samples)],
        "samples": len(figure.samples),
        "ratio": figure.ratio,
        "bar": figure.bar,
        "holds": figure.holds,
    }


def _shown(value: float, unit: str) -> str:
    match unit:
        case "s" if value >= 1:
            return f"{value:.2f} s"
        case "s" if value >= 0.001:
            return f"{value * 1e3:.3g} ms"
        case "s":
            return f"{value * 1e6:.3g} µs"
        case "B" if value >= 1 << 20:
            return f"{value / (1 << 20):.1f} MiB"
        case "B":
            return f"{value:,.0f} bytes"
        case _:
            return f"{value:,.0f} {unit}"
