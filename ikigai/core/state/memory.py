"""Memory: the meaning of an agent's log now, and the content and size of the next request."""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from ikigai.core.events.events import Choices, StoredEvent, Summarized, TurnsRecalled
from ikigai.core.events.messages import Message, ToolSpec
from ikigai.core.events.record import Record
from ikigai.core.request.build import (
    Request,
    call_ids,
    distinguish_calls,
    pair_calls,
    summary_as_messages,
    take_over,
    window_notice,
)
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.system_prompt import system_prompt
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.intervals import Interval, excluded_by, within
from ikigai.core.state.open_turn import AgentStatus, OpenTurn
from ikigai.core.state.window import Turn, Window
from ikigai.core.text import tokens
from ikigai.core.tools.mcp_tools import MCP_SET, MCP_TOOLS_KEY, offered_specs
from ikigai.core.tools.skill_offer import SKILLS_KEY, SKILLS_SET
from ikigai.core.tools.tool_selection import EVERY_SET, EXTERNAL_SET, ToolSelection
from ikigai.core.tools.vendor_search import REPLACED_TOOL, VENDOR_SEARCH

replace = msgspec.structs.replace

FOREIGN_SETS = frozenset({MCP_SET, EXTERNAL_SET})
"""Tool sets whose schemas others wrote, and a vendor may refuse."""


class Mark(Record, frozen=True):
    """A mark that a rewind can go back to; `id` is its event's."""

    id: int
    label: str


class UndoableChange(Record, frozen=True):
    """A change of its memory that this agent can undo: the event's id and kind. An `empty` filter removed nothing.

    `command` is the one that made it, without its slash; of an undo and a redo, the one that it took or brought back.
    """

    id: int
    kind: str
    command: str
    empty: bool = False


class Summary(Record, frozen=True):
    """The text that replaces the events of `intervals`, the last of which is `upto`: so many `turns`; `id` is its own
    event's.
    """

    id: int
    upto: int
    text: str
    turns: int
    intervals: tuple[Interval, ...]


def summary_of(id: int, event: Summarized) -> Summary:
    """Return the summary that the event stored as `id` brings into memory."""
    return Summary(id, event.upto, event.text, event.turns, excluded_by(id, event).intervals)


class MemoryStart(Record, frozen=True):
    """The beginning of memory: equal as long as no event up to a certain one left memory, or came back."""

    cleared: int | None
    summaries: tuple[int, ...]
    gone: frozenset[Interval]
    removed: tuple[int, ...]


class Memory(Record, frozen=True):
    """The meaning of the log now. Status and pending calls are derived; sizes are bytes."""

    run: RunConfig
    agent: str
    settings: Choices
    """The settings in force."""
    envelope: int
    """Bytes of the request without its turns: system prompt, tools, and the newest summary."""
    own: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    """The agent's own choices."""
    window: Window = Window()
    """The turns that are sent."""
    full_window: Window = Window()
    """The turns before the open turn grew: turns that made room for it are sent again if it takes less once it has
    ended.
    """
    open: OpenTurn | None = None
    marks: tuple[Mark, ...] = ()
    excluded_intervals: tuple[Interval, ...] = ()
    """Open id intervals that rewinds and filters exclude."""
    forgotten_intervals: tuple[Interval, ...] = ()
    """Open id intervals that filters alone exclude."""
    removed_ids: tuple[int, ...] = ()
    """The single events that filters exclude, ascending."""
    summaries: tuple[Summary, ...] = ()
    """The summaries that no rewind went behind. The newest one is sent, and counts with `envelope`."""
    changes: tuple[UndoableChange, ...] = ()
    """The changes since the clear that are in force and this agent's own."""
    cleared: int | None = None
    """The clear that memory begins behind."""
    stale: bool = False
    """True if the past changed, and memory has to be loaded before the next decision."""
    limits: ModelLimits = ModelLimits(0, 0)
    """The model's limits as known when memory was loaded. A caller that learns others loads memory again, for the fold
    must not change under the turns that it has folded.
    """
    turn_room: int = 0
    """Bytes that an open turn may take by `limits`."""
    recorded: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    """The settings that were in force according to the log."""
    unconfirmed: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    """Choices that another program stored, and that do not count."""

    @property
    def status(self) -> AgentStatus:
        if self.open is None:
            return AgentStatus.IDLE
        return AgentStatus.RUNNING_TOOLS if len(self.open.calls) > len(self.open.answered) else AgentStatus.WAITING

    @property
    def model(self) -> str:
        """The model in force, "provider/name"; "" for none."""
        return str(self.settings.get("model") or "")

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]

    @property
    def budget(self) -> int:
        """The sliding budget in tokens; 0 means that no turn slides out."""
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
        """The summary that is sent."""
        return self.summaries[-1] if self.summaries else None

    @property
    def summarized_upto(self) -> int:
        """The id of the last event that a summary replaces; 0 for none."""
        return max((summary.upto for summary in self.summaries), default=0)

    @property
    def excluded(self) -> tuple[Interval, ...]:
        """The intervals of `excluded_intervals` and of the summary that reaches furthest."""
        furthest = max(self.summaries, key=lambda summary: summary.upto, default=None)
        return (*self.excluded_intervals, *furthest.intervals) if furthest else self.excluded_intervals

    def start_up_to(self, upto: int) -> MemoryStart:
        """Return the beginning of memory up to the event `upto`."""
        gone = frozenset((low, min(high, upto + 1)) for low, high in self.excluded_intervals if low < upto)
        removed = tuple(id for id in self.removed_ids if id <= upto)
        return MemoryStart(self.cleared, tuple(summary.id for summary in self.summaries), gone, removed)

    @property
    def size(self) -> int:
        """Bytes of the body of the request as it stands: envelope, notice, window, open turn."""
        opened = self.open.size if self.open else 0
        return self.envelope + notice_size(self, self.window.older.messages) + self.window.size + opened

    @property
    def used(self) -> int:
        """Tokens of the request as it stands."""
        return tokens.count_tokens(self.provider, self.model, self.size)

    @property
    def used_at_least(self) -> int:
        """Tokens of the request without the turns that can slide out. A kept first turn and the newest never do."""
        if not self.budget:
            return self.used
        turns = self.window.turns
        first = self.window.first or (turns[0] if turns and self.run.rules.keep_first_turn else None)
        newest = turns[-1] if turns and not self.open else None
        staying = (first,) if first is newest else (first, newest)
        size = self.size - self.window.size + sum(turn.size for turn in staying if turn)
        return tokens.count_tokens(self.provider, self.model, size)

    @property
    def cutoff(self) -> int | None:
        """Id of the first event in context when older events are out of it; None when all events are in."""
        turn = self.first_after_rule
        if turn is None or not (self.window.older.turns or self.summaries):
            return None
        return turn.first if isinstance(turn, OpenTurn) else turn.id

    @property
    def first_after_rule(self) -> Turn | OpenTurn | None:
        """The turn right after the context rule; None if no turn is sent.

        A first turn that is kept stands before the rule only if turns are left out between it and the others.
        """
        kept = self.window.first
        if kept and not self.window.older.turns:
            return kept
        return self.window.turns[0] if self.window.turns else self.open

    def has_in_context(self, id: int) -> bool:
        """Return True if the event `id` of this lineage is in context."""
        start, first = self.cutoff or (self.cleared or 0), self.window.first
        inside = id >= start or (first is not None and first.id <= id <= first.end)
        return inside and not within(id, self.excluded) and not self.has_removed(id, id)

    def has_event_in_context(self, stored: StoredEvent) -> bool:
        """Return True if this event of this lineage is in context."""
        return self.has_in_context(stored.id) and not self.quotes_forgotten(stored)

    def has_removed(self, first: int, last: int) -> bool:
        """Return True if a filter removed single events between `first` and `last`, both included."""
        if not self.removed_ids:
            return False
        place = bisect_left(self.removed_ids, first)
        return place < len(self.removed_ids) and self.removed_ids[place] <= last

    @property
    def has_forgotten(self) -> bool:
        """True if filters exclude something: then recalled excerpts of it may also be excluded."""
        return bool(self.forgotten_intervals or self.removed_ids)

    def quotes_forgotten(self, stored: StoredEvent) -> bool:
        """Return True for recalled excerpts of an event that filters exclude: it must not reach the model by them.

        They leave whole, as in a purge.
        """
        if not self.has_forgotten or not isinstance(stored.event, TurnsRecalled):
            return False
        return any(self.has_removed(id, id) or within(id, self.forgotten_intervals) for id in stored.event.ids)


def output_reserve(limits: ModelLimits) -> int:
    """Return the tokens kept free for the reply: the model's longest, but at most a quarter of its context."""
    return min(limits.max_output, limits.context // 4)


def measure(memory: Memory, messages: Iterable[Message]) -> int:
    """Return the bytes that these messages add to a request."""
    measure = memory.run.encoder(memory.model).message
    return sum(measure(message) for message in messages)


def notice_size(memory: Memory, older: int) -> int:
    """Return the bytes of the notice about `older` messages that are left out."""
    message = window_notice(older)
    return memory.run.encoder(memory.model).message(message) if message else 0


def summary_messages(memory: Memory) -> tuple[Message, ...]:
    """Return the messages of a request that replace the condensed turns."""
    summary = memory.summary
    return summary_as_messages(summary.text, summary.turns) if summary else ()


def envelope(memory: Memory) -> int:
    """Return the bytes of a request that no turn adds: its frame, and the summary."""
    return memory.run.encoder(memory.model).envelope(request_frame(memory)) + measure(memory, summary_messages(memory))


def used_without_open(memory: Memory) -> int:
    """Return the tokens of the request as it stood before the open turn began."""
    idle = replace(memory, open=None, window=memory.full_window)
    return replace(idle, envelope=envelope(idle)).used


def used_with_summary(memory: Memory, event: Summarized) -> int:
    """Return the tokens of the request once this summary replaces what it covers, as far as the window knows."""
    summed = replace(memory, summaries=(*memory.summaries, summary_of(0, event)), open=None)
    first = (memory.full_window.first,) if memory.full_window.first else ()
    kept = sum(turn.size for turn in (*first, *memory.full_window.turns) if turn.id > event.upto)
    return tokens.count_tokens(memory.provider, memory.model, envelope(summed) + kept)


def plain_size(memory: Memory) -> int:
    """Return the plain bytes of the request as it stands, for `UsageReported.size`, whatever its turns count for."""
    opened = memory.open.size if memory.open else 0
    return memory.envelope + notice_size(memory, memory.window.older.messages) + memory.window.plain_size + opened


def offered_tools(memory: Memory) -> tuple[ToolSpec, ...]:
    """Return the tools that the model has now."""
    if not memory.limits.tools:
        return ()
    if memory.open and memory.open.planning:
        return memory.run.planning()
    tools = memory.run.tools
    if foreign := memory.settings.get(MCP_TOOLS_KEY):
        tools += offered_specs(str(foreign))
    if any(tool.set in FOREIGN_SETS for tool in tools):
        # Most conversations have no such tool.
        from ikigai.core.request.tool_rules import refusal, with_fitting_description

        rule = memory.run.encoder(memory.model).tool_rule
        known = [each for each in tools if each.set not in FOREIGN_SETS or not refusal(rule, each.schema)]
        tools = tuple([with_fitting_description(rule, each) if each.set in FOREIGN_SETS else each for each in known])
    selection = ToolSelection.of(memory.settings)
    off = selection.sets_off  # asked for with each turn of a replay: `is_off` for each tool takes five times as long
    if not memory.settings.get(SKILLS_KEY):
        off |= {SKILLS_SET}
    if EVERY_SET in off:
        return ()
    left_out = REPLACED_TOOL if memory.limits.vendor_search and VENDOR_SEARCH not in off else VENDOR_SEARCH
    return tuple([tool for tool in tools if tool.set not in off and tool.name != left_out])


def request_frame(memory: Memory) -> Request:
    """Return the next request without its messages."""
    return Request(
        model=memory.model.partition("/")[2],
        system=system_prompt(memory.settings),
        tools=offered_tools(memory),
        level=str(memory.settings.get("level") or ""),
        max_output=output_reserve(memory.limits),
    )


def next_request(memory: Memory) -> Request:
    """Return the next request: summary, notice, window, open turn; every call with its result, under its own id."""
    messages = (*summary_messages(memory), *_turns(memory))
    opened = memory.open.messages if memory.open else ()
    if opened:
        messages = take_over(messages, memory.model)
    ids = [*call_ids(_first(memory)), *memory.window.turns.sent.call_ids, *call_ids(opened)]
    if len(ids) != len(set(ids)):
        messages = distinguish_calls(messages)
    return replace(request_frame(memory), messages=messages)


def _first(memory: Memory) -> tuple[Message, ...]:
    return memory.window.first.messages if memory.window.first else ()


def _turns(memory: Memory) -> tuple[Message, ...]:
    older = window_notice(memory.window.older.messages)
    opened = pair_calls(memory.open.messages, memory.open.started, is_open=True) if memory.open else ()
    return (*_first(memory), *((older,) if older else ()), *memory.window.turns.sent.messages, *opened)
