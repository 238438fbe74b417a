"""Measure S2: S1 with a million events against ten, as a long history must not slow the start."""

from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.s01_start import start
from tests.bench.terminal import home, sample


def measure(quick: bool) -> list[Figure]:
    events, rounds = (20_000, 2) if quick else (1_000_000, 15)
    with histories.history(events) as long, histories.history(10) as short, home(long) as much, home(short) as little:
        long_starts, short_starts = sample([lambda: start(much), lambda: start(little)], rounds)
    (_, keys, turns), (_, base_keys, base_turns) = zip(*long_starts, strict=True), zip(*short_starts, strict=True)
    return [
        Figure("S2", f"keys, {events:,} events", "s", keys, "10 events", base_keys, 1.15),
        Figure("S2", f"last turns, {events:,} events", "s", turns, "10 events", base_turns, 1.15),
    ]
