"""Lay out what /help shows of the table of commands."""

import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from ikigai.core.commands.arguments import quoted
from ikigai.core.commands.key_actions import KEY_ACTIONS, bound_key
from ikigai.core.commands.spec import CommandSpec
from ikigai.core.commands.table import BY_NAME, COMMANDS
from ikigai.core.errors import Rejected, closest_names

NO_CHANGES: Mapping[str, tuple[str, ...]] = MappingProxyType({})
NO_NAMES: Mapping[str, str] = MappingProxyType({})
OWN_HEADING = "Yours"
MAX_OWN_NAMES = 40
"""Names of the user's that the overview has."""
ACTIONS_OF_COMMANDS = {
    "history": ("history",),
    "editor": ("editor",),
    "approve": ("cycle_approval",),
    "switch": ("parent_agent", "child_agent", "previous_agent", "next_agent"),
}
"""The actions of `core.commands.key_actions` that do the same as a command."""
MIN_WIDE_COLUMNS = 60
"""Columns below which headings and usages stand on lines of their own."""
INTRODUCTION = "Type a message or a command. ? on an empty line shows the keys."
FURTHER = "/help COMMAND explains one, /help all lists what each does, /help keys the keys."


def find_command(name: str) -> CommandSpec:
    """Return the command of this name, with or without its slash. Raise Rejected with the nearest names."""
    bare = name.removeprefix("/")
    if command := BY_NAME.get(bare):
        return command
    near = [f"/help {found}" for found in closest_names(bare[:40], BY_NAME, 3)]
    hint = f"Did you mean {' or '.join(near)}?" if near else "/help lists them."
    raise Rejected(f"There is no command {quoted('/' + bare)}.", hint)


def format_command(command: CommandSpec, key_changes: Mapping[str, tuple[str, ...]] = NO_CHANGES) -> str:
    """Return the help of one command: what it does, its usage, an example, its keys, and related commands.

    `key_changes` are the user's own keys, by the names of actions.
    """
    actions = (action for action in KEY_ACTIONS if action.name in ACTIONS_OF_COMMANDS.get(command.name, ()))
    keys = ((bound_key(action.name, key_changes), action.help) for action in actions)
    lines = [
        f"/{command.name}: {command.help}",
        command.usage,
        f"Example: {command.example}",
        f"Also typed: /{', /'.join(command.aliases)}" * bool(command.aliases),
        command.more,
        *(f"{key}: {effect}" for key, effect in keys if key),
        "Related: " + ", ".join(f"/{name}" for name in command.related.split()),
    ]
    return "\n".join(filter(None, lines))


def format_overview(columns: int, own: Mapping[str, str] = NO_NAMES) -> str:
    """Return the names of all commands by group, in lines of at most `columns` cells; `own` are the user's names, each
    with its help.
    """
    wide = max(len(command.group) for command in COMMANDS) + 2
    rows = [*textwrap.wrap(INTRODUCTION, columns), ""]
    groups = {
        heading: " ".join(f"/{command.name}" for command in group)
        for heading, group in groupby(COMMANDS, attrgetter("group"))
    }
    if own:
        groups[OWN_HEADING] = " ".join([f"/{name}" for name in own][:MAX_OWN_NAMES]) + " …" * (len(own) > MAX_OWN_NAMES)
    for heading, names in groups.items():
        if columns < MIN_WIDE_COLUMNS:
            rows += [heading, *_filled(names, "  ", columns)]
        else:
            first, *others = _filled(names, " " * wide, columns)
            rows += [f"{heading:<{wide}}{first.strip()}", *others]
    return "\n".join([*rows, "", *textwrap.wrap(FURTHER, columns)])


def format_all(columns: int, own: Mapping[str, str] = NO_NAMES) -> str:
    """Return a line for every command, and for `own` names of the user's, by group, in lines of at most `columns`
    cells.
    """
    groups = {
        heading: [(f"/{each.name} {each.argument}".strip(), each.help) for each in group]
        for heading, group in groupby(COMMANDS, attrgetter("group"))
    }
    if own:
        groups[OWN_HEADING] = [(f"/{name}", help or "(no description)") for name, help in own.items()]
    return "\n\n".join(
        "\n".join([heading, *(row for typed, help in rows for row in _row(typed, help, columns))])
        for heading, rows in groups.items()
    )


def _row(typed: str, help: str, columns: int) -> Iterator[str]:
    column = min(28, columns // 3)
    first, *others = _filled(help, " " * (column + 2), columns)
    if len(typed) + 2 > column or columns < MIN_WIDE_COLUMNS:
        yield from _filled(typed, "  ", columns)
        yield first
    else:
        yield f"  {typed:<{column}}{first.strip()}"
    yield from others


def _filled(text: str, indent: str, columns: int) -> list[str]:
    wide = max(columns, len(indent) + 8)
    rows = textwrap.wrap(text, wide, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [row.rstrip() for row in rows]
