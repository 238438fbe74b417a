"""What is done to the tree of agents and told of it, at the terminal, in print mode and by `ikigai agents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ikigai.app.agent_manager import Crew
from ikigai.core.agents.tree import HERE, Kin, Link, Place, below, tree
from ikigai.core.errors import Busy, Refused
from ikigai.core.events import AgentKilled, AgentRevived, Choices, Forked, SettingsChanged
from ikigai.core.sanitize import clean_line
from ikigai.system.output import table
from ikigai.system.paths import directory

if TYPE_CHECKING:
    from ikigai.app.services import World
    from ikigai.core.commands.fork import Fork
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

DEEPEST = 12
"""Steps of the tree that a name is set in; below that its depth is told."""
WORDS = 36
"""Characters of what was said last."""
LONGEST_MODEL = 32
"""Characters of a model from which its vendor is left out."""
MOST = 100
"""Agents that /agents shows."""


class Child(NamedTuple):
    """What came of a fork: the child shares its parent's lineage up to the event `at`; `notice` is to be told."""

    agent: Agent
    parent: Agent
    at: int
    notice: str = ""


async def fork(world: World, agent: Agent, asked: Fork, memory: Memory | None = None) -> Child:
    """Make the child that is asked for; `memory` is the agent's, if it is loaded. Raises Refused, and then nothing is
    made. The parent may be busy, or held by another program: nothing is written to it.
    """
    family, parent = world.database.family, agent
    if asked.at:
        parent, at = await family.place(asked.at)
    else:
        parent = await world.database.agents.get(agent.id) or agent
        at = await family.point(parent)
    parent.check_living()
    await family.check(parent)
    choices, notice = asked.choices, ""
    if choices:
        if parent.id != agent.id or memory is None:
            memory = await world.look(parent)
        choices, notice = chosen(world, memory, choices)
    own = (SettingsChanged(choices, dict.fromkeys(choices, "agent")),) if choices else ()
    facts = (Forked(parent.name, at), *own)
    child = await family.fork(parent, at, facts, asked.name, directory())
    return Child(child, parent, at, notice)


def chosen(world: World, memory: Memory, choices: Choices) -> tuple[Choices, str]:
    """The settings as a child of this memory can have them, and what is to be told. Raises Refused."""
    for key in choices:
        if key in world.run.above:
            origin = world.run.origins.get(key, "a flag or variable")
            raise Refused(f"{key} is set by {origin} for this run.", "Start without it to choose here.")
    world.check(memory, choices)
    return world.fitting(memory, choices)


def told(child: Child, back: str = "/switch {}") -> str:
    """Where the user is after a fork, and how to go back."""
    name, parent = child.agent.name, child.parent.name
    return f"This is {name}, forked from {parent} at event #{child.at}. {back.format(parent)} goes back."


# ── kill and revive ──


async def doomed(database: Database, agent: Agent) -> list[Link]:
    """Who dies with the agent, children before their parents, itself last. Raises Refused, Busy, Broken."""
    if agent.parent is None:
        raise Refused(f"Agent {agent.name} is a root, and roots cannot be killed.", "/new begins another agent.")
    if agent.killed_at:
        raise Refused(f"Agent {agent.name} was killed already.", f"/revive {agent.name} brings it back.")
    await database.family.check(agent)
    found = [link for link in below(await database.family.links(), agent.id) if not link.dead]
    for link in found:
        if (holder := await database.family.holder(link.id)) not in ("", HERE):
            raise Busy(
                f"Agent {link.name} is being written by another program ({holder}).",
                "Nothing was killed; leave it there first.",
                holder,
            )
    return found


async def kill(database: Database, dying: Sequence[Link], crew: Crew | None = None, by: str = "") -> list[str]:
    """Kill them in this order, whatever they are at; the sentences about what could not be saved of that.

    `by` is the agent whose model wanted it. Raises StoreError: those before it are dead then, and below the others.
    """
    kept: list[str] = []
    for link in dying:
        along = dying[-1].name if link is not dying[-1] else ""
        if crew and (member := crew.members.get(link.id)):
            kept.append(await crew.put_down(member, pen=False))
            log = member.log
        elif agent := await database.agents.get(link.id):
            log = await database.open_agent(agent)
        else:
            continue
        try:
            await log.append((AgentKilled(along, by),))
        finally:
            await log.close()
        if crew:
            await crew.world.workshop.end(link.id)
    return [each for each in kept if each]


def killed(dead: Sequence[Link], back: str = "/revive {}") -> str:
    """What /kill has done, and how to take it back."""
    below = f", and {len(dead) - 1:,} below it" if len(dead) > 1 else ""
    return f"Killed {dead[-1].name}{below}. {back.format(dead[-1].name)} brings it back."


async def kill_agreed(database: Database, agent: Agent, yes: bool) -> str:
    """Kill the agent and all below it, if that was agreed to beforehand; the sentence that says so."""
    dying = await doomed(database, agent)
    if not yes:
        below = f" and the {len(dying) - 1:,} below it" if len(dying) > 1 else ""
        raise Refused(f"Nobody was killed: {agent.name}{below} would be.", "--yes agrees beforehand.")
    await kill(database, dying)
    return killed(dying, "ikigai agents revive {}")


async def revive(database: Database, agent: Agent, back: str = "/switch {}") -> str:
    """Bring a dead agent back; the sentence that says so, and how to go there. Raises Refused."""
    there = f"{back.format(agent.name)} goes there."
    if not agent.killed_at:
        raise Refused(f"Agent {agent.name} lives.", there)
    await database.family.check(agent)
    log = await database.open_agent(agent)
    try:
        await log.append((AgentRevived(),))
    finally:
        await log.close()
    children = sum(link.dead for link in below(await database.family.links(), agent.id))
    still = f" Below it {children:,} {'is' if children == 1 else 'are'} dead still." if children else ""
    return f"{agent.name} lives again.{still} {there}"


# ── what is shown ──


class Line(NamedTuple):
    """An agent as it is listed: `state` in a word or two, `model` its own or inherited, "" where nobody knows."""

    place: Place[Kin]
    state: str
    model: str


async def listed(database: Database, crew: Crew | None = None, dead: bool = False) -> list[Line]:
    """The whole tree, parents before children."""
    kin = await database.family.all(dead)
    names = {link.id: link.name for link in await database.family.links()}
    models, found = dict[str, str](), list[Line]()
    for place in tree(kin, names):
        each = place.kin
        member = crew.members.get(each.id) if crew else None
        model = member.runtime.memory.model if member else each.model or models.get(each.parent or "", "")
        models[each.id] = model
        held = crew is not None and each.id in crew.post.held
        found.append(Line(place, "held" if held else member.state if member else state(each), model))
    return found


def state(kin: Kin) -> str:
    """What an agent does that is not open here, as far as can be seen from here."""
    if kin.dead:
        return "dead"
    if kin.holder:
        return "busy" if kin.in_turn else "open"
    return "stopped in a turn" if kin.in_turn else "idle"


def text(lines: Sequence[Line], current: str = "", most: int | None = None) -> str:
    """The tree as a table; `current` is the id of the agent that is marked with a star."""
    if not lines:
        return "There are no agents yet."
    rows = [("  agent", "state", "model", "turns", "tokens", "last words")]
    for line in lines[:most]:
        kin, depth = line.place.kin, line.place.depth
        star = "* " if kin.id == current else "  "
        deep = f"[{depth}] " if depth > DEEPEST else ""
        where = f" ({clean_line(kin.holder)})" if kin.holder not in ("", HERE) else ""
        trouble = f" ({line.place.trouble})" if line.place.trouble else ""
        rows.append(
            (
                f"{star}{'  ' * min(depth, DEEPEST)}{deep}{clean_line(kin.name)}",
                f"{line.state}{where}{trouble}",
                _model(clean_line(line.model)),
                f"{kin.turns:,}",
                f"{kin.tokens:,}",
                _cut(kin.words),
            )
        )
    more = len(lines) - len(rows) + 1
    left = f"\n… and {more:,} more: `ikigai agents` lists them all." if more > 0 else ""
    return table(rows) + left


def _model(name: str) -> str:
    return (name if len(name) <= LONGEST_MODEL else name.rpartition("/")[2]) or "-"


def _cut(words: str) -> str:
    said = " ".join(clean_line(words).split())
    return said if len(said) <= WORDS else f"{said[: WORDS - 1]}…"


def figures(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The same for programs. Times are seconds since 1970; `parent` and `id` are ids."""
    return [
        {
            "name": line.place.kin.name,
            "id": line.place.kin.id,
            "parent": line.place.kin.parent,
            "forked_at": line.place.kin.forked_at,
            "depth": line.place.depth,
            "state": line.state,
            "dead": line.place.kin.dead,
            "model": line.model,
            "turns": line.place.kin.turns,
            "tokens": line.place.kin.tokens,
            "last_words": line.place.kin.words,
            "holder": line.place.kin.holder,
            "last_used_at": line.place.kin.last_used_at,
            "trouble": line.place.trouble,
        }
        for line in lines
    ]


def about(figures: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """One agent in lines, from its figures; `names` are by id."""
    parent = figures["parent"]
    rows = [
        ("agent", f"{figures['name']} ({figures['id']})"),
        ("parent", f"{names.get(parent, parent)}, from event #{figures['forked_at']} on" if parent else "none: a root"),
        ("state", figures["state"] + (f" ({figures['trouble']})" if figures["trouble"] else "")),
        ("held by", {"": "nobody", HERE: "this program"}.get(figures["holder"], figures["holder"])),
        ("model", figures["model"] or "-"),
        ("turns", f"{figures['turns']:,}"),
        ("tokens", f"{figures['tokens']:,} in its last request and reply"),
        ("last words", " ".join(figures["last_words"].split())),
    ]
    return "\n".join(f"{name:<11}{clean_line(str(value))}".rstrip() for name, value in rows)
