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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai import paths
from ikigai.config import Config, layers
from ikigai.config.table import Model, Server
from ikigai.core import codec
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import Event
from ikigai.core.loading import loading
from ikigai.core.memory import Memory, Run
from ikigai.core.ports import Limits, View
from ikigai.providers.pool import Endpoint, LocalModel, Pool
from ikigai.runtime import Runtime
from ikigai.tools.registry import Registry

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.embedded import Lease
    from ikigai.store.log import AgentLog


async def imported(module: str) -> Any:
    """Import a heavy module in a thread."""
    return await asyncio.to_thread(importlib.import_module, module)


class World:
    """What one run of the program shares between its agents."""

    def __init__(
        self, config: Config, database: Database, lease: Lease | None, pool: Pool, run: Run, tools: Registry
    ) -> None:
        self.config, self.database, self.pool, self.run = config, database, pool, run
        self._lease = lease
        self.tools = tools

    @classmethod
    async def open(cls, config: Config) -> World:
        """Start the embedded server if it is wanted, connect, migrate. Raises StoreError, ConfigError."""
        lease, database = await open_database(config)
        pool, tools = make_pool(config), make_tools()
        return cls(config, database, lease, pool, make_run(config, pool, tools), tools)

    async def close(self) -> None:
        try:
            await self.pool.close()
        finally:
            await self.database.close()
            if self._lease:
                self._lease.close()

    @property
    def database_name(self) -> str:
        """Where the log is, in a word for the status line."""
        return "embedded" if self._lease else self.database.host

    def known_models(self) -> tuple[str, ...]:
        """Models worth offering: the one in force, the local one, those the configuration names."""
        found = [self.config.model]
        with contextlib.suppress(ConfigError):  # weights are configured, and are not there
            found += [self.pool.default_model(self.config.key_variables), self.pool.local_model()]
        return tuple(dict.fromkeys(filter(None, (*found, *self.config.models))))

    async def create(self, name: str = "") -> Agent:
        return await self.database.agents.create(name, directory())

    async def choose(self, resume: str | None, new: bool, last: bool) -> Agent:
        """The agent to go on with: as the flags say, or as `start_with` does. Raises ConfigError."""
        agents = self.database.agents
        if resume:
            try:
                return await agents.find(resume)
            except Refused as refusal:
                raise ConfigError(refusal.what, refusal.remedy) from None
        start_with = "new" if new else "last" if last else self.config.start_with
        if start_with == "new":
            return await self.create()
        return await agents.last(directory() if start_with == "directory" else "") or await self.create()

    async def take(self, agent: Agent) -> tuple[Memory, AgentLog]:
        """Take the pen of the agent and load its memory. Raises Busy when another program holds it."""
        log = await self.database.open_agent(agent, directory())
        try:
            return await log.load(loading(self.run, agent.id)), log
        except BaseException:
            await log.close()
            raise

    async def look(self, agent: Agent) -> Memory:
        """The memory of an agent that somebody else writes to."""
        return await self.database.reader(agent).load(loading(self.run, agent.id))

    def runtime(self, memory: Memory, log: AgentLog, view: View, **limits: Any) -> Runtime:
        return Runtime(memory, log, self.pool.provider, self.tools, view, **limits)


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


def make_pool(config: Config) -> Pool:
    """The models this configuration reaches; keys are read from the environment when a request is sent."""

    def endpoint(name: str) -> Endpoint:
        server = config.providers.get(name, Server())
        variable = config.key_variables.get(name, "")
        return Endpoint(server.base_url, lambda: os.environ.get(variable, "").strip() if variable else "")

    def known(model: str) -> Limits:
        said, server = config.models.get(model, Model()), config.providers.get(model.partition("/")[0], Server())
        return Limits(said.context or server.context, said.max_output or server.max_output)

    endpoints = {name: endpoint(name) for name in {"openai", *config.providers}}
    local = LocalModel(config.local.model_file, config.local.context, paths.data_dir())
    return Pool(endpoints, local, known)


def make_tools() -> Registry:
    """What models may do here: nothing yet."""
    return Registry()


def make_run(config: Config, pool: Pool, tools: Registry) -> Run:
    """What this run brings to memory; without a configured model, the one that is at hand."""
    layered = layers(config)
    below = layered.below
    if not below.get("model"):
        below = {**below, "model": pool.default_model(config.key_variables)}
    return Run(below, pool.limits, pool.encoder, layered.above, layered.origins, tools.specs)


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
