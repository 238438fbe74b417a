"""The composition root: configuration becomes a database, models, agents and their runtimes.

The only module that knows every edge but the screen. What is heavy (psycopg, the embedded server, SDKs, the local
model) is imported and started in threads, so that a prompt that is already visible goes on taking keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai import keys, paths, trust
from ikigai.config import Config, layers, tools_enabled, under
from ikigai.config import project as project_settings
from ikigai.config.table import VENDORS, Context, Model, Server
from ikigai.core import codec, matching
from ikigai.core.bounds import ALL, Bounds
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import Choices, Event
from ikigai.core.instructions import KEY, ORIGIN, instructed
from ikigai.core.loading import loading
from ikigai.core.memory import Memory
from ikigai.core.messages import Usage
from ikigai.core.ports import View
from ikigai.core.pressure import Options
from ikigai.core.run import Run
from ikigai.metering import Price
from ikigai.profiles import in_force, make_profiles, make_rules
from ikigai.project import Project
from ikigai.providers import listing
from ikigai.providers.local_model import LocalModel
from ikigai.providers.models import Listed, Models
from ikigai.providers.pool import Endpoint, Pool
from ikigai.providers.vendor import FIRST, IDLE
from ikigai.runtime import Runtime

if TYPE_CHECKING:
    from ikigai.core.delegating import Delegates
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.embedded import Lease
    from ikigai.store.log import AgentLog
    from ikigai.workshop import Workshop


async def imported(module: str) -> Any:
    """Import a heavy module in a thread."""
    return await asyncio.to_thread(importlib.import_module, module)


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

    @classmethod
    async def open(cls, config: Config, project: Project | None = None) -> World:
        """Start the embedded server if it is wanted, connect, migrate. Raises StoreError, ConfigError.

        Without a `project` somebody has asked about, its folder brings something only if it is trusted already.
        """
        if project is None:
            project = make_project()
            project.look()
        config, bounds = tightened(config, project)
        pool, opening = make_pool(config), asyncio.ensure_future(open_database(config))
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
        found = [*self.project.problems, *self.workshop.problems]
        self.project.problems.clear()
        self.workshop.problems.clear()
        return found

    def instructions(self) -> str:
        """The project's instructions as they are now; agents opened from here on have them, too."""
        value = self.project.instructions()
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
        wanted = _chosen({**memory.settings, **values, **back})
        if "profile" in values:  # whether the agent's own level fits, `fitting` says
            wanted = _chosen(self.run.resolve({key: value for key, value in own.items() if key != "level"}))
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
        return await agents.last(directory() if start_with == "directory" else "") or await self.create()

    async def take(self, agent: Agent) -> tuple[Memory, AgentLog]:
        """Take the pen of the agent and load its memory. Raises Busy when another program holds it, Broken when it can
        only be read.
        """
        await self.database.family.check(agent)
        log = await self.database.open_agent(agent, directory())
        try:
            self.instructions()
            return await log.load(loading(self.run, agent.id)), log
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
        from ikigai.recalling import EXCERPTS, MOST, excerpts

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

        return {"learn": self.pool.learn, "instructions": instructions, "condensing": self.condensing}

    def condensing(self, memory: Memory) -> Options:
        """When and how the oldest turns of this memory are condensed."""
        return make_options(under(self.config, in_force(memory)).context)


def directory() -> str:
    """The working directory; empty when it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


async def locate_database(config: Config) -> tuple[Lease | None, str]:
    """The DSN of this configuration and, where that is the embedded server, the lease that keeps it running."""
    if config.database.dsn is not None:
        return None, config.database.dsn
    embedded = await imported("ikigai.store.embedded")
    lease = await asyncio.to_thread(embedded.start, paths.data_dir())
    return lease, lease.dsn


async def open_database(config: Config, write: bool = True) -> tuple[Lease | None, Database]:
    """The database of this configuration: connected and, with `write`, its schema brought up to date."""
    lease, dsn = await locate_database(config)
    revive = (lambda: asyncio.to_thread(lease.renew)) if lease else None
    try:
        module = await imported("ikigai.store.database")
        return lease, await module.Database.open(dsn, paths.shipped("migrations"), write=write, revive=revive)
    except BaseException:
        if lease:
            lease.close()
        raise


def keys_file() -> Path:
    """The file of `ikigai login`."""
    return paths.config_dir() / keys.FILE


def make_pool(config: Config) -> Pool:
    """The models this configuration reaches; a key is read when a request is to be sent."""

    def key(name: str) -> str:
        kind, _, variable = config.keys.get(name, "").partition(" ")
        return os.environ.get(variable, "").strip() if kind == "environment" else keys.find(keys_file(), name)

    def endpoint(name: str) -> Endpoint:
        server = config.providers.get(name, Server())
        first, idle = float(server.first_seconds or FIRST), float(server.idle_seconds or IDLE)
        return Endpoint(server.base_url, lambda: key(name), server.api, first, idle)

    endpoints = {name: endpoint(name) for name in (*VENDORS, *config.providers)}
    local = LocalModel(config.local.model_file, config.local.context, paths.data_dir())
    return Pool(endpoints, local, make_models(config))


def make_models(config: Config) -> Models:
    """What is known of models, with what this configuration says of them before all."""

    def known(model: str) -> Listed:
        provider = model.partition("/")[0]
        said, server = config.models.get(model, Model()), config.providers.get(provider, Server())
        least = config.local.context if provider == "local" else 0
        return Listed(
            model,
            said.context or server.context or least,
            said.max_output or server.max_output,
            said.levels or None,
            {"yes": True, "no": False}.get(said.images),
        )

    def api(provider: str) -> str:
        server = config.providers.get(provider, Server())
        return server.api or provider

    listed = {provider: found.models for provider, found in listing.load(listing_file()).items()}
    return Models(listed, known, api)


def listing_file() -> Path:
    """What the providers listed when `ikigai models --refresh` asked them last."""
    return paths.state_dir() / "models.json"


def make_price(config: Config) -> Price:
    """What requests cost, the configuration's prices before all others; it imports, so it belongs in a thread."""

    def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        from ikigai.providers import prices

        said = config.models.get(model, Model())
        server = config.providers.get(model.partition("/")[0], Server())
        per_million = (said.input_price, said.output_price, said.cached_price, said.written_price)
        known = prices.Prices(*(None if dollars < 0 else dollars for dollars in per_million))
        if server.api in VENDORS and not server.base_url:  # a vendor under another name
            model = f"{server.api}/{model.partition('/')[2]}"
        priced = prices.price(model, usage, at, known, server.base_url)
        return priced.cost, priced.priced_by

    return price


def make_workshop(config: Config) -> Workshop:
    """What models may do here."""
    from ikigai.workshop import Workshop

    return Workshop(config, Path(directory() or "/"))


def make_project() -> Project:
    """The working directory, which nobody has looked at yet."""
    return Project(Path(directory() or "/"), paths.data_dir() / trust.FILE)


def tightened(config: Config, project: Project) -> tuple[Config, Bounds]:
    """The configuration with what the project tightens, where that is trusted. Raises ConfigError."""
    return project_settings.tightened(config, project.config, project.folder) if project.trusted else (config, Bounds())


def make_run(config: Config, pool: Pool, workshop: Workshop, project: Project | None = None) -> Run:
    """What this run brings to memory; without a configured model, the one that is at hand.

    Raises ConfigError when a flag or a variable asks for a thinking level that the model does not have; such a level
    of the file is left out (`lacking` says it).
    """
    layered = layers(config)
    below, above = layered.below, layered.above
    pool.known.check(*_chosen(above))
    if not below.get("model"):
        below = {**below, "model": pool.default_model(config.keys)}
    if lacking(pool, below):
        below = {**below, "level": ""}
    if not config.tools.enabled and tools_enabled(config):  # by a profile
        below = {**below, "tools_off": ALL}
    return Run(
        instructed(below, project.instructions() if project else ""),
        pool.limits,
        pool.encoder,
        above,
        {**layered.origins, KEY: ORIGIN},
        workshop.specs,
        (matching.SPEC,),
        config.context.token_counter,
        make_rules(config.context),
        make_profiles(config, below, lambda settings: lacking(pool, settings)),
    )


def make_options(context: Context) -> Options:
    """When and how the oldest turns are condensed."""
    return Options(
        context.condense,
        context.condense_at_percent,
        context.condense_to_percent,
        context.condense_model,
        context.condense_prompt_file,
        context.summarise_on_clear,
    )


def lacking(pool: Pool, settings: Choices) -> str:
    """The sentence about a thinking level that the model of these settings does not have; "" when all is well."""
    try:
        pool.known.check(*_chosen(settings))
    except ConfigError as error:
        return error.what
    return ""


def _chosen(settings: Choices) -> tuple[str, str]:
    return str(settings.get("model") or ""), str(settings.get("level") or "")


def spool(agent: str, facts: Sequence[Event]) -> str:
    """Keep what the database would not take in a file of the state folder; returns the sentence that says so."""
    path = paths.state_dir() / f"unsaved-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
    rows = (codec.encode(fact)._asdict() for fact in facts)
    lost = "1 event could not be saved" if len(facts) == 1 else f"{len(facts)} events could not be saved"
    try:
        paths.private(path.parent)
        path.write_bytes(b"".join(msgspec.json.encode({"agent": agent, **row}) + b"\n" for row in rows))
    except OSError as error:
        return f"{lost}, nor kept in {path}: {error.strerror}."
    return f"{lost}; {'it is' if len(facts) == 1 else 'they are'} kept in {path}."
