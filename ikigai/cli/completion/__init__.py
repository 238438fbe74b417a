"""This package carries out `ikigai completion`: it generates shell completions from the command line's parsers.

Nothing is said twice: subcommands, options, their values and their help are read from the parsers that parse them. The
scripts get the names of agents when Tab is pressed, from `ikigai completion --agents`. It answers from the database if
that is running, and gives up after a moment: it starts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ikigai.cli.completion.scripts import AGENTS, FILES, NOTHING, Node, Option, bash_script, fish_script, zsh_script
from ikigai.core.errors import IkigaiError
from ikigai.system import paths
from ikigai.system.output import print_lines

if TYPE_CHECKING:
    from ikigai.config import Config

SHELLS = ("bash", "zsh", "fish")
COMPLETION_TIMEOUT = 0.25
"""Seconds that the database may take to list agents while a user waits after Tab."""
_PLAIN = re.compile(r"\w[\w.-]*")
"""Names without characters that shells expand: some expand the words that they are given."""
METAVARS = {"FILE": FILES, "FILE|-": FILES, "NAME|ID": AGENTS}
"""Kinds of values, by the name that the parser shows for them in its help."""
DESTS = {"file": FILES, "words": FILES}
"""Kinds of values that have no such name, by the name of the argument."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser("completion", parents=[common], help="what the shell needs to complete commands")
    command.add_argument("shell", nargs="?", choices=SHELLS, help="for which shell")
    command.add_argument("--agents", action="store_true", help=argparse.SUPPRESS)
    command.set_defaults(act=None, refuse=command.error)


def run(main: argparse.ArgumentParser, beside: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the script; `main` parses the options without a command, `beside` the commands."""
    if not arguments.shell:
        arguments.refuse(f"name a shell: {', '.join(SHELLS)}")
    nodes = command_tree(main, beside)
    print_lines({"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[arguments.shell](nodes), painted=True)
    return 0


def name_agents(load: Callable[[], Config]) -> int:
    """Print the names of agents, a line each, those used last first; print nothing if that would take long."""
    try:
        names = asyncio.run(_agents(load()))
    except (IkigaiError, TimeoutError, OSError):
        return 0
    if safe := [name for name in names if _PLAIN.fullmatch(name)]:
        print_lines("\n".join(safe))
    return 0


async def _agents(config: Config) -> list[str]:
    from ikigai.store import agents, connection

    lease, dsn = None, config.database.dsn
    if dsn is None:
        from ikigai.store.embedded import server

        if not server.is_running(paths.data_dir()):
            return []
        lease = server.start(paths.data_dir())
        dsn = lease.dsn
    session = connection.DatabaseSession(dsn, write=False, deadline=COMPLETION_TIMEOUT, schema=config.database.schema)
    try:
        async with asyncio.timeout(COMPLETION_TIMEOUT):
            return await agents.names_of(session)
    finally:
        await session.close()
        if lease:
            lease.close()


# ── what there is ──


def command_tree(main: argparse.ArgumentParser, beside: argparse.ArgumentParser) -> list[Node]:
    """Return all commands, the one without a name first."""
    nodes = [*_nodes(beside, (), "")]
    top, own = nodes[0], _node(main, (), "")
    return [top._replace(options=own.options, values=own.values, kind=own.kind), *nodes[1:]]


def _nodes(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Iterator[Node]:
    yield _node(parser, path, help)
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
