"""This module composes print mode: it opens the agent, sends one message, prints, and returns the exit code.

A read-only command is answered instead, without a model and without the agent's write lock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ikigai.agent.loop import LoopOptions
from ikigai.app import agent_tree, info_commands, usage_report
from ikigai.app.agent_manager import AgentManager
from ikigai.app.managed_subagents import ManagedSubagents
from ikigai.app.open_database import PREPARING_DATABASE, is_first
from ikigai.app.run_profiles import missing_profile_notice
from ikigai.app.services import Services
from ikigai.app.spool import spool
from ikigai.config import Config
from ikigai.core.commands import fork
from ikigai.core.commands.parsers import ProgramCommand, parse_archive, parse_kill, parse_rename
from ikigai.core.errors import AgentLocked, ConfigError, IkigaiError, NewerSchema, Rejected
from ikigai.core.events import Choices
from ikigai.core.state.inputs import Change, Plan, Retry, Submitted
from ikigai.core.state.settings import with_choices
from ikigai.headless import printer as headless
from ikigai.system.output import print_lines
from ikigai.system.progress import show_waiting

if TYPE_CHECKING:
    from ikigai.app.attachments import LocalMentions
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents import Agent

DATABASE_TIMEOUT = 20.0
"""Seconds that print mode waits for a lost database before it gives up with exit code 75."""


def run(config: Config, arguments: argparse.Namespace, text: str, typed: str) -> int:
    """Answer `text` once; return the exit code. Only the part of it that was `typed` can mention files."""
    signals: list[int] = []
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(_answer(config, arguments, text, typed))

        def stop(signum: int) -> None:
            signals.append(signum)
            task.cancel()

        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop, signum)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            return 128 + signals[0]


async def _answer(config: Config, arguments: argparse.Namespace, text: str, typed: str) -> int:
    try:
        command = info_commands.print_command(text)
        if isinstance(command, ProgramCommand) and command.name not in TREE_HANDLERS:
            return await _show(config, arguments, command)
        local = await asyncio.to_thread(_read_mentions, typed) if command is None and "@" in typed else None
    except Rejected as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    async with show_waiting(PREPARING_DATABASE, is_first(config) and not arguments.output_format) as told:
        services = await Services.open(config, on_progress=told)
    try:
        services.ephemeral = arguments.ephemeral
        asks_model = command is None or isinstance(command, Plan | Retry)  # a fork's child asks its own
        if arguments.new and asks_model:
            _check_model(services, services.run.resolve({}))  # no agent for nothing
        agent = await services.choose(arguments.resume, arguments.new, getattr(arguments, "continue"))
        if isinstance(command, ProgramCommand):
            agent, text, told = await TREE_HANDLERS[command.name](services, agent, command.argument, arguments.yes)
            if not text:
                _print(arguments, told, {"text": told, "agent": agent.name})
                return 0
            command = None
        try:
            memory, log, recovered = await services.acquire(agent)
        except AgentLocked as locked:
            remedy = "Nothing was sent. --new begins a fresh agent beside it."
            raise AgentLocked(locked.what, remedy, locked.owner) from None
        if asks_model:
            _check_model(services, memory.run.resolve(memory.own))
        model_notice = ""
        if isinstance(command, Change):
            services.check(memory, command.values)
            values, level_notice = services.keep_level(memory, command.values)
            model_notice = " ".join(filter(None, (level_notice, services.unseen_images_notice(memory, values))))
            command = Change(values)
        printer = headless.PrintView(arguments.output_format or "text", agent.name, arguments.yes, arguments.raw)
        notices = (*recovered, *services.problems(), model_notice)
        notices += (missing_profile_notice(memory), services.level_notice(memory))
        for notice in filter(None, notices):
            printer.notice(notice)
        condensing = lambda of: services.condensing(of).manual_only  # noqa: E731
        options = LoopOptions(arguments.max_turns, DATABASE_TIMEOUT, condensing=condensing)
        on_usage = printer.add_subagent_usage
        manager = AgentManager(services, ManagedSubagents, on_usage=on_usage, can_ask=False, options=options)
        runtime = manager.register(agent, memory, log, printer, mail=False).agent_loop
        try:
            if command is None:
                command = await _attach(text, local, services, memory, printer) if local else Submitted(text)
            if isinstance(command, Submitted | Plan | Retry):
                return await headless.run_turn(runtime, printer, command)
            return await headless.carry_out(runtime, printer, command)
        finally:
            if runtime.unsaved:
                printer.notice(spool(log.unsaved(runtime.unsaved)).message)
            if unsaved := await _stop_subagents(manager, agent, printer):
                printer.notice(unsaved)
    finally:
        if arguments.ephemeral:
            try:
                await services.purge_ephemeral()
            except IkigaiError:
                sys.stderr.write("ikigai: This conversation could not be purged now; the next start does that.\n")
        with contextlib.suppress(asyncio.CancelledError):
            await services.close()


def _read_mentions(text: str) -> LocalMentions:
    from ikigai.app import attachments

    return attachments.read_mentions(text)


async def _attach(
    text: str, local: LocalMentions, services: Services, memory: Memory, printer: headless.PrintView
) -> Submitted:
    """Return the message with what it mentions. Raise Rejected if it cannot be attached."""
    from ikigai import images
    from ikigai.app import attachments

    attached = await attachments.attach(local, services, memory.settings, printer.ask, lambda waiting: None)
    if attached.images and not services.sees_images(memory.model):
        printer.notice(images.unseen_notice(memory.model))
    if notice := attachments.unknown_notice(local.unknown):
        printer.notice(notice)
    return Submitted(text, attached.images, documents=attached.documents)


async def _show(config: Config, arguments: argparse.Namespace, command: ProgramCommand) -> int:
    """Print the answer of the command: its text, or one object."""
    if command.name in info_commands.COMMANDS_WITHOUT_AGENT:
        answer = await info_commands.answer_command(command, config, None)
    else:
        async with show_waiting(PREPARING_DATABASE, is_first(config) and not arguments.output_format) as on_progress:
            try:
                services = await Services.open(config, on_progress=on_progress)
            except NewerSchema:
                services = await Services.open(config, on_progress=on_progress, write=False)
        try:
            agent = await services.choose(arguments.resume, arguments.new, getattr(arguments, "continue"))
            memory = await services.load_memory(agent)
            context = info_commands.CommandContext(services, agent, memory, memory.status.value)
            answer = await info_commands.answer_command(command, config, context)
        finally:
            await services.close()
    _print(arguments, answer.text, answer.as_dict)
    return 0


def _print(arguments: argparse.Namespace, text: str, figures: dict[str, Any]) -> None:
    """Write the text, or one object, as the output format says."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every encoding has every character
    match arguments.output_format:
        case "json":
            print_lines(usage_report.to_json(figures))
        case "stream-json":
            print_lines(usage_report.to_json({"type": "result", **figures}))
        case _:
            print_lines(text, painted=arguments.raw)


class TreeChange(NamedTuple):
    """The result of a command that changes the tree: its agent, the message to send there next, and the report."""

    agent: Agent
    prompt: str
    report: str


async def _fork(services: Services, agent: Agent, argument: str, yes: bool) -> TreeChange:
    request = fork.parse_fork(argument)
    if request.prompt:
        chosen = with_choices(await services.load_memory(agent), request.choices)
        _check_model(services, chosen.run.resolve(chosen.own))  # no child for nothing
    child = await agent_tree.fork(services, agent, request)
    return TreeChange(child.agent, request.prompt, agent_tree.fork_message(child, "ikigai -r {}"))


async def _rename(services: Services, agent: Agent, argument: str, yes: bool) -> TreeChange:
    names = parse_rename(argument.split())
    agent = await services.database.agents.find(names.old) if names.old else agent
    report = await agent_tree.rename(services.database, agent, names.new, "ikigai agents rename {} {}")
    return TreeChange(agent, "", report)


async def _kill(services: Services, agent: Agent, argument: str, yes: bool) -> TreeChange:
    name = parse_kill(argument.split())
    agent = await services.database.agents.find(name) if name else agent
    return TreeChange(agent, "", await agent_tree.kill_agreed(services.database, agent, yes))


async def _archive(services: Services, agent: Agent, argument: str, yes: bool) -> TreeChange:
    name = parse_archive(argument.split())
    agent = await services.database.agents.find(name) if name else agent
    return TreeChange(agent, "", await agent_tree.archive(services.database, agent, "ikigai agents revive {}"))


async def _revive(services: Services, agent: Agent, argument: str, yes: bool) -> TreeChange:
    agent = await services.database.agents.find(argument)
    return TreeChange(agent, "", await agent_tree.revive(services.database, agent, "ikigai -r {}"))


TREE_HANDLERS = {"archive": _archive, "fork": _fork, "kill": _kill, "rename": _rename, "revive": _revive}
"""Handlers of the commands that change the tree: they take the agent, the argument, and the value of --yes."""


async def _stop_subagents(manager: AgentManager, agent: Agent, printer: headless.PrintView) -> str:
    """Stop the subagents that are still running; return the sentences about what could not be saved."""
    root = manager.agents.pop(agent.id)
    running = [each.agent.name for each in manager.agents.values() if each.agent_loop.busy]
    if running:
        printer.notice(f"Stopped with it: {', '.join(running)}. ikigai -r NAME goes on with one.")
    unsaved = await manager.close()
    await root.log.close()
    return unsaved


def _check_model(services: Services, settings: Choices) -> None:
    """Raise an IkigaiError if these settings name no model, or one that no provider serves."""
    model = settings.get("model")
    if not model:
        raise IkigaiError(
            "There is no model: no key, and no local model.",
            "Run: ikigai login    or ikigai setup, or name a server in the configuration.",
        )
    services.pool.check(str(model))
