"""This module holds the groups, examples and related commands of the help, and lays out what /help shows."""

import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ikigai.core.commands.arguments import quoted
from ikigai.core.commands.spec import CommandSpec
from ikigai.core.commands.table import BY_NAME, COMMANDS
from ikigai.core.errors import Rejected, closest_names
from ikigai.core.key_actions import KEY_ACTIONS, bound_key

# fmt: off
HELP_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Basics": {
        "help": ("/help forget", "keys"),
        "keys": ("/keys", "help"),
        "model": ("/model openai/gpt-5-mini:low", "think login profile"),
        "login": ("/login anthropic", "model doctor"),
        "new": ("/new side-project", "switch fork clear"),
        "switch": ("/switch side-project", "agents new fork"),
        "clear": ("/clear", "undo rewind new"),
        "undo": ("/undo", "redo rewind"),
        "retry": ("/retry", "edit undo"),
        "edit": ("/edit", "retry rewind editor"),
        "copy": ("/copy 2", "export history"),
        "search": ('/search "sliding window" token*', "recall history quote"),
        "history": ("/history", "search rewind"),
        "exit": ("/exit", "switch"),
    },
    "Context": {
        "context": ("/context", "budget status"),
        "budget": ("/budget 60k", "context condense"),
        "mark": ("/mark before the rewrite", "rewind"),
        "rewind": ("/rewind before the rewrite", "mark undo retry"),
        "redo": ("/redo", "undo"),
        "forget": ("/forget last 2", "remember undo rewind"),
        "remember": ("/remember all about the parser", "forget undo"),
        "condense": ("/condense paths and decisions", "summary budget undo"),
        "summary": ("/summary", "condense context"),
        "pin": ("/pin docs/rules.md", "unpin system"),
        "unpin": ("/unpin docs/rules.md", "pin"),
        "system": ("/system Answer in one sentence.", "pin profile"),
    },
    "Models": {
        "think": ("/think high", "model profile"),
        "profile": ("/profile cheap", "model think config"),
        "cost": ("/cost --plot", "limit status context"),
        "limit": ("/limit day 5", "cost config"),
    },
    "Agents": {
        "fork": ('/fork --name tests "Write tests for it."', "agents switch send"),
        "agents": ("/agents --all", "switch fork wait"),
        "send": ('/send tests "Look at the parser, too."', "answer wait agents"),
        "answer": ("/answer tests", "agents switch"),
        "wait": ("/wait tests", "agents send"),
        "rename": ("/rename parser", "agents"),
        "share": ("/share parser with anna write", "agents fork"),
        "kill": ("/kill tests", "revive archive agents"),
        "archive": ("/archive tests", "revive kill agents"),
        "revive": ("/revive tests", "kill archive agents"),
        "takeover": ("/takeover", "switch agents"),
    },
    "History": {
        "recall": ("/recall why we chose PostgreSQL", "search quote"),
        "quote": ("/quote 4711", "search recall"),
        "btw": ("/btw what does this flag do?", "recall fork"),
        "export": ("/export talk.md", "copy history"),
    },
    "Tools": {
        "approve": ("/approve edits", "tools trust"),
        "tools": ("/tools off web", "approve trust mcp"),
        "mcp": ("/mcp", "tools trust"),
        "trust": ("/trust yes", "approve init"),
        "init": ("/init", "trust pin"),
    },
    "Program": {
        "status": ("/status", "context cost config"),
        "config": ("/config terminal.theme", "theme keys"),
        "theme": ("/theme light", "config"),
        "doctor": ("/doctor", "login status"),
        "commands": ("/commands", "help init trust"),
        "editor": ("/editor", "edit keys"),
    },
}
"""An example of each command and the commands related to it, by group, in the order of help and menu."""
# fmt: on

ORDER = {name: place for place, name in enumerate(name for group in HELP_GROUPS.values() for name in group)}
"""The place of each command in help and menu."""
NO_CHANGES: Mapping[str, tuple[str, ...]] = MappingProxyType({})
ACTIONS_OF_COMMANDS = {
    "history": ("history",),
    "editor": ("editor",),
    "approve": ("cycle_approval",),
    "switch": ("parent_agent", "child_agent", "previous_agent", "next_agent"),
}
"""The actions of `core.key_actions` that do the same as a command."""
MIN_WIDE_COLUMNS = 60
"""Columns below which headings and usages stand on lines of their own."""
INTRODUCTION = "Type a message or a command. ? on an empty line shows the keys."
FURTHER = "/help COMMAND explains one, /help all lists what each does, /help keys the keys."


def sorted_commands() -> list[CommandSpec]:
    """Return all commands in the order of help and menu."""
    return sorted(COMMANDS, key=lambda command: ORDER.get(command.name, len(ORDER)))


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
    example, related = next((group[command.name] for group in HELP_GROUPS.values() if command.name in group), ("", ""))
    lines = [
        f"/{command.name}: {command.help}",
        command.usage,
        f"Example: {example}" * bool(example),
        f"Also typed: /{', /'.join(command.aliases)}" * bool(command.aliases),
        command.more,
        *(f"{key}: {effect}" for key, effect in keys if key),
        "Related: " + ", ".join(f"/{name}" for name in related.split()),
    ]
    return "\n".join(filter(None, lines))


def format_overview(columns: int) -> str:
    """Return the names of all commands by group, in lines of at most `columns` cells."""
    wide = max(map(len, HELP_GROUPS)) + 2
    rows = [*textwrap.wrap(INTRODUCTION, columns), ""]
    for heading, group in HELP_GROUPS.items():
        names = " ".join(f"/{name}" for name in group)
        if columns < MIN_WIDE_COLUMNS:
            rows += [heading, *_filled(names, "  ", columns)]
        else:
            first, *others = _filled(names, " " * wide, columns)
            rows += [f"{heading:<{wide}}{first.strip()}", *others]
    return "\n".join([*rows, "", *textwrap.wrap(FURTHER, columns)])


def format_all(columns: int) -> str:
    """Return a line for every command, by group, in lines of at most `columns` cells."""
    return "\n\n".join(
        "\n".join([heading, *(row for name in group for row in _row(BY_NAME[name], columns))])
        for heading, group in HELP_GROUPS.items()
    )


def _row(command: CommandSpec, columns: int) -> Iterator[str]:
    typed = f"/{command.name} {command.argument}".strip()
    column = min(28, columns // 3)
    first, *others = _filled(command.help, " " * (column + 2), columns)
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
