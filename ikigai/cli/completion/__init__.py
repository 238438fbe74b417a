"""Carry out `ikigai completion`: generate shell completions from the command line's parsers.

Nothing is said twice: subcommands, options, their values and their help are read from the parsers that parse them. The
scripts get names when Tab is pressed, from `ikigai completion --names KIND`, see `completion.offered_names`.

A library that asks Python at every Tab would load all parsers each time: 0.3 s of CPU time, twice what a Tab may take.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from ikigai.cli.completion.bash import bash_script
from ikigai.cli.completion.fish import fish_script
from ikigai.cli.completion.nodes import (
    AGENTS,
    FILES,
    KEY_VALUES,
    KEYS,
    MENTIONS,
    MODELS,
    NOTHING,
    PROFILES,
    PROVIDERS,
    SERVERS,
    Node,
    Option,
)
from ikigai.cli.completion.zsh import zsh_script
from ikigai.system.output import print_lines

SHELLS = ("bash", "zsh", "fish")
METAVARS = {
    "FILE": FILES,
    "FILE|-": FILES,
    "NAME|ID": AGENTS,
    "PROVIDER/NAME[:LEVEL]": MODELS,
    "PROVIDER": PROVIDERS,
    "SERVER": SERVERS,
}
"""Kinds of values, by the name that the parser shows for them in its help."""
DESTS = {"file": FILES, "words": MENTIONS, "profile": PROFILES, "key": KEYS, "setting": KEY_VALUES}
"""Kinds of values that have no such name, by the name of the argument."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser("completion", parents=[common], help="what the shell needs to complete commands")
    command.add_argument("shell", nargs="?", choices=SHELLS, help="for which shell")
    command.add_argument("--names", nargs="+", help=argparse.SUPPRESS)
    command.set_defaults(act=None, refuse=command.error)


def run(main: argparse.ArgumentParser, beside: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the script; `main` parses the options without a command, `beside` the commands."""
    if not arguments.shell:
        arguments.refuse(f"name a shell: {', '.join(SHELLS)}")
    nodes = command_tree(main, beside)
    print_lines({"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[arguments.shell](nodes), painted=True)
    return 0


# ── what there is ──


def command_tree(main: argparse.ArgumentParser, beside: argparse.ArgumentParser) -> list[Node]:
    """Return all commands, the one without a name first."""
    nodes = [*_nodes(beside, (), "")]
    top, own = nodes[0], _node(main, (), "")
    return [top._replace(options=own.options, values=own.values, kind=own.kind), *nodes[1:]]


def _nodes(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Iterator[Node]:
    node = _node(parser, path, help)
    yield node._replace(kind=NOTHING) if node.commands else node
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = _helps(action)
            for name, child in action.choices.items():
                yield from _nodes(child, (*path, name), helps.get(name, ""))


def _node(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Node:
    options: list[Option] = []
    commands: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()
    kind = NOTHING
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = _helps(action)
            commands = tuple((name, helps.get(name, "")) for name in action.choices)
        elif not action.option_strings:
            values, kind = values + _values(action), kind or _kind(action)
        elif action.help is not argparse.SUPPRESS:
            takes = action.nargs != 0
            help_text = " ".join((action.help or "").replace("%%", "%").split())
            names, optional = tuple(action.option_strings), action.nargs == "?"
            options.append(Option(names, help_text, takes, _values(action), _kind(action), optional))
    return Node(path, help, tuple(options), commands, values, kind)


def _helps(action: argparse._SubParsersAction[argparse.ArgumentParser]) -> dict[str, str]:
    return {choice.dest: choice.help or "" for choice in action._choices_actions}


def _values(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices)) if action.choices and action.nargs != 0 else ()


def _kind(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return METAVARS.get(metavar) or DESTS.get(action.dest, NOTHING)
