"""What commands that only show something answer, at the terminal and in print mode: as text, and as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ikigai.app.profiles import figures as profile_figures
from ikigai.app.profiles import in_force
from ikigai.app.profiles import told as told_of_profiles
from ikigai.config import Config, describe
from ikigai.core.commands import table as commands
from ikigai.core.commands.parsers import Local, Meaning
from ikigai.core.errors import Opening, Refused
from ikigai.core.request.system_prompt import KEY
from ikigai.core.state import inputs
from ikigai.core.views import status_report as about
from ikigai.core.views.context_report import context, told

if TYPE_CHECKING:
    from ikigai.app.agent_manager import Crew
    from ikigai.app.services import World
    from ikigai.core.search.snippets import Marked
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents import Agent
    from ikigai.terminal.render.theme import Theme

SHOWN = (
    *("help", "config", "model", "profile", "think", "system", "search"),
    *("cost", "context", "summary", "status", "agents"),
)
"""Commands that are answered here."""
ANYWHERE = ("help", "config")
"""Those that need no agent."""
PRINTED = ("context", "status", "summary", "cost", "help", "model", "profile", "search", "agents")
"""Those that print mode answers."""


TREE = ("fork", "rename", "kill", "revive")
"""Those that print mode carries out, though they are no agent's own."""


class Answer(NamedTuple):
    """`figures` says the same to programs, of the commands in PRINTED; costs in it are exact decimals.

    `marked` are the lines of the text where some of it is to stand out; `drawn` is what makes it for so many cells.
    """

    text: str
    figures: dict[str, Any]
    marked: Sequence[Marked] = ()
    drawn: Callable[[int, Theme], str] | None = None


class Place(NamedTuple):
    """What is asked about: an agent and its memory. `session` are the usage events of this run, None without one;
    `crew` the agents that are open in it.
    """

    world: World
    agent: Agent
    memory: Memory
    state: str
    session: Sequence[int] | None = None
    crew: Crew | None = None


async def answer(command: Local, config: Config, place: Place | None) -> Answer:
    """What a command of SHOWN answers. Raises Refused, and whatever the database has to say."""
    match command.name:
        case "help":
            return Answer(commands.help_text(command.argument), {"commands": commands.help_figures(command.argument)})
        case "config":
            rows = describe(config, in_force(place.memory) if place else None)
            return Answer("\n".join(f"{key} = {value}  ({origin})" for key, value, origin in rows), {})
        case _ if place is None:
            raise Opening()
        case "cost":
            return await _cost(place, config, command.argument)
        case "context":
            return await _context(place)
        case "agents":
            return await _agents(place, command.argument)
        case "summary":
            return await _summary(place)
        case "search":
            return await _search(place, command.argument)
        case _:
            return _of_memory(command.name, place)


def print_command(text: str) -> Meaning | None:
    """The command that a message of print mode is, None for words to a model. Raises Refused for one that has no place
    there.
    """
    if not commands.is_command(text):
        return None
    meaning = commands.parse(text)
    if (isinstance(meaning, Local) and meaning.name not in (*PRINTED, *TREE)) or isinstance(meaning, inputs.Edit):
        shown = ", ".join(f"/{name}" for name in PRINTED)
        what = f"{text.split(maxsplit=1)[0]} has no place in print mode."
        raise Refused(what, f"It answers {shown}, and does what changes the context; start ikigai for all.")
    return meaning


async def _cost(place: Place, config: Config, argument: str) -> Answer:
    from ikigai.app import usage_report as reports
    from ikigai.app.plots import command as pictures

    asked, database = pictures.typed(argument), place.world.database
    rows = await reports.spent_so_far(database, place.session, place.agent.id)
    figures = {name.replace(" ", "_"): reports.cost_figures(of) for name, of in rows}
    if not asked.plot:
        return Answer(reports.cost_so_far(rows), figures)
    picture = await pictures.shown(database, config, place.agent, place.memory.budget and place.memory.ceiling)
    if asked.file:
        return Answer(await pictures.written(picture, asked), figures)
    text = pictures.printed(picture, words=config.terminal.screen_reader)
    return Answer(text, figures, drawn=partial(pictures.on_screen, picture))


async def _agents(place: Place, argument: str) -> Answer:
    from ikigai.app import agent_tree as kin

    if argument not in ("", "--all"):
        raise Refused(f"/agents cannot {argument[:80]!r}.", "Write /agents, or /agents --all to see the dead, too.")
    lines = await kin.listed(place.world.database, place.crew, dead=bool(argument))
    return Answer(kin.text(lines, place.agent.id, kin.MOST), {"agents": kin.figures(lines)})


async def _search(place: Place, asked: str) -> Answer:
    from ikigai.app import search_results as finding

    database = place.world.database
    if (id := finding.event_id(asked)) is not None:
        name, events = await database.around(id)
        return Answer(finding.around_text(name, events, id), finding.around_figures(name, events))
    found = await database.search(asked)
    lineage = await database.lineage(place.agent.id)
    known = {
        hit.id
        for hit in found.hits
        if hit.agent_id in lineage and hit.id <= (lineage[hit.agent_id] or hit.id) and place.memory.remembers(hit.id)
    }
    lines = finding.lines(found, known)
    return Answer("\n".join(line.text for line in lines), finding.figures(asked, found, known), lines)


async def _context(place: Place) -> Answer:
    world, memory = place.world, place.memory
    last = await world.database.reader(place.agent).last_counted()
    found = context(memory, world.learned(memory.model), last)
    return Answer(told(found), {"agent": place.agent.name, **msgspec.structs.asdict(found)})


async def _summary(place: Place) -> Answer:
    from ikigai.core.condense.plan import described, figures, listed

    found = await place.world.database.reader(place.agent).load(listed(place.memory))
    return Answer(described(found), {"agent": place.agent.name, **figures(found)})


def _of_memory(name: str, place: Place) -> Answer:
    world, agent, memory, state, *_ = place
    match name:
        case "model":
            return Answer(about.model(memory), about.model_figures(memory))
        case "profile":
            return Answer(told_of_profiles(world.config, memory), profile_figures(world.config, memory))
        case "think":
            return Answer(about.thinking(memory, world.pool.known.levels(memory.model)), {})
        case "system":
            system = str(memory.settings.get("system") or "There is no system prompt. /system TEXT sets one.")
            return Answer("\n\n".join(filter(None, (system, str(memory.settings.get(KEY) or "")))), {})
        case _:
            text = about.status(memory, f"{agent.name} ({agent.id})", state, world.database_name)
            return Answer(text, about.status_figures(memory, agent.name, agent.id, state, world.database_name))
