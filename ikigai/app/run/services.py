"""Composition root: combine the results of `open_database` and `factories`.

Only these three modules, and `agent_services`, know all adapters but the screen. Heavy modules (psycopg, the embedded
server, SDKs, the local model) are imported and started in threads, so that a visible prompt goes on taking keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ikigai.app.project.trusted_project import Project, make_project
from ikigai.app.run.factories import make_caps, make_pool, make_run, make_tool_runtime, tighten
from ikigai.app.run.first_agent import close_opened, find_agent, import_behind_driver, open_ahead, open_log
from ikigai.app.run.open_database import close_database, import_module
from ikigai.app.run.run_profiles import profile_in_force
from ikigai.config import Config, unused_address, with_profile
from ikigai.core.errors import ConfigError
from ikigai.core.events.events import Choices
from ikigai.core.request.system_prompt import DEFAULT_SYSTEM_KEY, INSTRUCTIONS_KEY, with_instructions
from ikigai.core.state.decisions.settings import default_system
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.grants import unconfirmed_notice
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, envelope
from ikigai.core.tools.mcp_tools import MCP_TOOLS_KEY
from ikigai.core.tools.skill_offer import SKILLS_KEY
from ikigai.core.vendors import PRESETS
from ikigai.system.paths import current_directory, early_unsaved_files, pasted_folder, unsaved_files, unsent_files

if TYPE_CHECKING:
    from ikigai.agent.spending_guard import RunSpending
    from ikigai.app.run.first_agent import AgentChoice, FirstAgent, OpenedDatabase
    from ikigai.app.tools.tool_runtime import ToolRuntime
    from ikigai.config.records import ContextSettings
    from ikigai.core.request.spending import Caps
    from ikigai.providers.pool import ProviderPool
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.store.log.log import AgentLog
    from ikigai.system.progress import OnProgress

AcquiredAgent: TypeAlias = "tuple[Memory, AgentLog, list[str]]"
"""The memory of an agent, its log, and messages about what was recovered."""


class Services:
    """The services that the agents of one run share."""

    def __init__(
        self,
        config: Config,
        database: Database,
        lease: Lease | None,
        pool: ProviderPool,
        run: RunConfig,
        tool_runtime: ToolRuntime,
        project: Project | None = None,
        first: FirstAgent | None = None,
    ) -> None:
        self.config, self.database, self.pool, self.run = config, database, pool, run
        database.seal_with(run.seal)
        self._first = first  # until its agent is acquired
        self._early_files = early_unsaved_files()  # named once, with the first agent
        self._acquiring: asyncio.Task[AcquiredAgent] | None = None
        if first and first.log:
            self._acquiring = asyncio.create_task(self._recover(first.agent, first.log), name="first agent")
        self._lease, self.ephemeral = lease, False  # True: agents made from now on are purged at the end
        self.tool_runtime, self.project = tool_runtime, project or make_project()
        self.skills = tool_runtime.skills
        self.redaction = tool_runtime.redaction
        self.redaction.passwords = lambda: database.passwords
        self.spending: RunSpending | None = None  # None while there are no caps
        if caps := make_caps(config.limits):
            self.limit_spending(caps)
        self._too_short = self.redaction.warnings()
        self._contexts: dict[str, ContextSettings] = {}  # by profile
        # Said once, where the history begins in a database of its own instead of that one.
        note = unused_address(config, os.environ) if lease and lease.initialized else ""
        self._unused_address = [note] if note else []

    @classmethod
    async def open(
        cls,
        config: Config,
        project: Project | None = None,
        on_progress: OnProgress = lambda done, total: None,
        write: bool = True,
        opening: asyncio.Task[OpenedDatabase] | None = None,
    ) -> Services:
        """Start the embedded server if it is configured, connect and migrate. Raise StoreError, ConfigError.

        Without `project`, the files of the folder are used only if it is trusted already. `on_progress` gets the
        migrations. With `write` false nothing can be stored, and a newer schema is accepted. `opening` has begun to
        open the database already.
        """
        if project is None:
            project = make_project()
            project.check_trust()
            project.report_unasked()
        tool_runtime = None
        try:
            config, limits = tighten(config, project)
            opening = opening or asyncio.create_task(open_ahead(config, write, on_progress))
            await import_behind_driver("ikigai.store.log.write_access", "ikigai.store.log.agent_reader")
            pool = await asyncio.to_thread(make_pool, config)
            tool_runtime = await asyncio.to_thread(make_tool_runtime, config)
            await tool_runtime.open(project)
            run = await asyncio.to_thread(make_run, config, pool, tool_runtime, project)
            run = msgspec.structs.replace(run, project_limits=limits)
        except BaseException:
            if tool_runtime:
                await tool_runtime.close()
            if opening:
                await close_opened(opening)
            raise
        importing = asyncio.ensure_future(_import_agents())
        try:
            opened = await opening
        except BaseException:
            await tool_runtime.close()
            raise
        run = msgspec.structs.replace(run, since=opened.since)
        services = cls(config, opened.database, opened.lease, pool, run, tool_runtime, project, opened.first)
        try:
            await importing
        except BaseException:
            await services.close()
            raise
        return services

    async def close(self) -> None:
        if self._acquiring:  # unless the start went that far
            self._acquiring.cancel()
            await asyncio.gather(self._acquiring, return_exceptions=True)
        try:
            await self.tool_runtime.close()
            await self.pool.close()
        finally:
            await close_database(self._lease, self.database)

    def problems(self) -> list[str]:
        """Return messages about unusable files of the project and the user's tools, and the like, each only once."""
        own = self.project.problems, self.tool_runtime.problems, self.skills.problems
        sources = *own, self._too_short, self._unused_address
        problems = [problem for source in sources for problem in source]
        for source in sources:
            source.clear()
        return problems

    def instructions(self) -> str:
        """Return the current instructions of the project, and give them to agents opened from now on."""
        value = self.redaction.own(self.project.instructions())
        if (self.run.below.get(INSTRUCTIONS_KEY) or "") != value:
            self.run = msgspec.structs.replace(self.run, below=with_instructions(self.run.below, value))
        return value

    def default_system(self, memory: Memory) -> str:
        """Return the default system prompt of a turn that begins now with this memory; "" for none."""
        if not self.context_settings(memory).default_system_prompt:
            return ""
        from ikigai.app.run.surroundings import find_surroundings

        return self.redaction.own(default_system(memory, find_surroundings()))

    def skills_offer(self, memory: Memory) -> str:
        """Return the list of skills that a turn which begins now with this memory is offered; "" for none."""
        return self.redaction.own(self.tool_runtime.skills_offer(memory, self.context_settings(memory)))

    def turn_prompt(self, memory: Memory) -> Choices:
        """Return the settings of the system prompt that a turn which begins now would have."""
        instructions, default = self.instructions(), self.default_system(memory)
        skills = self.skills_offer(memory) if self.skills.is_read else ""  # the screen does not wait for the files
        return {INSTRUCTIONS_KEY: instructions or None, DEFAULT_SYSTEM_KEY: default or None, SKILLS_KEY: skills or None}

    def with_turn_prompt(self, memory: Memory) -> Memory:
        """Return the memory as it counts with the system prompt of a turn that begins now."""
        return _with_settings(memory, self.turn_prompt(memory))

    def withdraw_project_tools(self) -> None:
        """Withdraw the tools of the project's folder from agents opened from now on."""
        self.tool_runtime.withdraw(self.project.tools)
        self.run = msgspec.structs.replace(self.run, tools=self.tool_runtime.specs)

    @property
    def database_name(self) -> str:
        """The location of the log, in a word for the status line."""
        return "embedded" if self._lease else self.database.host

    @property
    def place(self) -> str:
        """The sandbox of commands and the location of the log, for the status line."""
        return " · ".join(filter(None, ("bwrap" if self.tool_runtime.sandbox else "", self.database_name)))

    def known_models(self) -> tuple[str, ...]:
        """Return the models to offer: the current, local and configured ones, and the models of all available keys."""
        models = [self.config.model]
        with contextlib.suppress(ConfigError):  # weights are configured but missing
            models += [self.pool.default_model(self.config.keys), self.pool.local_model()]
        models += self.config.models
        servers = [name for name, preset in PRESETS.items() if not preset.key_variables]  # those found on this machine
        for provider in dict.fromkeys((*self.config.keys, *self.config.providers, *servers)):
            models += [f"{provider}/{name}" for name in self.pool.known.names(provider)]
        return tuple(dict.fromkeys(filter(None, models)))

    def before_turn(self, memory: Memory) -> Memory:
        """Return the memory as it counts between turns: with the tools of MCP servers that the next turn is offered,
        and before the first one with the system prompt of that turn.
        """
        if memory.open or not memory.model:
            return memory
        has_begun = memory.full_window.turns or memory.settings.get(DEFAULT_SYSTEM_KEY)
        coming = {} if has_begun else self.turn_prompt(memory)
        if self.tool_runtime.mcp or memory.settings.get(MCP_TOOLS_KEY):  # of a server that is no longer configured
            coming = {**coming, MCP_TOOLS_KEY: self.tool_runtime.mcp_offer(memory) or None}
        return _with_settings(memory, coming)

    def sees_images(self, model: str) -> bool:
        """Return True if this model is known to see images."""
        return self.pool.known.traits(model).images

    def takes_pdfs(self, model: str) -> bool:
        """Return True if this model takes PDFs themselves."""
        from ikigai.providers.encoding import BodyEncoder

        encoder = self.pool.encoder(model)
        return isinstance(encoder, BodyEncoder) and encoder.takes_pdfs

    async def create(self, name: str = "") -> Agent:
        return await self.database.agents.create(name, current_directory(), ephemeral=self.ephemeral)

    async def purge_ephemeral(self, min_age: float = 0) -> None:
        """Purge ephemeral agents that no program has open, with the pictures pasted for them and the files with unsent
        and unsaved text of theirs.

        `min_age` is in seconds. Raise StoreError.
        """
        for id in await self.database.purge_ephemeral(min_age):
            import shutil

            await asyncio.to_thread(shutil.rmtree, pasted_folder(id), ignore_errors=True)
            for file in (*unsaved_files(id), *unsent_files(id)):
                file.unlink(missing_ok=True)

    async def choose(self, choice: AgentChoice) -> Agent:
        """Return the agent to start with, by the flags or by `start_with`. Raise ConfigError."""
        if self._first:
            return self._first.agent
        choice = choice._replace(new=choice.new or self.ephemeral)
        if found := await find_agent(self.database, self.config, choice):
            return found
        start_with = choice.start_with(self.config)
        if start_with == "new":
            return await self.create()
        return await self.database.agents.last_or_new(current_directory(), anywhere=start_with == "last")

    async def acquire(self, agent: Agent) -> AcquiredAgent:
        """Acquire the write lock of the agent, recover its unsaved events and load its memory.

        Return the memory, the log and messages about the recovery. Raise AgentLocked if another program has the lock,
        CorruptLineage if the agent can only be read, Rejected if it was killed meanwhile.
        """
        first, self._first = self._first, None
        acquiring, self._acquiring = self._acquiring, None
        if acquiring and first and first.agent.id == agent.id:
            return await acquiring
        return await self._recover(agent, await open_log(self.database, agent))

    async def _recover(self, agent: Agent, log: AgentLog) -> AcquiredAgent:
        """Recover the unsaved events of an agent whose log is open, and load its memory."""
        try:
            self.instructions()
            messages: list[str] = []
            early, self._early_files = self._early_files, []
            if files := (*unsaved_files(agent.id), *early):
                from ikigai.app.unsaved.unsaved_events import put_back

                messages = await put_back(files, log)
            memory = await log.load(load_memory(self.run, agent.id))
            return memory, log, [*messages, *filter(None, (unconfirmed_notice(memory.unconfirmed),))]
        except BaseException:
            await log.close()
            raise

    async def load_memory(self, agent: Agent) -> Memory:
        """Load the memory of an agent without its write lock."""
        return await self.database.reader(agent).load(load_memory(self.run, agent.id))

    def learned(self, model: str) -> bool:
        """Return True if a provider reported in this run that the model's context is smaller than known."""
        return self.pool.limits(model).context < self.pool.known.limits(model).context

    async def preload_recall(self, memory: Memory) -> None:
        """Load what each message is recalled by, where excerpts are sent along."""
        if self.context_settings(memory).auto_recall == "on":
            from ikigai.store.search import word_vectors

            with contextlib.suppress(ConfigError):  # damaged: words count alone, and /recall says so
                await asyncio.to_thread(word_vectors.load_installed)

    def limit_spending(self, caps: Caps) -> RunSpending:
        """Set the caps of this run; the loops made from now on keep to them."""
        from ikigai.agent.spending_guard import RunSpending

        if self.spending is None:
            self.spending = RunSpending(caps)
        self.spending.caps = caps
        return self.spending

    def use_config(self, config: Config) -> None:
        """Use a configuration that the user has changed in this run."""
        self.config = config
        self._contexts.clear()

    def context_settings(self, memory: Memory) -> ContextSettings:
        """Return `[context]` under the profile in force. Each turn asks for it, and it stays the same in a run."""
        profile = profile_in_force(memory)
        if profile not in self._contexts:
            self._contexts[profile] = with_profile(self.config, profile).context
        return self._contexts[profile]


async def _import_agents() -> None:
    """Import what agents run with. The memory of the first one is loaded meanwhile."""
    await import_module("ikigai.app.agents.agent_manager")


def _with_settings(memory: Memory, settings: Choices) -> Memory:
    """Return the memory with these settings, as it counts with them."""
    if all(memory.settings.get(key) == value for key, value in settings.items()):
        return memory
    changed = msgspec.structs.replace(memory, settings={**memory.settings, **settings})
    return msgspec.structs.replace(changed, envelope=envelope(changed))
