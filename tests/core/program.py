"""Program with one agent open over any log: it acts like the loop, and checks every step."""

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from msgspec.structs import replace

from ikigai.core.context.request_size import add_sizes
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve, is_accepted
from ikigai.core.state.inputs import (
    DefaultSystemChanged,
    Input,
    InstructionsChanged,
    Job,
    McpToolsChanged,
    Opened,
    Replied,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory
from ikigai.core.tools.mcp_tools import MCP_TOOLS_KEY
from tests.core.agreement import counts_as_told
from tests.core.memory_log import Logs, MemoryLog, seal
from tests.core.oracle import effective


class Learned:
    """The limits that providers stated for their models, as a pool keeps them; each life has its own."""

    def __init__(self) -> None:
        self.contexts: dict[str, int] = {}
        self._taught: dict[Callable[[str], ModelLimits], Callable[[str], ModelLimits]] = {}

    def learn(self, model: str, context: int) -> None:
        self.contexts[model] = context

    def taught(self, run: RunConfig) -> RunConfig:
        """Return the run with the learned limits; the limits of one configuration are always one function."""
        known = run.limits
        if known in self._taught.values():
            return run

        def limits(model: str) -> ModelLimits:
            given = known(model)
            return replace(given, context=min(given.context, self.contexts.get(model, given.context)))

        return replace(run, limits=self._taught.setdefault(known, limits))


def starts(memory: Memory) -> int:
    """Return the first event of the run of turns that is sent between turns."""
    return memory.full_window.turns[0].id if memory.full_window.turns else 0


class Program(RuleBasedStateMachine):
    """One program; `open_log` makes the log, `past_jobs` are jobs that are no longer wanted."""

    @staticmethod
    def open_log() -> Logs:
        log = MemoryLog()
        log.seal = seal
        return log

    def __init__(self) -> None:
        super().__init__()
        self.log = type(self).open_log()
        self.agents = [self.log.create("a0")]
        self.past_jobs: list[Job] = []
        self.learned = Learned()

    def start(self, agent: str, run: RunConfig) -> None:
        """Acquire the write lock: load, and record the events that follow."""
        self.log.let_go(agent)
        if run is not getattr(self, "run", None):  # else this run goes on with another agent
            newest = max((row.id for each in self.agents for row in self.log.history(each)), default=0)
            run = replace(self.learned.taught(run), since=newest)
        self.agent, self.run = agent, run
        self.memory = self.loaded(agent)
        self.happen(Opened(self.log.draft(agent)))
        assert self.memory.status is AgentStatus.IDLE
        assert decide(self.memory, Opened(self.log.draft(agent))) == (), "recovery writes nothing the second time"
        wanted = effective(self.memory.run, self.memory.own)
        assert self.settings_in_force == wanted, "this run's settings hold"

    @property
    def settings_in_force(self) -> ev.Choices:
        """The settings without the default system prompt and the tools of MCP servers, which belong to no run."""
        left_out = ("default_system", MCP_TOOLS_KEY)
        return {key: value for key, value in self.memory.settings.items() if value is not None and key not in left_out}

    def loaded(self, agent: str) -> Memory:
        return self.log.load(load_memory(self.run, agent))

    def happen(self, incoming: Input) -> tuple[ev.Event, ...]:
        """Decide, store and fold, as the loop does; do nothing if the input is refused."""
        try:
            events = self.log.load(add_sizes(self.memory, decide(self.memory, incoming)))
        except Rejected as refusal:
            assert refusal.what and refusal.remedy
            return ()
        for event in events:
            if isinstance(event, ev.TurnEnded):
                reported = [event for event in events if isinstance(event, ev.UsageReported)]
                counted = incoming.counted if isinstance(incoming, Replied) else 0
                if event.ending is not ev.Ending.COMPLETED:
                    counted = 0  # nobody counts a turn that is given up: its last reply calls tools
                counts_as_told(self.memory, event, reported[-1] if reported else None, counted)
        if events:
            self.store(events)
            if isinstance(events[-1], ev.Filtered):
                assert events[-1].after == self.memory.used, "what the next request takes"
        return events

    def instruct(self, value: str) -> tuple[ev.Event, ...]:
        """Change the project's instructions: the run has them from here on, even before they are in force."""
        events = decide(self.memory, InstructionsChanged(value))
        below = {**self.run.below, "instructions": value}
        if not value:
            del below["instructions"]
        self.run = replace(self.run, below=below)
        self.memory = replace(self.memory, run=replace(self.memory.run, below=below))
        if events:
            self.store(events)
        return events

    def describe(self, value: str) -> tuple[ev.Event, ...]:
        """Change the default system prompt, as at the beginning of a turn."""
        events = decide(self.memory, DefaultSystemChanged(value))
        if events:
            self.store(events)
        return events

    def offer(self, value: str) -> tuple[ev.Event, ...]:
        """Change the tools of MCP servers, as at the beginning of a turn."""
        events = decide(self.memory, McpToolsChanged(value))
        if events:
            self.store(events)
        return events

    def store(self, events: tuple[ev.Event, ...]) -> None:
        reload = any(isinstance(event, ev.CHANGES_THE_PAST) for event in events)
        jobs = work(self.memory)
        appended = self.log.append(self.agent, events, load_memory(self.run, self.agent) if reload else None)
        for row in appended.rows:
            assert is_accepted(self.memory, row.event), "a decided fact belongs to its state"
            before = self.memory
            self.memory = evolve(self.memory, row)
            if isinstance(row.event, ev.TurnEnded):
                assert starts(self.memory) >= starts(before), "the cutoff never moves back when a turn is added"
        assert self.memory.stale is reload
        self.memory = appended.memory or self.memory
        self.past_jobs.extend(jobs - work(self.memory))

    def jobs(self, kind: type[Job]) -> list[Any]:
        return sorted((job for job in work(self.memory) if isinstance(job, kind)), key=lambda job: job.asked_by)
