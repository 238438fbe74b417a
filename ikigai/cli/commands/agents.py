"""Carry out `ikigai agents`: print the tree of agents, and change it without opening any."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ikigai.app.agents import agent_tree
from ikigai.app.json_records.agent_records import AgentRecord
from ikigai.app.json_records.outcome_records import DoneRecord
from ikigai.app.list_options import parse_limit, resolve_limit
from ikigai.core.commands.parsers import parse_rename
from ikigai.core.errors import as_config_error

if TYPE_CHECKING:
    from ikigai.app.json_records.record_fields import PrintedRecord
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database


def add_command(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `ikigai agents` to the subcommands; `common` holds the options that every command takes."""
    agents = commands.add_parser(
        "agents",
        parents=[common],
        help="the tree of agents; rename, archive, kill, revive",
        description="List the agents, or change one. A killed agent and its forks cannot be used until they are "
        "revived; the history stays. An archived agent and its forks are hidden from the lists, and work as before.",
    )
    actions = agents.add_subparsers(dest="what")
    agents.set_defaults(all=False, json=False, limit=None, what="list")

    def add(name: str, help: str, *names: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, parents=[common], help=help)
        for each in names:
            action.add_argument(each, metavar="NEW" if each == "new" else "NAME|ID", help=NAMES_HELP[each])
        return action

    listed = add("list", "the tree, as without an action")
    add("show", "one agent", "agent")
    add("rename", "give it another name", "agent", "new")
    add("archive", "hide it and its forks from the lists", "agent")
    kill = add("kill", "stop it and its forks for good, until they are revived", "agent")
    kill.add_argument("--yes", action="store_true", help="do not ask")
    add("revive", "undo a kill or an archive", "agent")
    for parser in (agents, listed):
        parser.add_argument("--all", **FLAG, help="include killed and archived agents")
        parser.add_argument(
            "--limit",
            type=parse_limit,
            metavar="N",
            default=argparse.SUPPRESS,
            help="the N agents used last, and those above them; 0 lists all (default: 100, all with --json)",
        )
    for parser in (agents, *actions.choices.values()):
        parser.add_argument("--json", **FLAG, help="one object: agents, or what was done")
    return agents


NAMES_HELP = {"agent": "its name or id", "new": "its new name"}
FLAG: dict[str, Any] = {"action": "store_true", "default": argparse.SUPPRESS}
"""A flag that stands before the name of the action or after it."""


def is_writing(arguments: argparse.Namespace) -> bool:
    """Return True if the action changes anything."""
    return arguments.what not in ("list", "show")


async def run(database: Database, arguments: argparse.Namespace) -> str | PrintedRecord:
    """Return what `ikigai agents` prints. Raise ConfigError for wrong arguments, Rejected, StoreError."""
    what = arguments.what
    if what == "list":
        most = resolve_limit(arguments.limit, arguments.json)
        listings = await agent_tree.list_newest(database, most, None, arguments.all)
        return agent_tree.agents_record(listings) if arguments.json else agent_tree.format_tree(listings)
    with as_config_error():
        agent = await database.agents.find(arguments.agent)
    if what == "show":
        return await _format_agent(database, agent, arguments.json)
    match what:
        case "rename":
            new = parse_rename([arguments.agent, arguments.new]).new
            report = await agent_tree.rename(database, agent, new, "ikigai agents rename {} {}")
        case "kill":
            report = await agent_tree.kill_agreed(database, agent, arguments.yes)
        case "archive":
            report = await agent_tree.archive(database, agent, "ikigai agents revive {}")
        case _:
            report = await agent_tree.revive(database, agent, back="ikigai -r {}")
    if not arguments.json:
        return report
    name = arguments.new if what == "rename" else agent.name
    return DoneRecord(did=what, text=report, agent=name, agent_id=agent.id)


async def _format_agent(database: Database, agent: Agent, as_json: bool) -> str | AgentRecord:
    lines = await agent_tree.list_agents(database, unlisted=True, ids=[agent.id])
    (found,) = (line for line in lines if line.node.agent.id == agent.id)
    if as_json:
        return agent_tree.agent_record(found, AgentRecord)
    return agent_tree.format_agent(found)
