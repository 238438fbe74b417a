"""Print mode's composition: open the agent, ask once, print, and say by the exit code what came of it.

A command that only shows something is answered instead, without a model and without the agent's pen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import signal
import sys
from typing import TYPE_CHECKING, Any

from ikigai import images
from ikigai.app import agent_tree as kin
from ikigai.app import info_commands as answers
from ikigai.app import usage_report as reports
from ikigai.app.agent_manager import Crew
from ikigai.app.open_database import PREPARING, is_first
from ikigai.app.profiles import missed
from ikigai.app.services import World
from ikigai.app.spool import spool
from ikigai.app.subagents import Delegation
from ikigai.config import Config
from ikigai.core.commands import fork as forking
from ikigai.core.commands.parsers import Local
from ikigai.core.errors import Busy, ConfigError, IkigaiError, NewerSchema, Refused
from ikigai.core.events import Choices
from ikigai.core.state.inputs import Change, Plan, Retry, Submitted
from ikigai.headless import printer as headless
from ikigai.system.output import say
from ikigai.system.progress import waiting

if TYPE_CHECKING:
    from ikigai.store.agents import Agent

PATIENCE = 20.0
"""Seconds that print mode waits for a lost database before it gives up with exit code 75."""


def run(config: Config, arguments: argparse.Namespace, text: str) -> int:
    """Answer `text` once; returns the exit code."""
    caught: list[int] = []
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        answering = loop.create_task(_answer(config, arguments, text))

        def stop(signum: int) -> None:
            caught.append(signum)
            answering.cancel()

        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop, signum)
        try:
            return loop.run_until_complete(answering)
        except asyncio.CancelledError:
            return 128 + caught[0]


async def _answer(config: Config, arguments: argparse.Namespace, text: str) -> int:
    try:
        command = answers.print_command(text)
        if isinstance(command, Local) and command.name not in answers.TREE:
            return await _show(config, arguments, command)
        pictures = await asyncio.to_thread(images.attach_all, images.named(arguments.words))
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    async with waiting(PREPARING, is_first(config) and not arguments.output_format) as told:
        world = await World.open(config, told=told)
    try:
        asks = command is None or isinstance(command, Plan | Retry)  # a fork asks its child
        if arguments.new and asks:
            _check_model(world, {})  # no agent for nothing
        agent = await world.choose(arguments.resume, arguments.new, getattr(arguments, "continue"))
        if isinstance(command, Local):
            agent, text, told = await _rearranged(world, agent, command, arguments.yes)
            if not text:
                _print(arguments, told, {"text": told, "agent": agent.name})
                return 0
            command = None
        try:
            memory, log, recovered = await world.take(agent)
        except Busy as busy:
            raise Busy(busy.what, "Nothing was sent. --new begins a fresh agent beside it.", busy.holder) from None
        if asks:
            _check_model(world, memory.own)
        fitted = ""
        if isinstance(command, Change):
            world.check(memory, command.values)
            values, fitted = world.fitting(memory, command.values)
            command = Change(values)
        printer = headless.Printer(arguments.output_format or "text", agent.name, arguments.yes, arguments.raw)
        for notice in filter(
            None, (*recovered, *world.problems(), fitted, missed(memory), world.level_notice(memory.own))
        ):
            printer.notice(notice)
        model = str(world.run.resolve(memory.own).get("model"))
        if pictures and not world.sees(model):
            printer.notice(images.unseen(model))
        asked = {"condensing": lambda of: world.condensing(of).asked}
        limits = {"max_requests": arguments.max_turns, "patience": PATIENCE, **asked}
        crew = Crew(world, Delegation, ledger=printer.spent_beside, asks=False, **limits)
        runtime = crew.join(agent, memory, log, printer, mail=False).runtime
        try:
            if command is None or isinstance(command, Plan | Retry):
                return await headless.answer(runtime, printer, command or Submitted(text, pictures))
            return await headless.carry_out(runtime, printer, command)
        finally:
            if runtime.unsaved:
                printer.notice(spool(log.unsaved(runtime.unsaved, ())).told)
            if kept := await _stopped(crew, agent, printer):
                printer.notice(kept)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await world.close()


async def _show(config: Config, arguments: argparse.Namespace, command: Local) -> int:
    """Print what the command answers: its text, or one object."""
    if command.name in answers.ANYWHERE:
        found = await answers.answer(command, config, None)
    else:
        async with waiting(PREPARING, is_first(config) and not arguments.output_format) as told:
            try:
                world = await World.open(config, told=told)
            except NewerSchema:
                world = await World.open(config, told=told, write=False)
        try:
            agent = await world.choose(arguments.resume, arguments.new, getattr(arguments, "continue"))
            memory = await world.look(agent)
            place = answers.Place(world, agent, memory, memory.status.value)
            found = await answers.answer(command, config, place)
        finally:
            await world.close()
    _print(arguments, found.text, found.figures)
    return 0


def _print(arguments: argparse.Namespace, text: str, figures: dict[str, Any]) -> None:
    """Write what was asked for: the text, or one object."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every encoding has every character
    match arguments.output_format:
        case "json":
            say(reports.json(figures))
        case "stream-json":
            say(reports.json({"type": "result", **figures}))
        case _:
            say(text, painted=arguments.raw)


async def _rearranged(world: World, agent: Agent, command: Local, yes: bool) -> tuple[Agent, str, str]:
    """Do what a command of TREE says: the agent that it was about, what is to be asked there, and what was done."""
    agents = world.database.agents
    match command.name:
        case "fork":
            asked = forking.asked(command.argument)
            if asked.prompt:
                _check_model(world, {**(await world.look(agent)).own, **asked.choices})  # no child for nothing
            child = await kin.fork(world, agent, asked)
            return child.agent, asked.prompt, kin.told(child, "ikigai -r {}")
        case "rename":
            *old, new = command.argument.rsplit(maxsplit=1) or [""]
            agent = await agents.find(old[0]) if old else agent
            await world.database.family.rename(agent, new)
            return agent, "", f"{agent.name} is called {new} now."
        case "kill":
            agent = await agents.find(command.argument) if command.argument else agent
            return agent, "", await kin.kill_agreed(world.database, agent, yes)
        case _:
            agent = await agents.find(command.argument)
            return agent, "", await kin.revive(world.database, agent, "ikigai -r {}")


async def _stopped(crew: Crew, agent: Agent, printer: headless.Printer) -> str:
    """Stop the agents that this one made and that are still at work; the sentences about what could not be saved."""
    root = crew.members.pop(agent.id)
    busy = [each.agent.name for each in crew.members.values() if each.runtime.busy]
    if busy:
        printer.notice(f"Stopped with it: {', '.join(busy)}. ikigai -r NAME goes on with one.")
    kept = await crew.close()
    await root.log.close()
    return kept


def _check_model(world: World, own: Choices) -> None:
    """Raise when an agent with these choices of its own has no model, or one that nobody here serves."""
    model = world.run.resolve(own).get("model")
    if not model:
        raise IkigaiError(
            "There is no model: no key, and no local model.",
            "Run: ikigai login    or ikigai setup, or name a server in the configuration.",
        )
    world.pool.check(str(model))
