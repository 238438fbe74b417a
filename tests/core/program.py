"""A program with one agent open, over any log: it does what the loop does, and looks at every step of it."""

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from msgspec.structs import replace

from ikigai.core import events as ev
from ikigai.core.errors import Refused
from ikigai.core.forget.request_size import sized
from ikigai.core.model import Limits
from ikigai.core.state.fold import accepts, evolve
from ikigai.core.state.inputs import Input, Instructed, Job, Opened, Replied
from ikigai.core.state.loading import loading
from ikigai.core.state.machine import decide, work
from ikigai.core.state.memory import Memory, Status
from ikigai.core.state.run_config import Run
from tests.core.agreement import counts_as_told
from tests.core.memory_log import Logs, MemoryLog
from tests.core.oracle import effective


class Learned:
    """What providers turned out to give their models, as a pool of them keeps it: for every life its own."""

    def __init__(self) -> None:
        self.contexts: dict[str, int] = {}
        self._taught: dict[Callable[[str], Limits], Callable[[str], Limits]] = {}

    def learn(self, model: str, context: int) -> None:
        self.contexts[model] = context

    def taught(self, run: Run) -> Run:
        """The run with limits that know better; those of one configuration are always the same function."""
        known = run.limits
        if known in self._taught.values():
            return run

        def limits(model: str) -> Limits:
            given = known(model)
            return replace(given, context=min(given.context, self.contexts.get(model, given.context)))

        return replace(run, limits=self._taught.setdefault(known, limits))


def starts(memory: Memory) -> int:
    """The first event of the run of turns that is sent between turns."""
    return memory.full.turns[0].id if memory.full.turns else 0


class Program(RuleBasedStateMachine):
    """`open_log` makes the log; `past_jobs` are jobs that were wanted once and are no longer."""

    @staticmethod
    def open_log() -> Logs:
        return MemoryLog()

    def __init__(self) -> None:
        super().__init__()
        self.log = type(self).open_log()
        self.agents = [self.log.create("a0")]
        self.past_jobs: list[Job] = []
        self.learned = Learned()

    def start(self, agent: str, run: Run) -> None:
        """Take the pen: load, and record what follows from that."""
        self.log.let_go(agent)
        run = self.learned.taught(run)
        self.agent, self.run = agent, run
        self.memory = self.loaded(agent)
        self.happen(Opened(self.log.draft(agent)))
        assert self.memory.status is Status.IDLE
        assert decide(self.memory, Opened(self.log.draft(agent))) == (), "recovery writes nothing the second time"
        wanted = effective(run, self.memory.own)
        assert {k: v for k, v in self.memory.settings.items() if v is not None} == wanted, "this run's settings hold"

    def loaded(self, agent: str) -> Memory:
        return self.log.load(loading(self.run, agent))

    def happen(self, happened: Input) -> tuple[ev.Event, ...]:
        """Decide, store, fold, as the loop does; nothing when it is refused."""
        try:
            facts = self.log.load(sized(self.memory, decide(self.memory, happened)))
        except Refused as refusal:
            assert refusal.what and refusal.remedy
            return ()
        for fact in facts:
            if isinstance(fact, ev.TurnEnded):
                reported = [fact for fact in facts if isinstance(fact, ev.UsageReported)]
                counted = happened.counted if isinstance(happened, Replied) else 0
                if fact.ending is not ev.Ending.COMPLETED:
                    counted = 0  # nobody counts a turn that is given up: its last reply calls tools
                counts_as_told(self.memory, fact, reported[-1] if reported else None, counted)
        if facts:
            self.store(facts)
            if isinstance(facts[-1], ev.Filtered):
                assert facts[-1].after == self.memory.used, "what the next request takes"
        return facts

    def instruct(self, value: str) -> tuple[ev.Event, ...]:
        """The project's instructions have changed: the run has them from here on, whether they are in force already."""
        facts = decide(self.memory, Instructed(value))
        below = {**self.run.below, "instructions": value}
        if not value:
            del below["instructions"]
        self.run = replace(self.run, below=below)
        self.memory = replace(self.memory, run=replace(self.memory.run, below=below))
        if facts:
            self.store(facts)
        return facts

    def store(self, facts: tuple[ev.Event, ...]) -> None:
        reload = any(isinstance(fact, ev.CHANGES_THE_PAST) for fact in facts)
        jobs = work(self.memory)
        appended = self.log.append(self.agent, facts, loading(self.run, self.agent) if reload else None)
        for row in appended.rows:
            assert accepts(self.memory, row.event), "a decided fact belongs to its state"
            before = self.memory
            self.memory = evolve(self.memory, row)
            if isinstance(row.event, ev.TurnEnded):
                assert starts(self.memory) >= starts(before), "the cutoff never moves back when a turn is added"
        assert self.memory.stale is reload
        self.memory = appended.memory or self.memory
        self.past_jobs.extend(jobs - work(self.memory))

    def jobs(self, kind: type[Job]) -> list[Any]:
        return sorted((job for job in work(self.memory) if isinstance(job, kind)), key=lambda job: job.asked_by)
