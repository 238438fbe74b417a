"""Operations on the agent tree and their messages: for the terminal, print mode and `ikigai agents`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ikigai.app.agents.agent_manager import AgentManager
from ikigai.core.agents.tree import THIS_PROGRAM, AgentInfo, AgentLink, TreeNode, build_tree
from ikigai.core.errors import AgentLocked, Rejected
from ikigai.core.events.events import AgentKilled, AgentRevived, Forked, SettingsChanged
from ikigai.core.state.memory import replace
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import format_table
from ikigai.system.paths import current_directory

if TYPE_CHECKING:
    from ikigai.app.json_records.agent_records import AgentFields, AgentsRecord
    from ikigai.app.run.services import Services
    from ikigai.core.commands.fork import ForkRequest
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database

MAX_INDENT_LEVELS = 12
"""Levels of the tree shown as indentation; deeper ones show the depth as a number."""
LAST_WORDS_CHARACTERS = 36
"""Characters of the last words."""
MAX_MODEL_CHARACTERS = 32
"""Characters of a model name; a longer one is shown without its vendor."""

_Fields = TypeVar("_Fields", bound="AgentFields")


class ForkedChild(NamedTuple):
    """The result of a fork: the child shares its parent's lineage up to the event `at`; `notice` is for the user."""

    agent: Agent
    parent: Agent
    at: int
    notice: str = ""


async def fork(services: Services, agent: Agent, request: ForkRequest, memory: Memory | None = None) -> ForkedChild:
    """Create the requested child. `memory` is the agent's, if it is loaded.

    Raise Rejected; then nothing is created. The parent may be busy or open in another program: nothing is written to
    it.
    """
    tree, parent = services.database.tree, agent
    if request.at:
        parent, at = await tree.fork_point_at(request.at)
    else:
        parent = await services.database.agents.get(agent.id) or agent
        at = await tree.fork_point(parent)
    parent.check_living()
    await tree.check(parent)
    choices, notice = request.choices, ""
    if choices:
        from ikigai.app.run.setting_changes import accept_change

        if parent.id != agent.id or memory is None:
            memory = await services.load_memory(parent)
        choices, notice = accept_change(services, memory, choices)
    own = (SettingsChanged(choices, dict.fromkeys(choices, "agent")),) if choices else ()
    events = (Forked(parent.name, at, parent.id), *own)
    child = await tree.fork(parent, at, events, request.name, current_directory())
    return ForkedChild(child, parent, at, notice)


def fork_message(child: ForkedChild, back: str = "/switch {}") -> str:
    """Return the message about the new agent and how to go back."""
    name, parent = child.agent.name, child.parent.name
    return f"This is {name}, forked from {parent} at event #{child.at}. To go back: {back.format(parent)}"


# ── rename, kill and revive ──


async def rename(database: Database, agent: Agent, name: str, back: str = "/rename {} {}") -> str:
    """Give the agent this name; return the message. Raise Rejected, AgentLocked."""
    if name == agent.name:
        raise Rejected(f"The agent is called {name} already.", "Nothing was changed.")
    await database.tree.rename(agent, name)
    return f"Renamed {agent.name} to {name}. To undo: {back.format(name, agent.name)}"


async def subtree_to_kill(database: Database, agent: Agent) -> list[AgentLink]:
    """Return the agents that are killed with `agent`, children before their parents, the agent itself last.

    Raise Rejected, AgentLocked, CorruptLineage.
    """
    if agent.parent is None:
        raise Rejected(
            f"{agent.name} is a top-level agent; only forks can be killed.",
            f"To take it out of the lists: /archive {agent.name}",
        )
    if agent.killed_at:
        raise Rejected(f"Agent {agent.name} was killed already.", f"/revive {agent.name} brings it back.")
    await database.tree.check(agent)
    links = [link for link in await database.tree.subtree(agent.id) if not link.killed]
    owners = await database.tree.owners(link.id for link in links)
    for link in links:
        if (owner := owners.get(link.id, THIS_PROGRAM)) != THIS_PROGRAM:
            raise AgentLocked(
                f"Agent {link.name} is open in another ikigai ({owner}).",
                "Nothing was killed. Leave it there first.",
                owner,
            )
    return links


async def kill(
    database: Database, links: Sequence[AgentLink], manager: AgentManager | None = None, by: str = ""
) -> list[str]:
    """Kill the agents in this order, even running ones; return the messages about their unsaved events.

    `by` is the agent whose model requested it. Raise StoreError; then the agents before the failed one are killed.
    """
    messages: list[str] = []
    for link in links:
        along = links[-1].name if link is not links[-1] else ""
        if manager and (open_agent := manager.agents.get(link.id)):
            messages.append(await manager.unload(open_agent, write_lock=False))
            log = open_agent.log
        elif agent := await database.agents.get(link.id):
            log = await database.open_agent(agent)
        else:
            continue
        try:
            await log.append((AgentKilled(along, by),))
        finally:
            await log.close()
        if manager:
            await manager.services.tool_runtime.end(link.id)
    return [each for each in messages if each]


def kill_message(links: Sequence[AgentLink], back: str = "/revive {}") -> str:
    """Return the message about the killed agents and how to revive them."""
    below = f", and {len(links) - 1:,} below it" if len(links) > 1 else ""
    return f"Killed {links[-1].name}{below}. {back.format(links[-1].name)} brings it back."


async def kill_agreed(database: Database, agent: Agent, yes: bool) -> str:
    """Kill the agent and its subtree if `yes` agrees to it; return the message. Raise Rejected otherwise."""
    links = await subtree_to_kill(database, agent)
    if not yes:
        below = f" and the {len(links) - 1:,} below it" if len(links) > 1 else ""
        raise Rejected(f"Not killed: {agent.name}{below}.", "Add --yes to confirm.")
    await kill(database, links)
    return kill_message(links, "ikigai agents revive {}")


async def archive(database: Database, agent: Agent, back: str = "/revive {}") -> str:
    """Take the agent and all below it out of the lists; return the message and how to bring it back.

    Raise Rejected if one of them is at work.
    """
    if agent.archived_at or agent.killed_at:
        state = "archived" if agent.archived_at else "killed"
        raise Rejected(f"{agent.name} is {state} already.", f"To list it again: {back.format(agent.name)}")
    links = [link for link in await database.tree.subtree(agent.id) if link.is_listed]
    owners, elsewhere = await database.tree.owners(link.id for link in links), ""
    in_turn = await database.tree.in_turn(list(owners))
    for link in reversed(links):
        if link.id in in_turn:
            where = "" if owners[link.id] == THIS_PROGRAM else f" in another ikigai ({owners[link.id]})"
            raise Rejected(f"{link.name} is running{where}.", "Nothing was archived; wait for its end, or stop it.")
        if (owner := owners.get(link.id, THIS_PROGRAM)) != THIS_PROGRAM:
            elsewhere = f" {link.name} is still open in another ikigai ({owner})."
    count = await database.tree.archive(agent) or len(links)
    below = f", and {count - 1:,} below it" if count > 1 else ""
    return f"Archived {agent.name}{below}.{elsewhere} To list it again: {back.format(agent.name)}"


async def revive(database: Database, agent: Agent, back: str = "/switch {}") -> str:
    """Revive a killed agent, or list an archived one again; return the message and how to switch there.

    Raise Rejected for any other agent.
    """
    there = f"{back.format(agent.name)} goes there."
    if agent.archived_at:
        count = await database.tree.list_again(agent)
        if not agent.killed_at:
            below = f", with {count - 1:,} below it" if count > 1 else ""
            return f"{agent.name} is in the lists again{below}. {there}"
    if not agent.killed_at:
        raise Rejected(f"{agent.name} was not killed.", there)
    await database.tree.check(agent)
    log = await database.open_agent(agent)
    try:
        await log.append((AgentRevived(),))
    finally:
        await log.close()
    children = sum(link.killed for link in await database.tree.subtree(agent.id))
    still = f" {children:,} below it {'is' if children == 1 else 'are'} still killed." if children else ""
    return f"{agent.name} was revived.{still} {there}"


# ── what is shown ──


class AgentListing(NamedTuple):
    """An agent in a list: its `state` in a word or two, its own or inherited `model`, and the name of its parent; ""
    if unknown.
    """

    node: TreeNode[AgentInfo]
    state: str
    model: str
    parent: str = ""


class AgentListings(NamedTuple):
    """The listed agents, and True if there are more, which were used earlier."""

    lines: list[AgentListing]
    are_more: bool


async def list_newest(
    database: Database,
    limit: int | None,
    manager: AgentManager | None = None,
    unlisted: bool = False,
) -> AgentListings:
    """Return the tree of the `limit` agents that were used last (None: of all), with agents above them; see
    `list_agents`.
    """
    if limit is None:
        return AgentListings(await list_agents(database, manager, unlisted), False)
    ids = await database.tree.newest(limit + 1, unlisted)
    return AgentListings(await list_agents(database, manager, unlisted, ids[:limit]), len(ids) > limit)


async def list_agents(
    database: Database,
    manager: AgentManager | None = None,
    unlisted: bool = False,
    ids: Sequence[str] | None = None,
) -> list[AgentListing]:
    """Return the tree of agents, parents before children; with `unlisted` also killed and archived ones. `ids` limits
    it to these, with agents above them.
    """
    infos = await database.tree.all(unlisted, ids)
    names = {info.id: info.name for info in infos}
    names |= await database.tree.names({info.parent for info in infos if info.parent} - names.keys())
    models, listings = dict[str, str](), list[AgentListing]()
    for node in build_tree(infos, names):
        each = node.agent
        open_agent = manager.agents.get(each.id) if manager else None
        model = open_agent.agent_loop.memory.model if open_agent else each.model or models.get(each.parent or "", "")
        models[each.id] = model
        held = manager is not None and manager.mailbox.is_held(each.id)
        state = "held" if held else open_agent.state if open_agent else idle_state(each)
        state = "failed" if state == "idle" and each.failed else state
        if open_agent and manager:  # its last request may be older than a change of its memory
            used = manager.services.before_turn(open_agent.agent_loop.memory).used
            node = replace(node, agent=replace(each, tokens=used))
        listings.append(AgentListing(node, state, model, names.get(each.parent or "", "")))
    return listings


def idle_state(info: AgentInfo) -> str:
    """Return the state of an agent that is not open here, as far as it is visible from here."""
    if info.killed:
        return "killed"
    if info.archived:
        return "archived"
    if info.holder:
        return "busy" if info.in_turn else "open"
    return "stopped in a turn" if info.in_turn else "idle"


def format_tree(listings: AgentListings, current: str = "") -> str:
    """Return the tree as a table; a star marks the agent with the id `current`."""
    if not listings.lines:
        return "There are no agents yet."
    rows = [("  agent", "state", "model", "turns", "context", "last words")]
    for line in listings.lines:
        info, depth = line.node.agent, line.node.depth
        star = "* " if info.id == current else "  "
        deep = f"[{depth}] " if depth > MAX_INDENT_LEVELS else ""
        owner = f" ({clean_line(info.holder)})" if info.holder not in ("", THIS_PROGRAM) else ""
        trouble = f" ({line.node.problem})" if line.node.problem else ""
        rows.append(
            (
                f"{star}{'  ' * min(depth, MAX_INDENT_LEVELS)}{deep}{clean_line(info.name)}",
                f"{line.state}{owner}{trouble}",
                _model(clean_line(line.model)),
                f"{info.turns:,}",
                f"{info.tokens:,}",
                _cut(info.last_words),
            )
        )
    more = "\n… and more that were used earlier. To list all: ikigai agents list --limit 0"
    return format_table(rows) + more * listings.are_more


def _model(name: str) -> str:
    return (name if len(name) <= MAX_MODEL_CHARACTERS else name.rpartition("/")[2]) or "-"


def _cut(words: str) -> str:
    text = clean_line(" ".join(words.split()))
    return text if len(text) <= LAST_WORDS_CHARACTERS else f"{text[: LAST_WORDS_CHARACTERS - 1]}…"


def agent_record(line: AgentListing, kind: type[_Fields]) -> _Fields:
    """Return the listing as a JSON object of this kind."""
    from ikigai.app.json_records.record_fields import record_of, timestamp

    each = line.node.agent
    others = {
        "agent": each.name,
        "agent_id": each.id,
        "parent": line.parent or None,
        "parent_id": each.parent,
        "depth": line.node.depth,
        "state": line.state,
        "model": line.model,
        "lock_owner": each.holder or None,
        "last_used_at": timestamp(each.last_used_at),
        "problem": line.node.problem or None,
    }
    return record_of(kind, each, **others)


def agents_record(listings: AgentListings) -> AgentsRecord:
    """Return the listings as one JSON object."""
    from ikigai.app.json_records.agent_records import AgentFields, AgentsRecord

    fields = tuple(agent_record(line, AgentFields) for line in listings.lines)
    return AgentsRecord(agents=fields, more=listings.are_more)


def format_agent(line: AgentListing) -> str:
    """Return one agent as lines."""
    info = line.node.agent
    rows = [
        ("agent", f"{info.name} ({info.id})"),
        (
            "parent",
            f"{line.parent or info.parent}, from event #{info.forked_at} on" if info.parent else "none (top level)",
        ),
        ("state", line.state + (f" ({line.node.problem})" if line.node.problem else "")),
        ("held by", {"": "nobody", THIS_PROGRAM: "this program"}.get(info.holder, info.holder)),
        ("model", line.model or "-"),
        ("turns", f"{info.turns:,}"),
        ("context", f"{info.tokens:,} tokens, of its last request and reply"),
        ("last words", " ".join(info.last_words.split())),
    ]
    return "\n".join(f"{name:<11}{clean_line(str(value))}".rstrip() for name, value in rows)
