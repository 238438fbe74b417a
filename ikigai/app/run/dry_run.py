"""Do the start of a run, without a database and an agent, and report what would go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ikigai.agent.context.summary_writer import read_prompt
from ikigai.app.project.trusted_project import make_project
from ikigai.app.run.factories import make_pool, make_run, make_tool_runtime, model_and_level, tighten
from ikigai.app.run.surroundings import find_surroundings
from ikigai.config import Config, with_profile
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import IkigaiError
from ikigai.core.request.system_prompt import DEFAULT_SYSTEM_KEY
from ikigai.core.request.tool_rules import refused_tools
from ikigai.core.state.decisions.settings import check_budget, default_system, with_choices
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import empty_memory
from ikigai.core.state.memory import Memory, envelope
from ikigai.core.tools.tool_selection import EXTERNAL_SET
from ikigai.providers.pool import ProviderPool

if TYPE_CHECKING:
    from ikigai.app.tools.tool_runtime import ToolRuntime


class RunProblem(NamedTuple):
    """Something that stops every run (`stops`), or does not work in one; `about` names it in a word or two."""

    about: str
    message: str
    remedy: str = ""
    stops: bool = False


async def find_problems(config: Config, own_tools: bool = True) -> list[RunProblem]:
    """Return the problems of runs with this configuration in the working directory.

    With `own_tools` the user's own tools and a trusted project's are asked for their schemas, as at every start.
    """
    problems: list[RunProblem] = []
    project = make_project()
    project.check_trust()
    pool = make_pool(config)
    try:
        config, _ = tighten(config, project)
        runtime = await asyncio.to_thread(make_tool_runtime, config)
        try:
            if own_tools:
                await runtime.open(project)
            run = await asyncio.to_thread(make_run, config, pool, runtime, project)
            problems += [RunProblem("own tools", problem) for problem in runtime.problems]
            problems += [RunProblem("project", problem) for problem in project.problems]
            problems += tool_problems(run, runtime)
            problems += budget_problems(config, run)
            problems += fallback_problems(config, pool)
        finally:
            await runtime.close()
    except IkigaiError as error:
        problems.append(RunProblem("start", error.what, error.remedy, stops=True))
    finally:
        await pool.close()
    by_message = {problem.message: problem for problem in reversed([*problems, *condense_problems(config)])}
    return list(reversed(by_message.values()))  # what profiles have from the configuration is told once


def tool_problems(run: RunConfig, runtime: ToolRuntime) -> Iterator[RunProblem]:
    """Yield the tools that the vendor of the model refuses, an MCP server's as it gave them last."""
    memory = empty_memory(run, "")
    known = [each.spec for each in runtime.mcp.all_definitions()] if runtime.mcp else []
    tools = [*known, *(tool for tool in run.tools if tool.set == EXTERNAL_SET)]
    if memory.model and tools:
        for problem in refused_tools(tools, run.encoder(memory.model).tool_rule):
            yield RunProblem("refused tools", problem)


def budget_problems(config: Config, run: RunConfig) -> Iterator[RunProblem]:
    """Yield the budgets, of the configuration and of its profiles, that a request without any turn exceeds."""
    for name in ("", *config.profiles):
        memory = empty_memory(run, "")
        if name:
            chosen = with_choices(memory, {"profile": name})
            memory = msgspec.structs.replace(chosen, settings=chosen.run.resolve(chosen.own))
        if with_profile(config, name).context.default_system_prompt:
            prompt = {DEFAULT_SYSTEM_KEY: default_system(memory, find_surroundings()) or None}
            memory = msgspec.structs.replace(memory, settings={**memory.settings, **prompt})
        if problem := _budget_problem(memory):
            yield RunProblem(_about("budget", name), problem.what, problem.remedy)


def _budget_problem(memory: Memory) -> IkigaiError | None:
    """Return the error of the budget in force; None if a request fits, or if there is no model to measure it for."""
    if not memory.model:
        return None
    try:
        check_budget(msgspec.structs.replace(memory, envelope=envelope(memory)), memory.settings.get("budget"))
    except IkigaiError as error:
        return error
    return None


def fallback_problems(config: Config, pool: ProviderPool) -> Iterator[RunProblem]:
    """Yield the fallback models, of the configuration and of its profiles, that could not answer."""
    for name in ("", *config.profiles):
        for model in with_profile(config, name).fallback:
            try:
                pool.check(*model_and_level(parse_model(model)))
            except IkigaiError as error:
                yield RunProblem(_about("fallback", name), f"The fallback {model}: {error.what}", error.remedy)


def condense_problems(config: Config) -> Iterator[RunProblem]:
    """Yield the settings about condensing, of the configuration and of its profiles, that cannot work."""
    for name in ("", *config.profiles):
        context = with_profile(config, name).context
        at, to = context.condense_at_percent, context.condense_to_percent
        if to >= at:
            message = (
                f"condense_to_percent ({to}) is not below condense_at_percent ({at}), so little would be condensed."
            )
            yield RunProblem(_about("condensing", name), message, "Choose a smaller condense_to_percent.")
        try:
            read_prompt(context.condense_prompt_file)
        except IkigaiError as error:
            yield RunProblem(_about("prompt file", name), error.what, error.remedy)


def _about(what: str, profile: str) -> str:
    return f"{what} of {profile}" if profile else what
