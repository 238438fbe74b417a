"""Drive one agent over a log in memory by hand, as the loop does."""

from typing import TypeVar

from ikigai.core.context.request_size import add_sizes
from ikigai.core.events import events as ev
from ikigai.core.events.messages import ReplyBlock, StopReason, Text
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import CallModel, Input, Job, Opened, Replied, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, replace
from tests.core.encoders import encoder, limits
from tests.core.memory_log import MemoryLog

J = TypeVar("J", bound=Job)
RUN = RunConfig({"model": "chat/large", "budget": 100_000}, limits, encoder)


class Agent:
    """One agent, opened at once under `run`; `log` may hold it already."""

    def __init__(self, run: RunConfig = RUN, log: MemoryLog | None = None, name: str = "a") -> None:
        self.log, self.name = log or MemoryLog(), name
        self.run = replace(run, since=self.log.rows[-1].id if self.log.rows else 0)
        self.log.seal = run.seal
        if name not in self.log.agents:
            self.log.create(name)
        self.memory = self.loaded()
        self.happen(Opened(self.log.draft(name)))

    def loaded(self) -> Memory:
        return self.log.load(load_memory(self.run, self.name))

    def happen(self, incoming: Input) -> tuple[ev.Event, ...]:
        return self.store(self.log.load(add_sizes(self.memory, decide(self.memory, incoming))))

    def store(self, events: tuple[ev.Event, ...]) -> tuple[ev.Event, ...]:
        """Append and fold these events, and return them."""
        reload = any(isinstance(event, ev.CHANGES_THE_PAST) for event in events)
        appended = self.log.append(self.name, events, load_memory(self.run, self.name) if reload else None)
        for row in appended.rows:
            self.memory = evolve(self.memory, row)
        self.memory = appended.memory or self.memory
        return events

    def turn(self, asked: str = "?", said: str = "!") -> None:
        self.happen(Submitted(asked))
        self.reply(Text(said))

    def reply(self, *said: ReplyBlock) -> tuple[ev.Event, ...]:
        job = self.job(CallModel)
        return self.happen(Replied(job, said, StopReason.END, ev.UsageReported(self.memory.model)))

    def job(self, kind: type[J], n: int = 0) -> J:
        """Return the n-th of the wanted jobs of this kind, in the order of their events."""
        return sorted((job for job in work(self.memory) if isinstance(job, kind)), key=lambda job: job.asked_by)[n]
