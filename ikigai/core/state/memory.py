"""Memory: what the log means now for one agent, and what a request made of it holds and takes."""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from ikigai.core import tokens
from ikigai.core.events import Choices, Summarised
from ikigai.core.messages import Message, ToolSpec
from ikigai.core.model import Limits
from ikigai.core.record import Record
from ikigai.core.request.build import Request, notice, paired, summarised
from ikigai.core.request.system_prompt import system
from ikigai.core.state.open_turn import OpenTurn, Status
from ikigai.core.state.project_limits import ALL
from ikigai.core.state.run_config import Run
from ikigai.core.state.window import Turn, Window

replace = msgspec.structs.replace


class Mark(Record, frozen=True):
    id: int
    label: str


class Act(Record, frozen=True):
    """What this agent did to its memory and can undo: the event's id, and its kind. An `empty` filter took nothing."""

    id: int
    kind: str
    empty: bool = False


class Summary(Record, frozen=True):
    """What stands for everything at or before the event `upto`, which is so many turns; `id` is its event's."""

    id: int
    upto: int
    text: str
    turns: int


class Beginning(Record, frozen=True):
    """How memory begins: equal as long as nothing up to a certain event has left it, or come back."""

    cleared: int | None
    summaries: tuple[int, ...]
    gone: frozenset[tuple[int, int]]
    removed: tuple[int, ...]


class Memory(Record, frozen=True):
    """What the log means now. Status and what is pending are derived; sizes are kept as bytes.

    `window` are the turns that are sent, `full` those that were before the open turn grew: what had to make room for it
    is sent again if that comes to less once it has ended. `gone` are the open id intervals that rewinds and filters
    took away, `removed` the single events that filters did, ascending; `acts` what of all that is in force and this
    agent's own, since the clear. `cleared` is the clear that memory begins behind, `stale` says that the past changed
    and memory has to be loaded before anything else is decided. `limits` are the model's as they were known when memory
    was loaded: whoever learns others loads it again, for the fold must not change under the turns that it has folded.
    `turn_room` are the bytes that an open turn may take by them. `summaries` are those that no rewind went behind; the
    newest is sent, and counts with `envelope`.
    """

    run: Run
    agent: str
    settings: Choices
    envelope: int
    own: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    window: Window = Window()
    full: Window = Window()
    open: OpenTurn | None = None
    marks: tuple[Mark, ...] = ()
    gone: tuple[tuple[int, int], ...] = ()
    removed: tuple[int, ...] = ()
    summaries: tuple[Summary, ...] = ()
    acts: tuple[Act, ...] = ()
    cleared: int | None = None
    stale: bool = False
    limits: Limits = Limits(0, 0)
    turn_room: int = 0

    @property
    def status(self) -> Status:
        if self.open is None:
            return Status.IDLE
        return Status.RUNNING_TOOLS if len(self.open.calls) > len(self.open.answered) else Status.WAITING

    @property
    def model(self) -> str:
        """The model in force, "provider/name"; empty when there is none."""
        return str(self.settings.get("model") or "")

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]

    @property
    def budget(self) -> int:
        """The sliding budget in tokens; 0 means that nothing slides out."""
        budget = self.settings.get("budget")
        return int(budget) if isinstance(budget, int) else 0

    @property
    def room(self) -> int:
        """Tokens that a request may take: the model's context less room for the reply and a tenth for miscounting."""
        limits = self.limits
        return max(0, limits.context - output_reserve(limits) - limits.context // 10)

    @property
    def ceiling(self) -> int:
        """Tokens that a request may take between turns: the budget or the room, whichever is less."""
        return min(self.budget, self.room) if self.budget else self.room

    @property
    def summary(self) -> Summary | None:
        """The one that is sent."""
        return self.summaries[-1] if self.summaries else None

    @property
    def covered(self) -> int:
        """The last event that a summary stands for; 0 for none."""
        return max((summary.upto for summary in self.summaries), default=0)

    @property
    def out(self) -> tuple[tuple[int, int], ...]:
        """`gone`, and what summaries stand for."""
        return (*self.gone, (-1, self.covered + 1)) if self.covered else self.gone

    def begins(self, upto: int) -> Beginning:
        """How memory begins, up to this event."""
        gone = frozenset((low, min(high, upto + 1)) for low, high in self.gone if low < upto)
        removed = tuple(id for id in self.removed if id <= upto)
        return Beginning(self.cleared, tuple(summary.id for summary in self.summaries), gone, removed)

    @property
    def size(self) -> int:
        """Bytes of the body of the request as it stands: envelope, notice, window, open turn."""
        opened = self.open.size if self.open else 0
        return self.envelope + notice_size(self, self.window.older.messages) + self.window.size + opened

    @property
    def used(self) -> int:
        """The same in tokens."""
        return tokens.count(self.provider, self.model, self.size)

    @property
    def used_at_least(self) -> int:
        """Tokens of the request without the turns that can slide out: a kept first turn and the newest never do."""
        if not self.budget:
            return self.used
        turns = self.window.turns
        first = self.window.first or (turns[0] if turns and self.run.rules.keep_first_turn else None)
        newest = turns[-1] if turns and not self.open else None
        staying = (first,) if first is newest else (first, newest)
        size = self.size - self.window.size + sum(turn.size for turn in staying if turn)
        return tokens.count(self.provider, self.model, size)

    @property
    def cutoff(self) -> int | None:
        """Id of the first event in context when something is out of it; None when everything is in."""
        turn = self.first_behind_rule
        if turn is None or not (self.window.older.turns or self.summaries):
            return None
        return turn.first if isinstance(turn, OpenTurn) else turn.id

    @property
    def first_behind_rule(self) -> Turn | OpenTurn | None:
        """The turn that the rule stands before; None where nothing is sent.

        A first turn that is kept stands before the rule only if turns are left out between it and the others.
        """
        kept = self.window.first
        if kept and not self.window.older.turns:
            return kept
        return self.window.turns[0] if self.window.turns else self.open

    def remembers(self, id: int) -> bool:
        """Whether the event `id` of this lineage is in context."""
        start, first = self.cutoff or (self.cleared or 0), self.window.first
        inside = id >= start or (first is not None and first.id <= id <= first.end)
        return inside and not any(low < id < high for low, high in self.out) and not self.thinned(id, id)

    def thinned(self, first: int, last: int) -> bool:
        """Whether a filter took single events from between these two, both included."""
        if not self.removed:
            return False
        place = bisect_left(self.removed, first)
        return place < len(self.removed) and self.removed[place] <= last


def output_reserve(limits: Limits) -> int:
    """Tokens kept free for the reply: the longest the model gives, but no more than a quarter of its context."""
    return min(limits.max_output, limits.context // 4)


def measured(memory: Memory, messages: Iterable[Message]) -> int:
    """Bytes that these messages add to a request."""
    measure = memory.run.encoder(memory.model).message
    return sum(measure(message) for message in messages)


def notice_size(memory: Memory, older: int) -> int:
    message = notice(older)
    return memory.run.encoder(memory.model).message(message) if message else 0


def summary_messages(memory: Memory) -> tuple[Message, ...]:
    """What of a request stands for what was condensed."""
    summary = memory.summary
    return summarised(summary.text, summary.turns) if summary else ()


def envelope(memory: Memory) -> int:
    """Bytes of a request that no turn adds: its frame, and the summary."""
    return memory.run.encoder(memory.model).envelope(frame(memory)) + measured(memory, summary_messages(memory))


def used_without_open(memory: Memory) -> int:
    """Tokens of the request as it stood before the open turn began."""
    idle = replace(memory, open=None, window=memory.full)
    return replace(idle, envelope=envelope(idle)).used


def used_with_summary(memory: Memory, event: Summarised) -> int:
    """Tokens of the request once this summary stands for what it covers, as far as the window knows."""
    summary = Summary(0, event.upto, event.text, event.turns)
    summed = replace(memory, summaries=(*memory.summaries, summary), open=None)
    first = (memory.full.first,) if memory.full.first else ()
    kept = sum(turn.size for turn in (*first, *memory.full.turns) if turn.id > event.upto)
    return tokens.count(memory.provider, memory.model, envelope(summed) + kept)


def plain_size(memory: Memory) -> int:
    """Bytes of the request as it stands, whatever its turns count for: what `UsageReported.size` says of it."""
    return memory.envelope + measured(memory, _turns(memory))


def offered(memory: Memory) -> tuple[ToolSpec, ...]:
    """The tools that the model has now."""
    if not memory.limits.tools:
        return ()
    if memory.open and memory.open.planning:
        return memory.run.planning()
    off = str(memory.settings.get("tools_off") or "").split(",")
    if ALL in off:
        return ()
    return tuple(tool for tool in memory.run.tools if tool.set not in off) if off != [""] else memory.run.tools


def frame(memory: Memory) -> Request:
    """The next request without its messages."""
    return Request(
        model=memory.model.partition("/")[2],
        system=system(memory.settings),
        tools=offered(memory),
        level=str(memory.settings.get("level") or ""),
        max_output=output_reserve(memory.limits),
    )


def request(memory: Memory) -> Request:
    """What the model is sent now: summary, notice, window, open turn; every call with its result."""
    return replace(frame(memory), messages=(*summary_messages(memory), *_turns(memory)))


def _turns(memory: Memory) -> tuple[Message, ...]:
    older = notice(memory.window.older.messages)
    first = memory.window.first.messages if memory.window.first else ()
    turns = [message for turn in memory.window.turns for message in turn.messages]
    opened = paired(memory.open.messages, memory.open.started) if memory.open else ()
    return (*first, *((older,) if older else ()), *turns, *opened)
