"""This module limits lists that are printed: how long they are by default, and the argument of --limit."""

import argparse

MAX_PRINTED_ROWS = 100
"""Rows that are printed as text, unless others are asked for."""
MAX_LIMIT_DIGITS = 9


def parse_limit(text: str) -> int:
    """Parse the number of rows of a list; 0 stands for all. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_LIMIT_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; 0 lists all")
    return int(text)
