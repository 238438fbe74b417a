"""Tree of commands from which the scripts of all shells are written."""

from __future__ import annotations

from typing import NamedTuple

FILES, MENTIONS, NOTHING = "files", "mentions", ""
AGENTS, MODELS, PROFILES, PROVIDERS, SERVERS = "agents", "models", "profiles", "providers", "servers"
KEYS, KEY_VALUES = "keys", "settings"
"""Kinds of values that are not one of a few. A mention is a file behind an @; a setting is a key and then its value."""
NAMES = (AGENTS, MODELS, PROFILES, PROVIDERS, SERVERS, KEYS)
"""Kinds of names that `ikigai completion --names` lists."""


class Option(NamedTuple):
    """An option of a command.

    `flags` are its names. `takes` is True if a value follows, which is one of `values`, or else of the `kind`. The
    value can be left out if it is `optional`.
    """

    flags: tuple[str, ...]
    help: str
    takes: bool
    values: tuple[str, ...]
    kind: str
    optional: bool = False


class Node(NamedTuple):
    """One command: the words that lead to it, its help, its options, its subcommands, and the values of its
    arguments.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    commands: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    kind: str
