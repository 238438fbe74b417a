"""Options of printed lists: --limit with the default length, and --since."""

import argparse
import re
from datetime import date, datetime, timedelta

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


def parse_since(text: str) -> date:
    """Parse DATE or Nd as a day in the local time zone. Raise ArgumentTypeError."""
    if re.fullmatch("[1-9][0-9]{0,3}d", text):
        return date.today() - timedelta(days=int(text[:-1]) - 1)
    try:
        day = date.fromisoformat(text if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else "")
        day_start(day)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date; write 2026-11-30, or 7d for the last seven"
        ) from None
    return day


def day_start(day: date) -> float:
    """Return the beginning of the day in the local time zone, in seconds since 1970."""
    return datetime(day.year, day.month, day.day).timestamp()
