"""The tests: one folder for each package of ikigai, end-to-end tests, helpers in `support`, and the benchmarks."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
GOLDEN = ROOT / "tests" / "golden"
"""Stored vectors, streams and screens."""
