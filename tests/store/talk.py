"""One agent over the store, driven by hand: what the loop does, without the loop."""

from collections.abc import Sequence

from ikigai.core.context.request_size import add_sizes
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import CallModel, Input, Opened, Replied, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.log import AgentLog
from tests.core.agent import RUN


class Talk:
    """An agent with its write lock and its memory."""

    def __init__(self, log: AgentLog, agent: Agent, run: RunConfig, memory: Memory) -> None:
        self.log, self.agent, self.run, self.memory = log, agent, run, memory

    @classmethod
    async def open(cls, database: Database, agent: Agent | None = None, run: RunConfig = RUN) -> "Talk":
        """Open the agent as a program does at its start: recover, record what is configured. None makes one."""
        agent = agent or await database.agents.create()
        log = await database.open_agent(agent)
        talk = cls(log, agent, run, await log.load(load_memory(run, agent.id)))
        await talk.happen(Opened(await log.draft()))
        return talk

    async def happen(self, incoming: Input) -> None:
        if events := decide(self.memory, incoming):
            await self.store(await self.log.load(add_sizes(self.memory, events)))

    async def store(self, events: Sequence[ev.Event]) -> None:
        reload = any(isinstance(event, ev.CHANGES_THE_PAST) for event in events)
        appended = await self.log.append(events, load_memory(self.run, self.agent.id) if reload else None)
        for row in appended.rows:
            self.memory = evolve(self.memory, row)
        self.memory = appended.memory or self.memory

    async def turn(self, asked: str = "?", said: str = "!") -> None:
        await self.happen(Submitted(asked))
        (job,) = (job for job in work(self.memory) if isinstance(job, CallModel))
        await self.happen(Replied(job, (Text(said),), StopReason.END, ev.UsageReported(self.memory.model)))

    async def reloaded(self) -> Memory:
        return await self.log.load(load_memory(self.run, self.agent.id))
