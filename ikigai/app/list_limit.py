"""Limit printed lists: their default length, and the effect of --limit."""

import argparse

MAX_PRINTED_ROWS = 100
"""Rows that are printed as text by default. In a tree of agents, the ancestors of listed agents are not counted."""
MAX_LIMIT_DIGITS = 9


def parse_limit(text: str) -> int:
    """Parse the number of rows of a list; 0 stands for all. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_LIMIT_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; 0 lists all")
    return int(text)


def resolve_limit(limit: int | None, is_for_script: bool) -> int | None:
    """Return how many rows to print, None for all. Scripts get all unless `limit`, the value of --limit, is given."""
    if limit is None:
        return None if is_for_script else MAX_PRINTED_ROWS
    return limit or None
