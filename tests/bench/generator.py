"""Make a long conversation of one agent: events that the machine itself decides, as rows for COPY.

Nothing here knows how big a turn is or what its totals are: the generator says what happened, `decide` makes the events
and `evolve` folds them, as they do when somebody types. Marks, clears and rewinds come early, as in real logs, where
the long stretch is behind the last clear.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import msgspec

from ikigai.core.events import codec
from ikigai.core.events.events import Event, StoredEvent, UsageReported
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Clear,
    Failed,
    Interrupted,
    Replied,
    RewindTo,
    RunTool,
    SetMark,
    StartTool,
    Submitted,
    ToolDone,
)
from ikigai.providers.models.models import ModelCatalog
from ikigai.providers.openai.chat_api import ChatEncoder
from tests.bench.prose import Prose
from tests.core.agent import Agent

SEED = 20_261_121
MODEL = "scripted/demo"
RUN = RunConfig(
    {"level": "", "budget": 100_000, "system": ""},
    ModelCatalog().limits,
    lambda model: ENCODER,
    above={"model": MODEL},
    origins={"model": "flag --model"},
)
"""The settings of `ikigai -m scripted/demo` without any configuration, so that opening the agent adds no event."""
ENCODER = ChatEncoder()

LAST_WORD = "Szervusztok"
"""A word at the end of the last reply and nowhere else, which shows that the last turn is on screen."""

EARLY = 0.004
LONGEST_TURN = 80
"""Events of the longest turn."""
SHORT_TURN = 4
"""Events of a turn without tools: user, assistant, usage, turn_end."""


class Row(NamedTuple):
    """One event as it stands in the log; its id and its seq are the same number. `at` is seconds since 1970."""

    seq: int
    at: float
    kind: str
    content: str | None
    data: str | None


def history(events: int, seed: int = SEED, early: float = EARLY) -> Iterator[Row]:
    """Yield `events` events of one agent, 4 at least: every turn is whole, and the last one ends in LAST_WORD.

    Among the first of them, `early` of all, there are marks, clears and rewinds.
    """
    author = _Author(Random(seed))
    long_turns = events - LONGEST_TURN - 2 * SHORT_TURN
    while author.seq < min(events * early, long_turns):
        author.long_turn()
        author.command()
        yield from author.news()
    author.forget()
    while author.seq < long_turns:
        author.long_turn()
        yield from author.news()
    while author.seq <= events - 2 * SHORT_TURN:
        author.short_turn()
        yield from author.news()
    while author.seq < events - SHORT_TURN:
        author.happen(SetMark())
    author.short_turn(f"Good-bye. {LAST_WORD}")
    yield from author.news()


class _Author(Agent):
    """Lives through the conversation. Rows are kept only until they are not needed any more."""

    def __init__(self, rng: Random) -> None:
        self.seq = 0
        self._rng = rng
        self._prose = Prose(rng)
        self._at = 1_700_000_000.0
        self._news: list[Row] = []
        self._keeps = True
        offered = tuple(ToolSpec(name, "", "{}") for name in sorted({name for name, _ in CALLS}))
        super().__init__(msgspec.structs.replace(RUN, tools=offered))

    def store(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        for event in events:
            self.seq += 1
            self._at += self._rng.uniform(1, 60)
            self._news.append(Row(self.seq, self._at, *codec.encode(event)))
            if not self._keeps:
                self.memory = evolve(self.memory, StoredEvent(self.seq, self.name, self.seq, self._at, event))
        return super().store(events) if self._keeps else events

    def forget(self) -> None:
        """Drop the rows: from here on nothing is loaded again."""
        self._keeps = False
        self.log.rows.clear()

    def news(self) -> list[Row]:
        news, self._news = self._news, []
        return news

    def command(self) -> None:
        """Give a command of the user's to the context, mostly none."""
        match self._rng.random():
            case p if p < 0.12:
                self.happen(SetMark(self._rng.choice(["", "before", "works"])))
            case p if p < 0.20 and self.memory.marks:
                self.happen(RewindTo())
            case p if p > 0.97:
                self.happen(Clear())

    def long_turn(self) -> None:
        """Add a question, a few rounds of tools, an answer; now and then the user or the provider ends it early."""
        rng = self._rng
        self.happen(Submitted(self._prose.question()))
        for _ in range(min(int(rng.expovariate(1 / 1.6)), 6)):
            if rng.random() < 0.01:
                self.happen(Interrupted((Text(self._prose.text(20)),)))
                return
            self._call_tools()
        if rng.random() < 0.005:
            why = "The provider is overloaded. Try again later."
            self.happen(Failed(self.job(CallModel), why, (), UsageReported(MODEL, failure="overloaded", attempt=8)))
            return
        self._reply(Text(self._prose.markdown(15 + min(int(rng.expovariate(1 / 120)), 1200))))

    def short_turn(self, said: str = "") -> None:
        self.happen(Submitted(self._prose.question()))
        self._reply(Text(said or self._prose.text(30)))

    def _call_tools(self) -> None:
        rng = self._rng
        said: list[ReplyBlock] = []
        if rng.random() < 0.3:
            said.append(Thinking(self._prose.text(40), self._prose.hash() * 8, "anthropic"))
        if rng.random() < 0.6:
            said.append(Text(self._prose.text(12)))
        self._reply(*said, *(self._call() for _ in range(rng.choice([1, 1, 1, 2, 3]))))
        while self.memory.open and self.memory.open.pending:
            self.happen(Approved(self.job(StartTool)))
            job = self.job(RunTool)
            lines = min(1 + int(rng.lognormvariate(2.6, 1.2)), 600)
            self.happen(ToolDone(job, ToolResult(job.call.id, self._prose.printed(lines), rng.random() < 0.06)))

    def _call(self) -> ToolCall:
        name, arguments = self._rng.choice(CALLS)
        return ToolCall(f"toolu_{self._prose.hash()}", name, msgspec.json.encode(arguments(self._prose)).decode())

    def _reply(self, *blocks: ReplyBlock) -> None:
        rng = self._rng
        read = self.memory.used
        usage = Usage(read, 20 + int(rng.expovariate(1 / 300)), int(read * 0.9), 0)
        took = rng.uniform(1, 20)
        report = UsageReported(MODEL, usage, round(took, 3), round(took / 8, 3), f"req_{self._prose.hash()}")
        stop = StopReason.TOOLS if any(isinstance(block, ToolCall) for block in blocks) else StopReason.END
        self.happen(Replied(self.job(CallModel), blocks, stop, report))


CALLS: tuple[tuple[str, Callable[[Prose], dict[str, object]]], ...] = (
    ("shell", lambda prose: {"command": f"git log --oneline -20 -- {prose.path()}"}),
    ("shell", lambda prose: {"command": f"grep -rn {prose.name()} {prose.name()}/ | head -50", "timeout": 120}),
    ("read_file", lambda prose: {"path": prose.path(), "limit": 400}),
    ("edit_file", lambda prose: {"path": prose.path(), "old": prose.text(15), "new": prose.text(20)}),
)
"""Tools by name, with functions that make their arguments."""
