"""Carry out the commands that only show information, at the terminal and in print mode, as text and as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from ikigai.app.json_records.command_figures import (
    ChosenModelRecord,
    Figures,
    HelpRecord,
    KeyFields,
    KeysRecord,
    SlashCommandFields,
    StatusRecord,
    SummariesRecord,
    SummaryFields,
    SystemPromptRecord,
)
from ikigai.app.json_records.record_fields import record_of, timestamp
from ikigai.app.run.run_profiles import format_profiles, profiles_record
from ikigai.config import Config
from ikigai.core.commands import table
from ikigai.core.commands.parsers import Meaning, ProgramCommand
from ikigai.core.commands.spec import PrintMode
from ikigai.core.errors import NotReady, Rejected
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY
from ikigai.core.views import status_report
from ikigai.core.views.context_report import build_report, format_report

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import AgentManager
    from ikigai.app.run.services import Services
    from ikigai.core.commands.spec import CommandSpec
    from ikigai.core.events.events import StoredEvent
    from ikigai.core.search.snippets import MarkedText
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent
    from ikigai.terminal.render.theme import Theme


PIPED_WIDTH = 80
"""Columns of a text that is laid out for no terminal."""


class CommandAnswer(NamedTuple):
    """The answer of a command. `figures` are its JSON object in print mode.

    `marked` has the lines of a text with highlighted places. `draw` returns the text for a width in cells and a theme.
    """

    text: str
    figures: Figures
    marked: Sequence[MarkedText] = ()
    draw: Callable[[int, Theme], str] | None = None


class CommandContext(NamedTuple):
    """The subject of a command: an agent and its memory.

    `session` has the ids of the usage events of this run, None without a run; `manager` has its open agents.
    """

    services: Services
    agent: Agent
    memory: Memory
    state: str
    session: Sequence[int] | None = None
    manager: AgentManager | None = None


async def answer_command(command: ProgramCommand, config: Config, context: CommandContext | None) -> CommandAnswer:
    """Return the answer of a command of COMMANDS_WITHOUT_AGENT or HERE.

    Raise Rejected, NotReady, and the errors of the database.
    """
    if find := COMMANDS_WITHOUT_AGENT.get(command.name):
        return await find(command.argument, config, context)
    if context is None:
        raise NotReady()
    return await HERE[command.name](command.argument, config, context)


def print_command(text: str) -> Meaning | None:
    """Parse a message of print mode as a command; None for a message to a model.

    Raise Rejected for a command that print mode does not have.
    """
    if not table.is_command(text):
        return None
    word = text.split(maxsplit=1)[0]
    meaning = table.parse(text)
    name = meaning.name if isinstance(meaning, ProgramCommand) else word[1:]
    if table.BY_NAME[name].print_mode is PrintMode.NO:
        names = ", ".join(f"/{each.name}" for each in table.COMMANDS if each.print_mode is not PrintMode.NO)
        raise Rejected(
            f"{word} is not available in print mode.", f"Print mode has {names}. Start ikigai for the others."
        )
    return meaning


async def _help(argument: str, config: Config, context: CommandContext | None) -> CommandAnswer:
    from ikigai.core.commands import command_help

    if argument == "keys":
        return await _keys("", config, context)
    own = await asyncio.to_thread(_describe_own, config, context)
    if layout := {"": command_help.format_overview, "all": command_help.format_all}.get(argument):
        figures = HelpRecord(commands=_command_fields(table.COMMANDS), own=own)
        return CommandAnswer(layout(PIPED_WIDTH, own), figures, draw=lambda columns, _: layout(columns, own))
    if (name := argument.removeprefix("/")) in own:
        return CommandAnswer(f"/{name}: {own[name]}", HelpRecord(commands=(), own={name: own[name]}))
    command = command_help.find_command(argument)
    figures = HelpRecord(commands=_command_fields([command]))
    return CommandAnswer(command_help.format_command(command, config.key_changes), figures)


def _command_fields(commands: Sequence[CommandSpec]) -> tuple[SlashCommandFields, ...]:
    return tuple(record_of(SlashCommandFields, each) for each in commands)


def _describe_own(config: Config, context: CommandContext | None) -> dict[str, str]:
    """Return the names that the user may type besides the program's, each with its help."""
    from ikigai.app.commands.own_names import find_own_names, own_names_of

    names = own_names_of(context.services, context.memory) if context else find_own_names(config)
    return {name: each.help for name, each in names.describe().items()}


async def _keys(argument: str, config: Config, context: CommandContext | None) -> CommandAnswer:
    from ikigai.core.commands import key_help

    rows = tuple(KeyFields(keys=keys, help=effect) for keys, effect in key_help.key_rows(config.key_changes))
    text = key_help.format_keys(PIPED_WIDTH, config.key_changes)
    return CommandAnswer(
        text, KeysRecord(keys=rows), draw=lambda columns, _: key_help.format_keys(columns, config.key_changes)
    )


async def _cost(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    from ikigai.app.plots.command import draw_on_screen, format_plot, plot_for_screen
    from ikigai.app.usage import usage_report

    database = context.services.database
    rows = await usage_report.spent_so_far(database, context.session, context.agent.id)
    cache = await database.usage.cache_report(context.agent.id)
    figures = usage_report.cost_record(rows, cache)
    if not argument:
        from ikigai.app.usage import cache_usage

        text = f"{usage_report.format_costs(rows)}\n{cache_usage.format_cost_lines(cache)}".rstrip()
        if context.services.spending:
            from ikigai.app.usage import spending_caps

            used = await spending_caps.read_used(context.services, context.memory)
            text = f"{text}\n{spending_caps.day_line(context.services.spending.caps, used)}".rstrip()
        return CommandAnswer(text, figures)
    budget = context.memory.budget and context.memory.ceiling
    picture = await plot_for_screen(database, config, context.agent, budget)
    text = format_plot(picture, words=config.terminal.screen_reader)
    return CommandAnswer(text, figures, draw=partial(draw_on_screen, picture))


async def _limit(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    if argument:
        raise Rejected("Print mode shows the spending caps only.", "--max-usd X sets one for this run.")
    from ikigai.app.usage import spending_caps
    from ikigai.core.request.spending import Caps

    caps = context.services.spending.caps if context.services.spending else Caps()
    used = await spending_caps.read_used(context.services, context.memory)
    return CommandAnswer(spending_caps.format_limits(caps, used), spending_caps.limits_record(caps, used))


async def _agents(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    from ikigai.app.agents import agent_tree
    from ikigai.app.list_options import MAX_PRINTED_ROWS

    database = context.services.database
    listings = await agent_tree.list_newest(database, MAX_PRINTED_ROWS, context.manager, unlisted=bool(argument))
    text = agent_tree.format_tree(listings, context.agent.id)

    def draw(width: int, theme: Theme) -> str:
        from ikigai.terminal.render.text_width import cut

        return "\n".join(cut(row, width) for row in text.split("\n"))

    return CommandAnswer(text, agent_tree.agents_record(listings), draw=draw)


async def _search(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    from ikigai.app.history import search_results

    database = context.services.database
    if (id := search_results.parse_event_id(argument)) is not None:
        name, events = await database.neighbors(id)
        layout = partial(search_results.format_neighbors, name, events, id)
        figures = search_results.events_record(name, events[0].agent, events)
        return CommandAnswer(layout(), figures, draw=lambda columns, _: layout(columns))
    result = await database.search(argument)
    lineage = await database.lineage(context.agent.id)
    known = {
        hit.id
        for hit in result.hits
        if hit.agent_id in lineage
        and hit.id <= (lineage[hit.agent_id] or hit.id)
        and context.memory.has_in_context(hit.id)
    }
    lines = search_results.format_hits(result, known)
    text = "\n".join(line.text for line in lines)
    return CommandAnswer(text, search_results.hits_record(argument, result, known), lines)


async def _context(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    memory = context.services.before_turn(context.memory)
    last = await context.services.database.reader(context.agent).last_counted()
    from ikigai.app.usage.next_request_price import price_of_next
    from ikigai.core.views.next_price import price_words

    _, use = await context.services.database.usage.cache_uses(context.agent.id)
    price = await price_of_next(config, memory, use)
    report = build_report(memory, context.services.learned(memory.model), last, price)
    return CommandAnswer(f"{format_report(report)}\n{'next price':<12} {price_words(price)}", report)


async def _budget(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    memory = context.services.before_turn(context.memory)
    return (await _context(argument, config, context))._replace(text=status_report.format_budget(memory))


async def _summary(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    from ikigai.core.context.condense_plan import format_summaries, load_summaries

    summaries = await context.services.database.reader(context.agent).load(load_summaries(context.memory))

    def fields(stored: StoredEvent) -> SummaryFields:
        return SummaryFields(id=stored.id, at=timestamp(stored.at), **msgspec.structs.asdict(stored.event))

    in_force = fields(summaries.in_force) if summaries.in_force else None
    record = SummariesRecord(in_force=in_force, cleared=tuple(map(fields, summaries.closed)))
    return CommandAnswer(format_summaries(summaries), record)


async def _model(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    record = ChosenModelRecord(**status_report.model_as_dict(context.memory))
    return CommandAnswer(status_report.format_model(context.memory), record)


async def _profile(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    config = context.services.config
    return CommandAnswer(format_profiles(config, context.memory), profiles_record(config, context.memory))


async def _think(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    levels = context.services.pool.known.levels(context.memory.model)
    record = ChosenModelRecord(**status_report.model_as_dict(context.memory), levels=tuple(levels))
    return CommandAnswer(status_report.format_thinking(context.memory, levels), record)


async def _system(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    settings = context.memory.settings
    own, default = str(settings.get("system") or ""), context.services.default_system(context.memory)
    hint = 'This is the default. /system TEXT replaces it, /system "" clears it.' if default else ""
    if not own and not default:
        hint = "There is no system prompt. /system TEXT sets one, /system default takes the default."
    parts = own or default, hint, str(settings.get(INSTRUCTIONS_KEY) or "")
    figures = SystemPromptRecord(system=own or default, default=bool(default), instructions=parts[-1])
    return CommandAnswer("\n\n".join(filter(None, parts)), figures)


async def _skills(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    if argument:
        raise Rejected("Print mode lists the skills only.", "skills_off under [context] switches some off.")
    from ikigai.app.skills.skill_list import format_skills, skills_record

    services, settings = context.services, context.services.context_settings(context.memory)
    found = (await asyncio.to_thread(services.skills.skills)).values()
    uses = await services.database.skill_uses() if found else None
    record = skills_record(found, settings.skills_off, settings.skills_tokens, uses)
    problems = services.skills.problems.copy()
    services.skills.problems.clear()
    return CommandAnswer("\n".join((*problems, format_skills(record))), record)


async def _status(argument: str, config: Config, context: CommandContext) -> CommandAnswer:
    services, agent, memory, state, *_ = context
    database, memory = services.database_name, services.before_turn(memory)
    text = status_report.format_status(
        memory, f"{agent.name} ({agent.id})" if agent.name else "none yet", state, database
    )
    record = StatusRecord(**status_report.status_as_dict(memory, agent.name, agent.id, state, database))
    return CommandAnswer(text, record)


FindAnywhere: TypeAlias = Callable[[str, Config, "CommandContext | None"], Awaitable[CommandAnswer]]
FindHere: TypeAlias = Callable[[str, Config, CommandContext], Awaitable[CommandAnswer]]

COMMANDS_WITHOUT_AGENT: Mapping[str, FindAnywhere] = {"help": _help, "keys": _keys}
"""Handlers of the commands that need no agent."""

HERE: Mapping[str, FindHere] = {
    "agents": _agents,
    "budget": _budget,
    "context": _context,
    "cost": _cost,
    "limit": _limit,
    "model": _model,
    "profile": _profile,
    "search": _search,
    "skills": _skills,
    "status": _status,
    "summary": _summary,
    "system": _system,
    "think": _think,
}
"""Handlers of the commands that show information about an agent."""
