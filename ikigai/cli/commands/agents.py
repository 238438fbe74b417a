"""This module carries out `ikigai agents`: it prints the tree of agents and changes it without opening any."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ikigai.app import agent_tree
from ikigai.app.json_records import AgentRecord, DoneRecord, PrintedRecord
from ikigai.core.commands.parsers import parse_rename
from ikigai.core.errors import ConfigError, Rejected

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

ACTION_ARGUMENTS = {
    "list": (),
    "show": ("NAME",),
    "rename": ("OLD", "NEW"),
    "archive": ("NAME",),
    "kill": ("NAME",),
    "revive": ("NAME",),
}
"""Actions of the command, with the names that each takes."""


def add_command(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `ikigai agents` to the subcommands; `common` holds the options that every command takes."""
    agents = commands.add_parser(
        "agents",
        parents=[common],
        help="the tree of agents; rename, archive, kill, revive",
        usage="ikigai agents [list] [--all] [--json]\n       ikigai agents show NAME [--json]\n"
        "       ikigai agents rename OLD NEW\n       ikigai agents archive NAME\n       ikigai agents kill NAME --yes\n"
        "       ikigai agents revive NAME",
        description="A killed agent and its forks cannot be used until they are revived; the history stays. An "
        "archived agent and its forks are hidden from the lists, and work as before.",
    )
    agents.add_argument("what", nargs="?", choices=tuple(ACTION_ARGUMENTS), default="list", help="what to do (list)")
    agents.add_argument("names", nargs="*", metavar="NAME", help="names or ids")
    agents.add_argument("--all", action="store_true", help="include killed and archived agents")
    agents.add_argument("--yes", action="store_true", help="answer yes to confirmations (of kill)")
    agents.add_argument("--json", action="store_true", help="one object: agents, or what was done")
    return agents


def is_writing(arguments: argparse.Namespace) -> bool:
    """Return True if the action changes anything."""
    return arguments.what not in ("list", "show")


async def run(database: Database, arguments: argparse.Namespace) -> str | PrintedRecord:
    """Return what `ikigai agents` prints. Raise ConfigError for wrong arguments, Rejected, StoreError."""
    what, names = arguments.what, arguments.names
    if len(names) != len(ACTION_ARGUMENTS[what]):
        usage = " ".join(("ikigai agents", what, *ACTION_ARGUMENTS[what]))
        raise ConfigError(f"ikigai agents {what} takes {len(ACTION_ARGUMENTS[what]) or 'no'} names.", f"Write: {usage}")
    if what == "list":
        lines = await agent_tree.list_agents(database, unlisted=arguments.all)
        return agent_tree.agents_record(lines) if arguments.json else agent_tree.format_tree(lines)
    agent = await _find(database, names[0])
    if what == "show":
        return await _format_agent(database, agent, arguments.json)
    match what:
        case "rename":
            report = await agent_tree.rename(database, agent, parse_rename(names).new, "ikigai agents rename {} {}")
        case "kill":
            report = await agent_tree.kill_agreed(database, agent, arguments.yes)
        case "archive":
            report = await agent_tree.archive(database, agent, "ikigai agents revive {}")
        case _:
            report = await agent_tree.revive(database, agent, back="ikigai -r {}")
    if not arguments.json:
        return report
    name = names[1] if what == "rename" else agent.name
    return DoneRecord(did=what, text=report, agent=name, agent_id=agent.id)


async def _find(database: Database, name: str) -> Agent:
    try:
        return await database.agents.find(name)
    except Rejected as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None


async def _format_agent(database: Database, agent: Agent, as_json: bool) -> str | AgentRecord:
    lines = await agent_tree.list_agents(database, unlisted=True)
    (found,) = (line for line in lines if line.node.agent.id == agent.id)
    if as_json:
        return AgentRecord(**agent_tree.as_fields(found))
    return agent_tree.format_agent(found)
