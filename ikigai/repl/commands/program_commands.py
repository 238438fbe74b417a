"""Start the commands that need more than the agent on screen, and carry out most of them.

Their data comes from the services; the result is shown or passed to the agent. `agent_commands` carries out the
commands about agents. Commands that change the agent's memory (/retry, /clear, /rewind …) do not come here:
`core/commands/table` makes an input of the agent of them, and `core/state/decisions` says which events follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ikigai.core.commands import table
from ikigai.core.commands.parsers import ProgramCommand
from ikigai.core.commands.spec import CommandTiming
from ikigai.core.commands.table import BY_NAME
from ikigai.core.errors import NoModel, NotReady, Rejected
from ikigai.core.state import inputs
from ikigai.repl.input.input_router import InputRouter
from ikigai.repl.session import Session

if TYPE_CHECKING:
    import argparse

    from ikigai.agent.loop import AgentLoop
    from ikigai.app.commands.info_commands import CommandContext
    from ikigai.app.commands.own_names import OwnNames
    from ikigai.app.run.services import Services
    from ikigai.core.state.memory import Memory
    from ikigai.repl.commands.agent_commands import AgentCommands


class ProgramCommands:
    """Carries out commands, each as a task of its own. `agents` and `unlisted` are the names to choose from."""

    def __init__(self, session: Session, router: InputRouter, arguments: argparse.Namespace) -> None:
        self._session, self._router, self._arguments = session, router, arguments
        self._screen, self._view, self._active_agent = session.screen, session.view, session.active_agent
        self.agents: list[str] = []
        self.unlisted: list[str] = []

    def start(self, command: ProgramCommand, timing: CommandTiming) -> None:
        """Start a command that need not wait any more."""
        if command.name == "login":  # a key that is pasted too early would be sent as a message
            self._screen.drop_keys(True)
        work = self._carry_out(command)
        match timing:
            case CommandTiming.BLOCKING:
                self._session.track(self._router.run_first(self._session.catch_errors(work, command.name)))
            case CommandTiming.SWITCHING:
                self._start_switch(work, command.name)
            case _:
                self._session.spawn(work, command.name)

    async def _carry_out(self, command: ProgramCommand) -> None:
        """Carry out a command; a refusal of its argument says how it is typed."""
        with BY_NAME[command.name].explaining_usage():
            if handler := HANDLERS.get(command.name):
                await handler(self, command)
                return
            from ikigai.repl.commands.agent_commands import AGENT_HANDLERS

            if agent_handler := AGENT_HANDLERS.get(command.name):
                await agent_handler(self._agent_commands(), command)
                await self.name_agents()
            else:
                await self._show(command)

    def go_to_relative(self, way: str) -> None:
        """Go to a relative, as the keys for that do."""
        self._start_switch(self._go_to_relative(way), "/switch")

    async def _go_to_relative(self, way: str) -> None:
        await self._agent_commands().go_to_relative(way)
        await self.name_agents()

    def _start_switch(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Go to another agent; input waits for that one from now on."""
        self._router.opening = True
        self._session.spawn(work, name)

    def _agent_commands(self) -> AgentCommands:
        from ikigai.repl.commands.agent_commands import AgentCommands

        if self._session.services is None:
            raise NotReady()
        return AgentCommands(self._session, self._router, self._session.services)

    # ── handlers ──

    async def _show(self, command: ProgramCommand, more: str = "") -> None:
        """Show the answer of a command that changes nothing, and `more` below it."""
        from ikigai.app.commands import info_commands

        answer = await info_commands.answer_command(command, self._session.config, self._context())
        if answer.draw:
            self._view.print_drawn(answer.draw)
        elif answer.marked:
            self._view.print_marked(answer.marked)
        else:
            self._view.print_text("\n".join(filter(None, (answer.text, more))))

    async def _config(self, command: ProgramCommand) -> None:
        from ikigai.app.run.run_profiles import profile_in_force
        from ikigai.repl.commands import config_command

        memory = self._session.memory
        profile = profile_in_force(memory) if memory else None
        self._view.print_text(await config_command.run_config(self._session, command.argument, profile))

    async def _status(self, command: ProgramCommand) -> None:
        await self._show(command, self._screen.status.rows().rstrip())

    async def _limit(self, command: ProgramCommand) -> None:
        """Set a spending cap for this run, then show them all."""
        from ikigai.app.usage import spending_caps

        services, _ = self._require_open()
        spending_caps.change_caps(services, self._active_agent.manager, command.argument)
        await self._show(ProgramCommand("limit"))

    async def _exit(self, command: ProgramCommand) -> None:
        self._session.leave()

    async def _history(self, command: ProgramCommand) -> None:
        self._screen.actions.browse()

    async def _editor(self, command: ProgramCommand) -> None:
        self._screen.actions.edit()

    async def _login(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import setup_commands

        try:
            if text := await setup_commands.run_login(self._session, self._arguments, command.argument):
                self._view.print_text(text)
        finally:
            self._screen.drop_keys(False)

    async def _doctor(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import setup_commands

        await setup_commands.run_doctor(self._session, self._arguments, command.argument)

    async def _theme(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import setup_commands

        self._view.print_text(setup_commands.run_theme(self._session, command.argument))

    async def _init(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import setup_commands

        self._router.send(setup_commands.init_prompt(self._session.memory))

    async def _mcp(self, command: ProgramCommand) -> None:
        """Show MCP servers, or send one of their prompts."""
        from ikigai.repl.commands import mcp_command

        services, _ = self._require_open()
        servers = services.tool_runtime.mcp
        if table.MCP_PROMPT.match(command.argument):
            # Not `send`: the server wrote it, so nothing that it mentions is attached.
            self._router.route(inputs.Submitted(await mcp_command.get_prompt(servers, command.argument)))
        else:
            self._view.print_text(mcp_command.run_mcp(servers, command.argument))

    def _own_names(self) -> OwnNames:
        from ikigai.app.commands.own_names import OwnNames, own_names_of
        from ikigai.app.skills.library import SkillLibrary

        if (services := self._session.services) is None:  # a project may not be trusted yet
            return OwnNames(None, SkillLibrary(), self._session.config.context.skills_off)
        return own_names_of(services, self._session.memory)

    def is_own(self, name: str) -> bool:
        """Return True if one of the user's own commands, or a skill, has this name."""
        return self._own_names().has(name)

    def complete_own(self) -> dict[str, str]:
        """Return the user's own commands and skills: a name with its arguments, and its help."""
        return {f"{name} {each.argument}".rstrip(): each.help for name, each in self._own_names().describe().items()}

    async def _list_or_send(self, command: ProgramCommand) -> None:
        """List the user's own commands, or send one of them, or a skill."""
        from ikigai.app.commands import own_commands

        services, _ = self._require_open()
        if command.argument:
            typed = await asyncio.to_thread(self._own_names().message_of, command.argument)
            self._router.send(typed.text, documents=typed.documents)
        else:
            self._view.print_text(own_commands.format_commands(services.project))

    async def _skills(self, command: ProgramCommand) -> None:
        """List the skills, or switch one on or off."""
        from ikigai.repl.commands import config_command, skills_command

        services, memory = self._require_open()
        if not command.argument:
            await self._show(command)
            return
        off = services.context_settings(memory).skills_off
        value, said = skills_command.switch(command.argument, services.skills.skills(), off)
        stored = await config_command.run_config(self._session, f"context.skills_off {value}", None)
        self._view.print_text(f"{said} {stored}")

    async def _answer(self, command: ProgramCommand) -> None:
        try:
            self._active_agent.answer(command.argument)
        except Rejected:
            if command.argument and self._session.services:
                await self._session.services.database.agents.find(command.argument)  # it tells if it finds none
            raise

    async def _quote(self, command: ProgramCommand) -> None:
        """Quote an event of any agent's log in the conversation."""
        from ikigai.app.history import recall_commands

        to = self._active_agent.agent_loop
        services, _ = self._require_open()
        self._router.route(await recall_commands.quote_event(services.database, command.argument), to)

    async def _recall(self, command: ProgramCommand) -> None:
        """Answer a question from the whole log."""
        from ikigai.app.history import recall_commands
        from ikigai.app.run import factories

        to = self._active_agent.agent_loop
        services, memory = self._require_open()
        if not memory.model:
            raise NoModel()
        if to is None and services.spending:
            raise self._active_agent.refusal()  # nothing could be reserved under the caps
        provider = services.pool.provider(memory.model)
        price = to.billing if to else factories.make_price(self._session.config)
        query = (services.database, provider, memory.model, price, command.argument)
        answer, usage = await recall_commands.answer_from_log(*query)
        if to is None or not self._active_agent.is_open(to):
            self._view.print_text(answer)
            return
        for each in (*map(inputs.UsageRecorded, usage), inputs.CommandFinished(f"/recall {command.argument}", answer)):
            to.put_input(each)

    async def _btw(self, command: ProgramCommand) -> None:
        """Answer a question beside the conversation."""
        to, (services, _) = self._active_agent.agent_loop, self._require_open()
        if to is None:
            raise self._active_agent.refusal()
        self._session.run(self._answer_beside(services, to, command.argument))

    async def _answer_beside(self, services: Services, to: AgentLoop, question: str) -> None:
        """Show the answer as it comes, then print it set apart; print what has come of it when it is stopped."""
        from ikigai.app.commands.side_question import ask_side_question
        from ikigai.terminal.render.blocks import draw_aside

        line, parts = f"/btw {question}", list[str]()

        def on_text(text: str) -> None:
            parts.append(text)
            self._view.command_output(text)

        self._view.running(line)
        try:
            parts[:] = [await ask_side_question(services, to, question, on_text)]
        finally:
            self._view.running("")
            if answer := "".join(parts):
                self._view.print_drawn(partial(draw_aside, line, answer))

    async def _export(self, command: ProgramCommand) -> None:
        """Write the history to a file."""
        from ikigai.app.history import export

        if self._session.services is None or self._active_agent.agent is None:
            raise NotReady()
        database, agent, line = self._session.services.database, self._active_agent.agent, f"/export {command.argument}"
        on_progress = partial(self._view.progress, line)
        arguments = database, agent, export.parse_typed(command.argument), on_progress
        self._session.run(self._session.show_running(line, export.export_typed, *arguments))

    async def _copy(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import copy_answer

        if self._session.memory is None:
            raise NotReady()
        text, name = copy_answer.choose_copy(self._session.memory, command.argument)
        self._view.print_text(await self._screen.copied(text, name))

    async def _approve(self, command: ProgramCommand) -> None:
        from ikigai.core.commands.key_actions import bound_key
        from ikigai.repl.commands import permission_commands

        to, (services, memory) = self._active_agent.agent_loop, self._require_open()
        key = bound_key("cycle_approval", self._session.config.key_changes)
        result = await permission_commands.run_approve(command.argument, memory, self._view.ask, key)
        if isinstance(result, inputs.Change) and result.values["approval"]:
            text = permission_commands.describe_mode(result, services.tool_runtime.directory)
            self._view.announced.expect(result.values, partial(self._view.note, text))
        self._apply_result(result, to)

    async def _tools(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import permission_commands

        to, (_, memory) = self._active_agent.agent_loop, self._require_open()
        self._apply_result(permission_commands.run_tools(command.argument, memory), to)

    async def _trust(self, command: ProgramCommand) -> None:
        from ikigai.repl.commands import permission_commands

        services, _ = self._require_open()
        answer = permission_commands.run_trust(command.argument, services.project)
        if not services.project.trusted and self._active_agent.manager:
            services.withdraw_project_tools()
            self._active_agent.manager.offer_tools()
        self._view.print_text(answer)

    async def _pin(self, command: ProgramCommand) -> None:
        """Carry out /pin and /unpin."""
        from ikigai.repl.commands import pin_commands

        to, (_, memory) = self._active_agent.agent_loop, self._require_open()
        self._apply_result(await pin_commands.run_pin_command(command, memory, self._view), to)

    def _apply_result(self, result: str | inputs.Change, to: AgentLoop | None) -> None:
        """Print a text, or pass a change on to the agent."""
        if isinstance(result, str):
            self._view.print_text(result)
        else:
            self._router.route(result, to)

    def _require_open(self) -> tuple[Services, Memory]:
        """Return the services and the memory of the agent on screen. Raise NotReady until both are there."""
        if self._session.services is None or self._session.memory is None:
            raise NotReady()
        return self._session.services, self._session.memory

    async def _model(self, command: ProgramCommand) -> None:
        """Let the user pick a model; a terminal without lists gets the present one."""
        if self._view.bare or self._session.services is None or self._session.memory is None:
            await self._show(command)
            return
        from ikigai.repl.pickers.model_picker import ModelSource

        to, services, now = self._active_agent.agent_loop, self._session.services, self._session.memory.model
        used = services.before_turn(self._session.memory).used
        if model := await self._screen.programs.pick(ModelSource(services, now, used)):
            meaning = table.parse(f"/model {model}")
            assert isinstance(meaning, inputs.Change)
            self._router.route(meaning, to)

    async def name_agents(self) -> None:
        assert self._session.services
        self.agents, self.unlisted = await self._session.services.database.agents.names()

    def _context(self) -> CommandContext | None:
        """Return the context of read-only commands; None while no agent is open."""
        from ikigai.app.commands.info_commands import CommandContext

        services, memory, active = self._session.services, self._session.memory, self._active_agent
        if memory is None or active.agent is None or services is None:
            return None
        state = "read-only" if active.agent_loop is None else memory.status.value
        return CommandContext(services, active.agent, memory, state, self._view.usage, active.manager)


Handler: TypeAlias = Callable[[ProgramCommands, ProgramCommand], Coroutine[Any, Any, None]]

HANDLERS: Mapping[str, Handler] = {
    "answer": ProgramCommands._answer,
    "approve": ProgramCommands._approve,
    "btw": ProgramCommands._btw,
    "config": ProgramCommands._config,
    "copy": ProgramCommands._copy,
    "doctor": ProgramCommands._doctor,
    "commands": ProgramCommands._list_or_send,
    "editor": ProgramCommands._editor,
    "exit": ProgramCommands._exit,
    "export": ProgramCommands._export,
    "history": ProgramCommands._history,
    "init": ProgramCommands._init,
    "limit": ProgramCommands._limit,
    "login": ProgramCommands._login,
    "mcp": ProgramCommands._mcp,
    "model": ProgramCommands._model,
    "pin": ProgramCommands._pin,
    "quote": ProgramCommands._quote,
    "recall": ProgramCommands._recall,
    "skills": ProgramCommands._skills,
    "status": ProgramCommands._status,
    "theme": ProgramCommands._theme,
    "tools": ProgramCommands._tools,
    "trust": ProgramCommands._trust,
    "unpin": ProgramCommands._pin,
}
"""Handlers of commands by name; `agent_commands` has more, and `info_commands` answers all others."""
