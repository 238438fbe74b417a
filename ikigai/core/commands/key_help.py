"""Lay out the list of keys that ? and /keys show."""

import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby

from ikigai.core.commands.key_actions import KEY_ACTIONS, KeyAction, active_keys, key_label

FIXED_KEYS = (
    ("Up, Down", "edit a queued message; go through earlier messages"),
    ("Right, End", "accept the suggestion after the cursor"),
    ("/  @  !", "begin a command; attach a file; run a shell command"),
)
"""Keys that cannot be changed, and their effects."""
MIN_WIDE_COLUMNS = 60
"""Columns below which effects stand right after their keys."""
NO_KEY = "no key"


def key_rows(changes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the keys of each action and its effect; `changes` are the user's own keys, by the names of actions."""
    for action in KEY_ACTIONS:
        yield _labels(action, changes), action.help
    yield from FIXED_KEYS


def format_keys(columns: int, changes: Mapping[str, tuple[str, ...]]) -> str:
    """Return the list of keys in lines of at most `columns` cells: 21 where they are not narrow."""
    rows = list(_shared_rows(changes))
    wide = max(len(keys) for keys, _ in rows) + 2
    lines: list[str] = []
    for keys, effect in rows:
        if columns < MIN_WIDE_COLUMNS:
            lines += textwrap.wrap(f"{keys}: {effect}", columns, subsequent_indent="  ")
        else:
            lines += textwrap.wrap(f"{keys:<{wide}}{effect}", columns, subsequent_indent=" " * wide)
    return "\n".join(lines)


def _shared_rows(changes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the list, in which the actions of a pair share one."""
    for effect, actions in groupby(KEY_ACTIONS, lambda action: action.pair or action.help):
        yield ", ".join(_labels(action, changes) for action in actions), effect
    yield from FIXED_KEYS


def _labels(action: KeyAction, changes: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(map(key_label, active_keys(changes)[action.name])) or NO_KEY
