"""The command `ikigai completion`: what a shell completes behind `ikigai`, generated from the parsers themselves.

Nothing is said twice: subcommands, options, their values and their help are read from the parsers that parse them.
Names of agents are asked for when Tab is pressed, by `ikigai completion --agents`, which answers from the database if
that is running, and gives up after a moment: it starts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ikigai.cli.completion.scripts import AGENTS, FILES, NOTHING, Node, Option, bash, fish, zsh
from ikigai.core.errors import IkigaiError
from ikigai.system import paths
from ikigai.system.output import say

if TYPE_CHECKING:
    from ikigai.config import Config

SHELLS = ("bash", "zsh", "fish")
ANSWERS_WITHIN = 0.25
"""Seconds that the database may take to name agents while somebody waits behind the Tab."""
_PLAIN = re.compile(r"\w[\w.-]*")
"""Names that no shell makes anything of: some of them expand the words that they are given."""
METAVARS = {"FILE": FILES, "FILE|-": FILES, "NAME|ID": AGENTS}
"""What a value is, by the name that the parser gives it in its help."""
DESTS = {"file": FILES, "words": FILES}
"""The same for those that have no such name."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; `common` holds the options that stand behind any of them."""
    command = commands.add_parser(
        "completion",
        parents=[common],
        help="what the shell needs to complete commands",
    )
    command.add_argument("shell", nargs="?", choices=SHELLS, help="for which shell")
    command.add_argument("--agents", action="store_true", help=argparse.SUPPRESS)
    command.set_defaults(act=None, refuse=command.error)


def run(main: argparse.ArgumentParser, beside: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the script; `main` parses what is no command, `beside` the commands."""
    if not arguments.shell:
        arguments.refuse(f"name a shell: {', '.join(SHELLS)}")
    nodes = tree(main, beside)
    say({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](nodes), painted=True)
    return 0


def name_agents(load: Callable[[], Config]) -> int:
    """Print the names of agents, a line each, those used last first; nothing where that would take long."""
    try:
        names = asyncio.run(_agents(load()))
    except (IkigaiError, TimeoutError, OSError):
        return 0
    if safe := [name for name in names if _PLAIN.fullmatch(name)]:
        say("\n".join(safe))
    return 0


async def _agents(config: Config) -> list[str]:
    from ikigai.store import agents, connection

    lease, dsn = None, config.database.dsn
    if dsn is None:
        from ikigai.store.embedded import server as embedded

        if not embedded.running(paths.data_dir()):
            return []
        lease = embedded.start(paths.data_dir())
        dsn = lease.dsn
    session = connection.Session(dsn, write=False, deadline=ANSWERS_WITHIN)
    try:
        async with asyncio.timeout(ANSWERS_WITHIN):
            return await agents.names_of(session)
    finally:
        await session.close()
        if lease:
            lease.close()


# ── what there is ──


def tree(main: argparse.ArgumentParser, beside: argparse.ArgumentParser) -> list[Node]:
    """All commands, that without a name first."""
    nodes = [*_nodes(beside, (), "")]
    top, own = nodes[0], _node(main, (), "")
    return [top._replace(options=own.options, values=own.values, kind=own.kind), *nodes[1:]]


def _nodes(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Iterator[Node]:
    yield _node(parser, path, help)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = _helps(action)
            for name, child in action.choices.items():
                yield from _nodes(child, (*path, name), told.get(name, ""))


def _node(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Node:
    options: list[Option] = []
    commands: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()
    kind = NOTHING
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = _helps(action)
            commands = tuple((name, told.get(name, "")) for name in action.choices)
        elif not action.option_strings:
            values, kind = values + _values(action), kind or _kind(action)
        elif action.help is not argparse.SUPPRESS:
            takes = action.nargs != 0
            said = " ".join((action.help or "").replace("%%", "%").split())
            options.append(
                Option(tuple(action.option_strings), said, takes, _values(action), _kind(action), action.nargs == "?")
            )
    return Node(path, help, tuple(options), commands, values, kind)


def _helps(action: argparse._SubParsersAction[argparse.ArgumentParser]) -> dict[str, str]:
    return {choice.dest: choice.help or "" for choice in action._choices_actions}


def _values(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices)) if action.choices and action.nargs != 0 else ()


def _kind(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return METAVARS.get(metavar) or DESTS.get(action.dest, NOTHING)
