"""The composition root: makes a world with agents and runtimes of what `open_database` and `factories` give.

With these two the only module that knows every edge but the screen. What is heavy (psycopg, the embedded server, SDKs,
the local model) is imported and started in threads, so that a prompt that is already visible goes on taking keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import html  # noqa: F401  here, where one thread loads: later pygments in one and markdown-it in another may want it
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.agent.loop import Runtime
from ikigai.app.factories import (
    chosen,
    lacking,
    make_options,
    make_pool,
    make_price,
    make_project,
    make_run,
    make_workshop,
    tightened,
)
from ikigai.app.open_database import imported, open_database
from ikigai.app.profiles import in_force
from ikigai.app.project import Project
from ikigai.config import Config, layers, under
from ikigai.core.condense.threshold import Options
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import Choices
from ikigai.core.ports import View
from ikigai.core.request.system_prompt import KEY, instructed
from ikigai.core.state.loading import loading
from ikigai.core.state.memory import Memory
from ikigai.core.state.run_config import Run
from ikigai.providers.pool import Pool
from ikigai.system.paths import directory, unsaved_files
from ikigai.system.process_memory import protect_process_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.app.tool_runtime import Workshop
    from ikigai.core.agents.subagents import Delegates
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.store.log import AgentLog
    from ikigai.system.progress import Far


class World:
    """What one run of the program shares between its agents."""

    def __init__(
        self,
        config: Config,
        database: Database,
        lease: Lease | None,
        pool: Pool,
        run: Run,
        workshop: Workshop,
        project: Project | None = None,
    ) -> None:
        self.config, self.database, self.pool, self.run = config, database, pool, run
        self._lease = lease
        self.workshop, self.project = workshop, project or make_project()
        self.redaction = workshop.redaction
        self.redaction.passwords = lambda: database.passwords
        self._too_short = self.redaction.warnings()

    @classmethod
    async def open(
        cls,
        config: Config,
        project: Project | None = None,
        told: Far = lambda done, total: None,
        write: bool = True,
    ) -> World:
        """Start the embedded server if it is wanted, connect, migrate. Raises StoreError, ConfigError.

        Without a `project` somebody has asked about, its folder brings something only if it is trusted already. `told`
        hears of migrations. With `write` false nothing can be stored, and a newer schema is no obstacle.
        """
        protect_process_memory()  # not before the prompt, which would wait 1 ms; no command can run yet
        if project is None:
            project = make_project()
            project.look()
            project.report_unasked()
        config, bounds = tightened(config, project)
        pool, opening = make_pool(config), asyncio.ensure_future(open_database(config, write, told))
        workshop = None
        try:
            await imported("ikigai.store.database")  # first, and alone: the rest is imported while the server answers
            workshop = await asyncio.to_thread(make_workshop, config)
            await workshop.open(project)
            run = await asyncio.to_thread(make_run, config, pool, workshop, project)
            run = msgspec.structs.replace(run, bounds=bounds)
        except BaseException:
            if workshop:
                await workshop.close()
            with contextlib.suppress(Exception):
                lease, database = await opening
                await database.close()
                if lease:
                    lease.close()
            raise
        try:
            lease, database = await opening
        except BaseException:
            await workshop.close()
            raise
        return cls(config, database, lease, pool, run, workshop, project)

    async def close(self) -> None:
        try:
            await self.workshop.close()
            await self.pool.close()
        finally:
            await self.database.close()
            if self._lease:
                self._lease.close()

    def problems(self) -> list[str]:
        """What of the project and of the user's own tools cannot be used, in sentences, each told once."""
        found = [*self.project.problems, *self.workshop.problems, *self._too_short]
        for told in (self.project.problems, self.workshop.problems, self._too_short):
            told.clear()
        return found

    def instructions(self) -> str:
        """The project's instructions as they are now; agents opened from here on have them, too."""
        value = self.redaction.own(self.project.instructions())
        if (self.run.below.get(KEY) or "") != value:
            self.run = msgspec.structs.replace(self.run, below=instructed(self.run.below, value))
        return value

    @property
    def database_name(self) -> str:
        """Where the log is, in a word for the status line."""
        return "embedded" if self._lease else self.database.host

    @property
    def place(self) -> str:
        """The same for the status line, with the sandbox that commands run in."""
        return f"{'bwrap · ' if self.workshop.sandbox else ''}{self.database_name}"

    def known_models(self) -> tuple[str, ...]:
        """Models worth offering: the one in force, the local one, those configured, and those of all keys at hand."""
        found = [self.config.model]
        with contextlib.suppress(ConfigError):  # weights are configured, and are not there
            found += [self.pool.default_model(self.config.keys), self.pool.local_model()]
        found += self.config.models
        for provider in dict.fromkeys((*self.config.keys, *self.config.providers)):
            found += [f"{provider}/{name}" for name in self.pool.known.names(provider)]
        return tuple(dict.fromkeys(filter(None, found)))

    def check(self, memory: Memory, values: Choices) -> None:
        """Raise when an agent cannot change to these settings: nobody serves the model, or it lacks the level."""
        own: Choices = {key: value for key, value in {**memory.own, **values}.items() if value is not None}
        back = {key: self.run.resolve(own).get(key) for key, value in values.items() if value is None}
        wanted = chosen({**memory.settings, **values, **back})
        if "profile" in values:  # whether the agent's own level fits, `fitting` says
            wanted = chosen(self.run.resolve({key: value for key, value in own.items() if key != "level"}))
        if values.get("model") or values.get("profile"):
            self.pool.check(*wanted)
        elif "level" in values:
            self.pool.known.check(*wanted)

    def fitting(self, memory: Memory, values: Choices) -> tuple[Choices, str]:
        """The same change, in which another model keeps the agent's own level if it has that, and what is to be said.

        What this means is said in the help of /model.
        """
        level = str(memory.own.get("level") or "")
        if level and values.get("profile") and (why := lacking(self.pool, self.run.resolve({**memory.own, **values}))):
            return {**values, "level": None}, f"{why} It thinks as the profile has it; /think chooses another level."
        if not (level and values.get("model") and values.get("level") == ""):
            return values, ""
        if why := lacking(self.pool, {**values, "level": level}):
            return values, f"{why} It thinks as is its default now; /think chooses another level."
        return {key: value for key, value in values.items() if key != "level"}, ""

    def level_notice(self, own: Choices) -> str:
        """What is to be said about thinking levels when an agent with these choices begins; "" for nothing."""
        if (
            "model" not in own
            and "model" not in self.run.above
            and (why := lacking(self.pool, layers(self.config).below))
        ):
            return f"{why} The level in the configuration is not used; /think chooses one."
        why = lacking(self.pool, self.run.resolve(own))
        return f"{why} /think chooses another level." if why else ""

    def sees(self, model: str) -> bool:
        """Whether this model sees images, as far as anybody knows."""
        return self.pool.known.traits(model).images

    async def create(self, name: str = "") -> Agent:
        return await self.database.agents.create(name, directory())

    async def choose(self, resume: str | None, new: bool, last: bool) -> Agent:
        """The agent to go on with: as the flags say, or as `start_with` does. Raises ConfigError."""
        agents = self.database.agents
        if resume:
            try:
                found = await agents.find(resume)
            except Refused as refusal:
                raise ConfigError(refusal.what, refusal.remedy) from None
            if found.killed_at:
                raise ConfigError(f"Agent {found.name} was killed.", f"Run: ikigai agents revive {found.name}")
            return found
        start_with = "new" if new else "last" if last else self.config.start_with
        if start_with == "new":
            return await self.create()
        return await agents.last_or_new(directory(), anywhere=start_with == "last")

    async def take(self, agent: Agent) -> tuple[Memory, AgentLog, list[str]]:
        """Take the pen of the agent and load its memory, with what an earlier run could not save; what is to be told of
        that. Raises Busy when another program holds it, Broken when it can only be read, Refused when it was killed
        meanwhile.
        """
        await self.database.family.check(agent)
        log = await self.database.open_agent(agent, directory())
        try:
            agent.check_living(log.killed)
            self.instructions()
            told: list[str] = []
            if files := unsaved_files(agent.id):
                from ikigai.app.unsaved_events import put_back

                told = await put_back(files, log)
            return await log.load(loading(self.run, agent.id)), log, told
        except BaseException:
            await log.close()
            raise

    async def look(self, agent: Agent) -> Memory:
        """The memory of an agent that somebody else writes to."""
        return await self.database.reader(agent).load(loading(self.run, agent.id))

    def learned(self, model: str) -> bool:
        """Whether a provider has said in this run that the model takes less than was known."""
        return self.pool.limits(model).context < self.pool.known.limits(model).context

    async def _recalled(self, question: str) -> str:
        from ikigai.app.recall import EXCERPTS, MOST, excerpts

        return excerpts(await self.database.excerpts(question, EXCERPTS, MOST))

    def runtime(
        self, agent: Agent, memory: Memory, log: AgentLog, view: View, delegates: Callable[[], Delegates], **limits: Any
    ) -> Runtime:
        tools = self.workshop.registry(self.database.reader(agent).result, self._recalled, delegates, agent.id)
        price = make_price(self.config)
        return Runtime(memory, log, self.pool.provider, tools, view, price=price, **{**self._given(view), **limits})

    def _given(self, view: View) -> dict[str, Any]:
        def instructions() -> str:
            value = self.instructions()
            for problem in self.problems():
                view.notice(problem)
            return value

        given = {"learn": self.pool.learn, "instructions": instructions, "condensing": self.condensing}
        return {**given, "redactor": self.redaction.redactor}

    def condensing(self, memory: Memory) -> Options:
        """When and how the oldest turns of this memory are condensed."""
        return make_options(under(self.config, in_force(memory)).context)
