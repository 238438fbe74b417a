"""This module lays out the list of keys that ? and /keys show."""

import textwrap
from collections.abc import Iterator, Mapping

from ikigai.core.key_actions import KEY_ACTIONS, active_keys, key_label

FIXED_KEYS = (
    ("?", "list these keys, on an empty line"),
    ("Up, Down", "edit a queued message; go through earlier messages"),
    ("Right, End", "accept the suggestion after the cursor"),
    ("\\ Enter", "insert a line"),
    ("/  @  !", "begin a command; attach a file; run a shell command"),
)
"""Keys that cannot be changed, and their effects."""
NARROW = 60
"""Columns below which an effect stands under its keys."""
NO_KEY = "no key"


def key_rows(changes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the keys of each action and its effect; `changes` are the user's own keys, by the names of actions."""
    active = active_keys(changes)
    for action in KEY_ACTIONS:
        yield ", ".join(map(key_label, active[action.name])) or NO_KEY, action.help
    yield from FIXED_KEYS


def format_keys(columns: int, changes: Mapping[str, tuple[str, ...]]) -> str:
    """Return the list of keys in lines of at most `columns` cells."""
    rows = list(key_rows(changes))
    wide = max(len(keys) for keys, _ in rows)
    lines: list[str] = []
    for keys, effect in rows:
        indent = "  " if columns < NARROW else " " * (wide + 2)
        wrapped = textwrap.wrap(effect, max(columns - len(indent), 8))
        if columns < NARROW:
            lines += textwrap.wrap(keys, columns)
        else:
            lines.append(f"{keys:<{wide}}  {wrapped.pop(0)}")
        lines += [indent + line for line in wrapped]
    return "\n".join(lines)
