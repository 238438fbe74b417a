"""One agent over a log in memory, driven by hand: what the loop does, without the loop."""

from typing import TypeVar

from ikigai.core import events as ev
from ikigai.core.forget.request_size import sized
from ikigai.core.messages import ReplyBlock, StopReason, Text
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import CallModel, Input, Job, Opened, Replied, Submitted
from ikigai.core.state.loading import loading
from ikigai.core.state.machine import decide, work
from ikigai.core.state.memory import Memory
from ikigai.core.state.run_config import Run
from tests.core.encoders import encoder, limits
from tests.core.memory_log import MemoryLog

J = TypeVar("J", bound=Job)
RUN = Run({"model": "chat/large", "budget": 100_000}, limits, encoder)


class Agent:
    """Opened at once under `run`; `log` may hold it already."""

    def __init__(self, run: Run = RUN, log: MemoryLog | None = None, name: str = "a") -> None:
        self.run, self.log, self.name = run, log or MemoryLog(), name
        if name not in self.log.agents:
            self.log.create(name)
        self.memory = self.loaded()
        self.happen(Opened(self.log.draft(name)))

    def loaded(self) -> Memory:
        return self.log.load(loading(self.run, self.name))

    def happen(self, happened: Input) -> tuple[ev.Event, ...]:
        return self.store(self.log.load(sized(self.memory, decide(self.memory, happened))))

    def store(self, facts: tuple[ev.Event, ...]) -> tuple[ev.Event, ...]:
        """Append and fold these facts, and give them back."""
        reload = any(isinstance(fact, ev.CHANGES_THE_PAST) for fact in facts)
        appended = self.log.append(self.name, facts, loading(self.run, self.name) if reload else None)
        for row in appended.rows:
            self.memory = evolve(self.memory, row)
        self.memory = appended.memory or self.memory
        return facts

    def turn(self, asked: str = "?", said: str = "!") -> None:
        self.happen(Submitted(asked))
        self.reply(Text(said))

    def reply(self, *said: ReplyBlock) -> tuple[ev.Event, ...]:
        job = self.job(CallModel)
        return self.happen(Replied(job, said, StopReason.END, ev.UsageReported(self.memory.model)))

    def job(self, kind: type[J], n: int = 0) -> J:
        """The n-th of the wanted jobs of this kind, in the order in which they were asked for."""
        return sorted((job for job in work(self.memory) if isinstance(job, kind)), key=lambda job: job.asked_by)[n]
