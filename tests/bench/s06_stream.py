"""Measure S6: CPU to show a Markdown answer while it streams in, against drawing it once when complete."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.terminal import Terminal, home


def measure(quick: bool) -> list[Figure]:
    return compare(1_000, 4_000, rounds=1) if quick else compare(5_000, 50_000, rounds=5)


def compare(short: int, long: int, rounds: int) -> list[Figure]:
    """Compare answers of `short` and `long` bytes, `rounds` times each side."""
    with TemporaryDirectory() as folder, home() as environ:
        file = Path(folder) / "times"
        terminal = Terminal(("-m", "tests.bench.streaming", *map(str, (short, long, rounds, file))), environ)
        terminal.until_end()
        streamed, rendered, begun = zip(*json.loads(file.read_text()), strict=True)
    size, share = f"{long / 1000:g} KB", long / short
    return [
        Figure("S6", f"CPU to stream {size} in deltas", "s", streamed, "one final rich render", rendered, 2.0),
        Figure("S6", f"CPU to stream {size} in deltas", "s", streamed, f"{short / 1000:g} KB", begun, 1.5 * share),
    ]
