"""Speed as ratios, both sides measured side by side in one run: `python -m tests.bench`."""
