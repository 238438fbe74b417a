"""Compose print mode: open the agent, send one message, print, and return the exit code.

A read-only command is answered instead, without a model and without the agent's write lock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET, UnsetType

from ikigai.agent.loop_options import LoopOptions
from ikigai.app.agents.agent_manager import AgentManager
from ikigai.app.agents.managed_subagents import ManagedSubagents
from ikigai.app.commands import info_commands
from ikigai.app.json_records.command_figures import Figures
from ikigai.app.json_records.json_output import encode, use_utf8
from ikigai.app.json_records.turn_records import CommandOutcome, ResultRecord
from ikigai.app.run import setting_changes
from ikigai.app.run.first_agent import AgentChoice, find_agent
from ikigai.app.run.open_database import PREPARING_DATABASE, is_first
from ikigai.app.run.services import Services
from ikigai.app.unsaved.spool import spool_rest
from ikigai.config import Config
from ikigai.core.commands import table
from ikigai.core.commands.parsers import Meaning, ProgramCommand
from ikigai.core.errors import (
    AgentLocked,
    ConfigError,
    ExitCode,
    IkigaiError,
    NewerSchema,
    Rejected,
    Stopped,
    TimedOut,
)
from ikigai.core.state.inputs import Change, Plan, Retry, Submitted
from ikigai.core.text.sanitize import clean
from ikigai.headless import piped_input
from ikigai.headless.output_streams import OutputStreams
from ikigai.headless.printer import PrintView
from ikigai.headless.run_turns import carry_out, run_turns
from ikigai.headless.tree_commands import TREE_HANDLERS, check_model, needs_agent
from ikigai.system.paths import current_directory
from ikigai.system.progress import show_waiting

if TYPE_CHECKING:
    from ikigai.app.attachments.attachments import LocalMentions
    from ikigai.core.state.memory import Memory
    from ikigai.headless.reply_schema import ReplySchema
    from ikigai.store.agents.agents import Agent

DATABASE_TIMEOUT = 20.0
"""Seconds that print mode waits for a lost database before it gives up with exit code 75."""
FLUSH_TIMEOUT = 0.2
"""Seconds that the end of a run waits for the rest of standard output and error to be written."""


def run(config: Config, arguments: argparse.Namespace, typed: str) -> int:
    """Answer what was `typed` and is piped in; return the exit code. Only what was typed can be a command, and mention
    files.
    """
    codes: list[int] = []
    if arguments.output_format in ("json", "stream-json"):
        use_utf8()
    streams = OutputStreams()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(_answer(config, arguments, typed, streams))

        def stop(code: int) -> None:
            if code != TimedOut.exit_code or not codes:  # a second signal does not wait for the end of the turn
                codes.append(code)
                task.cancel()

        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN or signum != signal.SIGHUP:  # nohup
                loop.add_signal_handler(signum, stop, 128 + signum)
        if arguments.timeout:
            loop.call_later(arguments.timeout, stop, TimedOut.exit_code)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if codes[0] == TimedOut.exit_code:
                late = TimedOut(f"Stopped after {arguments.timeout:g} s (--timeout).", "Allow more time.")
                if not streams.has_result:
                    raise late from None
                streams.write_error(f"ikigai: {late}\n")
            elif not streams.has_result:
                raise Stopped(codes[0] - 128) from None
            return codes[0]
        finally:
            streams.wait(FLUSH_TIMEOUT)


class Prompt(NamedTuple):
    """The message to send, or the command that was typed: `name` is the command's.

    `mentions` are the files that a message names. `asks_model` is False for a command that needs no model of its own.
    """

    text: str
    command: Meaning | None
    name: str
    mentions: LocalMentions | None
    asks_model: bool


async def _answer(config: Config, arguments: argparse.Namespace, typed: str, streams: OutputStreams) -> int:
    schema = await asyncio.to_thread(_read_schema, arguments.reply_schema) if arguments.reply_schema else None
    has_agent = arguments.resume is not None or (getattr(arguments, "continue") and not arguments.new)
    try:
        prompt = await _read_prompt(config, arguments, typed, has_agent)
        if isinstance(prompt.command, ProgramCommand) and prompt.command.name not in TREE_HANDLERS:
            return await _show(config, arguments, prompt.command, streams)
    except Rejected as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None
    turns = piped_input.read_turns() if arguments.input_format == "stream-json" else None
    text, piped = prompt.text, ""
    source = piped_input.PipedText(bool(text.strip()), lambda notice: streams.write_error(f"ikigai: {notice}\n"))
    if turns and not text:
        text = await anext(turns, "")
    elif turns is None and (prompt.command is None or _forks(prompt.command)):
        piped = await source.read()
        text = _join(text, piped)
    if not text.strip():
        also = "" if sys.stdin.isatty() else ", and the standard input is empty"
        raise ConfigError(f"No message was given{also}.", 'Try: ikigai -p "your question"')
    async with _open_services(config, arguments) as services:
        agent, did = await services.choose(AgentChoice(arguments.resume, last=True)) if has_agent else None, ""
        if isinstance(change := prompt.command, ProgramCommand):
            agent, text, did = await TREE_HANDLERS[change.name](services, agent, change.argument, arguments.yes)
            if not (text := _join(text, piped)):
                await _print(arguments, streams, did, change.name, agent)
                return ExitCode.OK
            prompt = prompt._replace(command=None)
        elif agent is None:
            check_model(services, services.run.resolve({}))  # no agent for nothing
            agent = await services.create()
        format = arguments.output_format or "text"
        output = arguments.raw, streams, schema, prompt.name, did
        printer = PrintView(format, agent.name, agent.id, arguments.yes, *output)
        code = await _converse(services, arguments.max_turns, agent, prompt._replace(text=text), turns, printer)
        if source.came_late:
            printer.notice(piped_input.LATE_TEXT)
            code = code or ExitCode.FAILED
        return code


async def _read_prompt(config: Config, arguments: argparse.Namespace, typed: str, has_agent: bool) -> Prompt:
    """Return the meaning of what was typed. Raise Rejected, and ConfigError for a command that the flags do not fit."""
    if own := await asyncio.to_thread(_own_message, typed, config) if table.is_command(typed) else None:
        typed = own.text
    elif command := info_commands.print_command(typed):
        _check_command(typed, command, arguments, has_agent)
        name = table.BY_NAME[typed.split(maxsplit=1)[0][1:]].name
        return Prompt(typed, command, name, None, isinstance(command, Plan | Retry))  # a fork's child asks its own
    documents = own.documents if own else ()
    mentions = await asyncio.to_thread(_read_mentions, typed, config) if "@" in typed or documents else None
    if mentions:
        mentions = mentions._replace(parts=(*documents, *mentions.parts))
    return Prompt(typed, None, "", mentions, True)


@contextlib.asynccontextmanager
async def _open_services(config: Config, arguments: argparse.Namespace) -> AsyncIterator[Services]:
    """Open the services of a run that may store events, and close them; ephemeral agents are purged by then."""
    async with show_waiting(PREPARING_DATABASE, is_first(config) and not arguments.output_format) as on_progress:
        services = await Services.open(config, on_progress=on_progress)
    try:
        services.ephemeral = arguments.ephemeral
        services.database.keep_unlisted()
        yield services
    finally:
        if arguments.ephemeral:
            try:
                await services.purge_ephemeral()
            except IkigaiError:
                sys.stderr.write("ikigai: This conversation could not be purged now; the next start does that.\n")
        with contextlib.suppress(asyncio.CancelledError):
            await services.close()


async def _converse(
    services: Services,
    max_requests: int,
    agent: Agent,
    prompt: Prompt,
    turns: AsyncIterator[str] | None,
    printer: PrintView,
) -> int:
    """Open the agent, and carry out the command or run the turns; return the exit code."""
    try:
        memory, log, recovered = await services.acquire(agent)
    except AgentLocked as locked:
        remedy = "Nothing was sent. --new starts a new agent."
        raise AgentLocked(locked.what, remedy, locked.owner) from None
    if prompt.asks_model:
        check_model(services, memory.run.resolve(memory.own))
    command, model_notice = prompt.command, ""
    assert not isinstance(command, ProgramCommand)
    if isinstance(command, Change):
        values, level_notice = setting_changes.accept_change(services, memory, command.values)
        images_notice = setting_changes.unseen_images_notice(services, memory, values)
        model_notice = " ".join(filter(None, (level_notice, images_notice)))
        command = Change(values)
    notices = (*recovered, *services.problems(), model_notice, *setting_changes.opening_notices(services, memory))
    for notice in filter(None, notices):
        printer.notice(notice)
    options = LoopOptions(max_requests, DATABASE_TIMEOUT, can_ask=False, condenses=False)
    on_usage = printer.add_subagent_usage
    manager = AgentManager(services, ManagedSubagents, on_usage=on_usage, can_ask=False, options=options)
    agent_loop = manager.register(agent, memory, log, printer, mail=False).agent_loop
    agent_loop.jobs.schema = printer.schema.text if printer.schema else ""
    services.tool_runtime.tell_notices(printer.notice)
    if prompt.asks_model and (servers := services.tool_runtime.mcp):
        await servers.wait_known()
    try:
        if command is None:
            local = prompt.mentions
            command = await _attach(prompt.text, local, services, memory, printer) if local else Submitted(prompt.text)
        if isinstance(command, Submitted | Plan | Retry):
            return await run_turns(agent_loop, printer, _submissions(command, turns))
        return await carry_out(agent_loop, printer, command)
    finally:
        if rest := spool_rest(log, agent_loop.unsaved):
            printer.notice(rest.message)
        if unsaved := await _stop_subagents(manager, agent, printer):
            printer.notice(unsaved)


async def _submissions(
    first: Submitted | Plan | Retry, turns: AsyncIterator[str] | None
) -> AsyncIterator[Submitted | Plan | Retry]:
    yield first
    if turns:
        async for text in turns:
            yield Submitted(text)


def _check_command(typed: str, command: Meaning, arguments: argparse.Namespace, has_agent: bool) -> None:
    """Raise ConfigError for a command that these flags do not fit."""
    word = typed.split(maxsplit=1)[0]
    if arguments.reply_schema or arguments.input_format == "stream-json":
        flag = "--schema" if arguments.reply_schema else "--input-format"
        raise ConfigError(f"{flag} is for messages, and {word} is a command.", f"Leave out {flag}.")
    if not (isinstance(command, ProgramCommand) or has_agent):
        raise needs_agent(word)


def _join(typed: str, piped: str) -> str:
    return "\n\n".join(filter(None, (typed, piped)))


def _forks(command: Meaning) -> bool:
    return isinstance(command, ProgramCommand) and command.name == "fork"


def _read_schema(file: str) -> ReplySchema:
    from ikigai.headless.reply_schema import ReplySchema

    return ReplySchema(file)


def _own_message(typed: str, config: Config) -> Submitted | None:
    """Return the message that a command of the user's, or a skill, stands for; None for another text. Raise
    Rejected.
    """
    from ikigai.app.commands.own_names import find_own_names

    names, name = find_own_names(config), typed.split(maxsplit=1)[0][1:]
    return names.message_of(typed) if name not in table.BY_NAME and names.has(name) else None


def _read_mentions(text: str, config: Config) -> LocalMentions:
    from ikigai.app.attachments import attachments

    return attachments.read_mentions(text, servers=config.mcp_servers)


async def _attach(text: str, local: LocalMentions, services: Services, memory: Memory, printer: PrintView) -> Submitted:
    """Return the message with what it mentions. Raise Rejected if it cannot be attached."""
    from ikigai.app.attachments import attachments

    attached = await attachments.attach(local, services, memory.settings, printer.ask, lambda waiting: None)
    for notice in attachments.notices(local, attached, services, memory.model):
        printer.notice(notice)
    return Submitted(text, attached.images, documents=attached.documents)


async def _show(config: Config, arguments: argparse.Namespace, command: ProgramCommand, streams: OutputStreams) -> int:
    """Print the answer of the command: its text, or one object. Unless another agent is named, it is about the one used
    last.
    """
    agent = None
    if command.name in info_commands.COMMANDS_WITHOUT_AGENT:
        answer = await info_commands.answer_command(command, config, None)
    else:
        async with show_waiting(PREPARING_DATABASE, is_first(config) and not arguments.output_format) as on_progress:
            try:
                services = await Services.open(config, on_progress=on_progress)
            except NewerSchema:
                services = await Services.open(config, on_progress=on_progress, write=False)
        from ikigai.store.agents.agents import unstored_agent

        try:
            services.database.keep_unlisted()
            await asyncio.to_thread(services.skills.skills)
            agent = await find_agent(services.database, config, AgentChoice(arguments.resume, arguments.new, last=True))
            shown = agent or unstored_agent(current_directory())  # a command that only shows makes no agent
            memory = await services.load_memory(shown)
            context = info_commands.CommandContext(services, shown, memory, memory.status.value)
            answer = await info_commands.answer_command(command, config, context)
        finally:
            await services.close()
    await _print(arguments, streams, answer.text, command.name, agent, answer.figures)
    return ExitCode.OK


async def _print(
    arguments: argparse.Namespace,
    streams: OutputStreams,
    text: str,
    command: str,
    agent: Agent | None,
    figures: Figures | UnsetType = UNSET,
) -> None:
    """Write the answer of a command as text, or as one object, as the output format says."""
    if arguments.output_format in ("json", "stream-json"):
        outcome = CommandOutcome(name=command, figures=figures)
        name, id = (agent.name, agent.id) if agent else (None, None)
        streams.write(encode(ResultRecord(text=text, agent=name, agent_id=id, command=outcome)) + "\n")
    else:
        streams.write(f"{text if arguments.raw else clean(text)}\n")
    streams.has_result = True
    await streams.finish()


async def _stop_subagents(manager: AgentManager, agent: Agent, printer: PrintView) -> str:
    """Stop the subagents that are still running; return the sentences about what could not be saved."""
    root = manager.agents.pop(agent.id)
    running = [each.agent.name for each in manager.agents.values() if each.busy]
    if running:
        printer.notice(f"Stopped with it: {', '.join(running)}. To continue with one: ikigai -r NAME")
    unsaved = await manager.close()
    await root.log.close()
    return unsaved
