"""`ikigai agents`: the tree of agents for people and scripts, and what can be done to it without opening any."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ikigai.app import agent_tree as kin
from ikigai.core.errors import ConfigError, Refused

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

WANTS = {"list": (), "show": ("NAME",), "rename": ("OLD", "NEW"), "kill": ("NAME",), "revive": ("NAME",)}
"""What can be done, and the names that it takes."""


def add_command(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """`ikigai agents` among the subcommands; `common` holds the options that every command takes."""
    agents = commands.add_parser(
        "agents",
        parents=[common],
        help="the tree of agents; rename, kill, revive",
        usage="ikigai agents [list] [--all] [--json]\n       ikigai agents show NAME [--json]\n"
        "       ikigai agents rename OLD NEW\n       ikigai agents kill NAME --yes\n       ikigai agents revive NAME",
        description="A killed agent is out of use with all below it until it is revived; its history stays.",
    )
    agents.add_argument("what", nargs="?", choices=tuple(WANTS), default="list", help="what to do (list)")
    agents.add_argument("names", nargs="*", metavar="NAME", help="names or ids")
    agents.add_argument("--all", action="store_true", help="the dead, too")
    agents.add_argument("--yes", action="store_true", help="agree to what would be asked: kill asks for it")
    agents.add_argument("--json", action="store_true", help="one object: agents, or what was done")
    return agents


def writes(arguments: argparse.Namespace) -> bool:
    """Whether it changes anything."""
    return arguments.what not in ("list", "show")


async def run(database: Database, arguments: argparse.Namespace) -> str:
    """What `ikigai agents` prints. Raises ConfigError for wrong arguments, Refused, StoreError."""
    what, names = arguments.what, arguments.names
    if len(names) != len(WANTS[what]):
        wanted = " ".join(("ikigai agents", what, *WANTS[what]))
        raise ConfigError(f"ikigai agents {what} takes {len(WANTS[what]) or 'no'} names.", f"Write: {wanted}")
    if what == "list":
        lines = await kin.listed(database, dead=arguments.all)
        return json.dumps({"agents": kin.figures(lines)}) if arguments.json else kin.text(lines)
    agent = await _find(database, names[0])
    if what == "show":
        return await _shown(database, agent, arguments.json)
    match what:
        case "rename":
            await database.family.rename(agent, names[1])
            done = f"{agent.name} is called {names[1]} now."
        case "kill":
            done = await kin.kill_agreed(database, agent, arguments.yes)
        case _:
            done = await kin.revive(database, agent, back="ikigai -r {}")
    return json.dumps({"did": what, "agent": agent.id, "text": done}) if arguments.json else done


async def _find(database: Database, name: str) -> Agent:
    try:
        return await database.agents.find(name)
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None


async def _shown(database: Database, agent: Agent, as_json: bool) -> str:
    lines = await kin.listed(database, dead=True)
    names = {line.place.kin.id: line.place.kin.name for line in lines}
    (found,) = kin.figures([line for line in lines if line.place.kin.id == agent.id])
    return json.dumps(found) if as_json else kin.about(found, names)
