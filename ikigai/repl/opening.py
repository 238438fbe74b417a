"""Open the conversation behind the visible prompt, and start what runs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING

from ikigai.core.errors import ConfigError, IkigaiError, Rejected, StoreError
from ikigai.system import paths

if TYPE_CHECKING:
    import argparse

    from ikigai.app.project.trusted_project import Project
    from ikigai.app.run.first_agent import AgentChoice
    from ikigai.app.run.services import Services
    from ikigai.repl.input.input_router import InputRouter
    from ikigai.repl.session import Session
    from ikigai.system.progress import OnProgress

MAX_PROMPT_HISTORY = 500
"""Earlier messages that Up and Ctrl+R offer."""
NOTHING_PICKED = 130
"""Exit code when the user leaves the list of `ikigai -r`, as of fzf and others."""
REQUEST_FIRST_SECONDS = 0.05
"""Seconds from when the SDK is loaded until other modules are, where a message has waited: its request goes first."""
LEFT_BEHIND_AFTER = 5.0
"""Seconds after which an ephemeral agent that no program has open was left behind by a killed one."""


def _describe_opening(progress: str) -> str:
    """Return what the status line says of the database while it is opened: `progress` counts seconds or migrations."""
    return (
        f"preparing the database, this once: step {progress}"
        if " of " in progress
        else f"opening the database {progress}"
    )


class Opening:
    """Opens what the REPL of `session` needs, first the parts on screen and then the rest."""

    def __init__(self, session: Session, router: InputRouter, arguments: argparse.Namespace) -> None:
        self._session, self._router, self._arguments = session, router, arguments
        self._screen, self._view, self._active_agent = session.screen, session.view, session.active_agent

    async def open_agent(self) -> bool:
        """Open the services and the agent to start with, and draw its history; return False if the user picked none."""
        self._screen.status.set_database_place("opening the database")
        await asyncio.to_thread(importlib.import_module, "ikigai.app.run.first_agent")
        await asyncio.to_thread(importlib.import_module, "ikigai.app.project.trusted_project")
        from ikigai.app.project.trusted_project import make_project
        from ikigai.app.run.first_agent import AgentChoice

        project = await self._ask_trust(make_project())
        from ikigai.system.progress import count_progress

        show_place, arguments = self._screen.status.set_database_place, self._arguments
        named = arguments.follow or arguments.resume
        choice = AgentChoice(named, arguments.new or arguments.ephemeral, getattr(arguments, "continue"))
        async with count_progress(lambda progress: show_place(_describe_opening(progress))) as on_progress:
            ahead = None if arguments.follow or named == "" else choice
            services = await self._open_services(project, ahead, on_progress)
        self._session.services = services
        services.ephemeral = arguments.ephemeral
        self._session.config = services.config  # as the project has tightened it
        self._screen.equip(self._session.config.terminal)
        model_notice = ""
        if model := services.run.resolve({}).get("model"):
            try:
                services.pool.check(str(model))
            except ConfigError:
                raise
            except IkigaiError as error:  # no key: all that needs no model works
                model_notice = str(error)
        self._screen.status.set_database_place(services.place)
        with self._router.switching():
            if named == "" and not (named := await self._pick_agent(services)):
                self._session.leave(NOTHING_PICKED)
                return False
            agent = await services.choose(choice._replace(resume=named))
            await (self._active_agent.follow if arguments.follow else self._active_agent.switch_to)(services, agent)
        config = self._session.config
        for notice in filter(None, (*config.notices, *config.unknown_variables, model_notice, *services.problems())):
            self._view.notice(notice)
        with contextlib.suppress(StoreError):  # the conversation is open, and says itself what the database has
            self._screen.input.set_prompts(await services.database.prompts(MAX_PROMPT_HISTORY))
        return True

    async def _open_services(self, project: Project, choice: AgentChoice | None, on_progress: OnProgress) -> Services:
        """Open the services; the agent of `choice` is opened ahead, if it exists and can be had."""
        from ikigai.app.run.first_agent import close_opened, import_behind_driver, open_ahead

        opening = asyncio.create_task(open_ahead(self._session.config, True, on_progress, choice))
        try:
            await import_behind_driver("ikigai.app.run.services")
        except BaseException:
            await close_opened(opening)
            raise
        from ikigai.app.run.services import Services

        return await Services.open(self._session.config, project, on_progress, opening=opening)

    async def _pick_agent(self, services: Services) -> str | None:
        """Let the user pick the agent to start with; return its id, None if the user left."""
        from ikigai.repl.pickers.agent_picker import AgentSource

        try:
            return await self._screen.programs.pick(AgentSource(services.database))
        except Rejected as refusal:
            raise ConfigError(refusal.what, "Usage: ikigai -r NAME; see ikigai agents.") from None

    async def _ask_trust(self, project: Project) -> Project:
        """Return the project of the working directory.

        Ask the user once about a folder that is not trusted, and about changed files of a trusted one.
        """
        brings = project.contents
        await asyncio.to_thread(project.check_trust)
        if (brings or project.approved) and not project.problems:
            from ikigai.app.tools.redaction_keys import Redaction
            from ikigai.repl.commands import permission_commands

            withholds = Redaction(self._session.config).withholds
            self._screen.status.set_database_place("")  # nothing is opened while the user decides
            if project.trusted:
                await permission_commands.ask_about_changes(project, self._view.ask, withholds)
            else:
                await permission_commands.ask_trust(project, brings, self._view.ask, withholds)
            self._screen.status.set_database_place("opening the database")
        if paths.plugins_file().exists():
            from ikigai.repl.commands import permission_commands

            try:
                await permission_commands.ask_about_plugins(self._view.ask)
            except IkigaiError as error:
                project.problems.append(str(error))
        return project

    async def open_rest(self) -> None:
        """Load what the first request needs, and start what runs beside the conversation."""
        services, agent_loop = self._session.services, self._active_agent.agent_loop
        if services and self._session.memory:
            await services.pool.preload(self._session.memory.model)
        if self._active_agent.busy:
            await asyncio.sleep(REQUEST_FIRST_SECONDS)
        if agent_loop:
            agent_loop.preload()
        if services:  # else the first message would wait until they are read
            await asyncio.to_thread(services.skills.skills)
        await asyncio.to_thread(importlib.import_module, "ikigai.app.unsaved.spool")  # needed when the database is lost
        if services:
            await services.tool_runtime.preload()
            if self._session.memory:
                await services.preload_recall(self._session.memory)
            services.tool_runtime.tell_notices(self._view.note)
            if servers := services.tool_runtime.mcp:  # nothing waits for them
                servers.start()
            from ikigai.app.attachments import pasted_pictures

            await asyncio.to_thread(pasted_pictures.remove_old)
            with contextlib.suppress(IkigaiError):  # left by a program that was killed
                await services.purge_ephemeral(LEFT_BEHIND_AFTER)
            await asyncio.to_thread(importlib.import_module, "ikigai.store.search.indexer")
            self._session.track(asyncio.create_task(services.database.indexer.run(), name="index"))
            from ikigai.repl import cold_cache

            self._session.spawn(cold_cache.watch(self._session), "cold cache")
        if self._session.config.terminal.find_servers:
            self._session.spawn(self._offer_servers(), "servers")
        if self._session.config.terminal.update_notice:
            self._session.spawn(self._show_update(), "update notice")

    async def _offer_servers(self) -> None:
        """Look for servers of models on this machine where no other model is chosen; print a line for each new one."""
        await asyncio.to_thread(importlib.import_module, "ikigai.app.models.found_servers")
        from ikigai.app.models import found_servers
        from ikigai.core.state.inputs import Offered

        services, memory = self._session.services, self._session.memory
        if not (services and memory and found_servers.are_wanted(memory.model)):
            return
        found = await found_servers.learn_servers(services.config, services.pool)
        loop = self._active_agent.agent_loop
        if loop and loop.memory.limits != services.pool.limits(loop.memory.model):
            loop.put_input(Offered(loop.memory.run.tools))  # which loads memory under the limits known now
        for line in await asyncio.to_thread(found_servers.new_offers, found, services.pool, memory.model):
            self._view.note(line)

    async def _show_update(self) -> None:
        """Print a line if there is a newer version."""
        await asyncio.to_thread(importlib.import_module, "ikigai.app.update_notice")
        from ikigai.app import update_notice

        if notice := await update_notice.find_update(update_notice.installed_distribution()):
            self._view.note(notice)
