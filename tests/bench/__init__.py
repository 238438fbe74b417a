"""Measure speed as ratios, both sides side by side in one run: `python -m tests.bench`."""
