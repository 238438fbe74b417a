"""Turn stored events into memory: the one fold of the program.

`evolve` is the only place where a stored event changes memory. Live use folds the rows that the append returned.
Replay folds the rows that loading read. Both arrive at the same value.

    status              means                                    accepts, besides what is always accepted
    idle                no open turn                             user, clear, mark, rewind, filter, summary, undo
    waiting for model   the open turn wants a reply              user (steering), recall, assistant, tool_call,
                                                                 mail_taken, turn_end, tool_result of a hosted call
    running tools       calls of the open turn lack results      assistant, tool_call, mail_taken, turn_end,
                                                                 tool_started, filter_plan, tool_result

A row that its state does not accept belongs to a damaged log. It changes nothing, and is shown like any other row. A
second call under one id is such a row, and so is a start or a result of a call that is not pending. A hosted call is
never pending.

The fold skips rows that a filter removed, and recalled excerpts of them, but keeps the place of a user's message.
Events that are not in force never get here: `loading` leaves them out.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from ikigai.core.events.events import (
    AGENT_ORIGIN,
    AssistantMessage,
    Choices,
    Cleared,
    Ending,
    Event,
    Filtered,
    FilterPlanned,
    Forked,
    MailTaken,
    Marked,
    Rewound,
    SettingsChanged,
    StoredEvent,
    Summarized,
    ToolStarted,
    Totals,
    TurnEnded,
    TurnsRecalled,
    Undone,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.request.build import close_turn
from ikigai.core.state import grants
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.intervals import excluded_by
from ikigai.core.state.memory import (
    Mark,
    Memory,
    UndoableChange,
    envelope,
    measure,
    notice_size,
    offered_tools,
    replace,
    summary_of,
)
from ikigai.core.state.open_turn import IDLE, READ_RESULT, RUNNING_TOOLS, WAITING, AgentStatus, OpenTurn, TurnBuilder
from ikigai.core.state.window import Turn, Window, fit_window, overflowing_window
from ikigai.core.text import tokens

ACCEPTED_EVENTS: dict[AgentStatus, frozenset[type]] = {
    IDLE: frozenset({UserMessage, Cleared, Marked, Rewound, Filtered, Summarized, Undone}),
    WAITING: frozenset({UserMessage, TurnsRecalled, AssistantMessage, ToolCall, ToolResult, MailTaken, TurnEnded}),
    RUNNING_TOOLS: frozenset(
        {AssistantMessage, ToolCall, ToolStarted, FilterPlanned, MailTaken, ToolResult, TurnEnded}
    ),
}

STATUS_BOUND_EVENTS = frozenset[type]().union(*ACCEPTED_EVENTS.values())


TURN_EVENTS = frozenset[type](
    {UserMessage, TurnsRecalled, AssistantMessage, ToolCall, ToolStarted, FilterPlanned, MailTaken, ToolResult}
)
"""Events that an open turn is made of."""

CHOICES = frozenset[type]({SettingsChanged, Cleared, Forked})
"""Events that no filter removes, also not one of another program that stands before them."""

REMOVED_TEXT = "[removed]"
"""Text in the place of a user's message that a filter removed, so that user and model go on taking turns."""


def empty_memory(run: RunConfig, agent: str) -> Memory:
    """Return the memory of `agent` before its first event."""
    return _with_settings(Memory(run, agent, {}, 0), {}, run.resolve({}))


def is_accepted(memory: Memory, event: Event) -> bool:
    """Return True if a sound log may continue with this event, by the table above."""
    if type(event) not in STATUS_BOUND_EVENTS:
        return True
    return type(event) in ACCEPTED_EVENTS[memory.status] and (
        type(event) not in TURN_EVENTS or _builder(memory).admits(event)
    )


def evolve(memory: Memory, stored: StoredEvent) -> Memory:
    """Return memory after one more stored event."""
    folded = _fold(memory, (stored,))
    return folded if folded.open is memory.open else _make_room(folded)


def replay(memory: Memory, rows: Iterable[StoredEvent]) -> Memory:
    """Return memory after these stored events. The result equals `evolve` for one row after the other.

    Turns that end among them are folded at once: an open turn makes room in `window`, and its end goes by `full`.
    """
    rows = tuple(rows)
    ends = (n for n in range(len(rows), 0, -1) if isinstance(rows[n - 1].event, TurnEnded))
    ended = next((n for n in ends if not memory.has_removed(rows[n - 1].id, rows[n - 1].id)), 0)
    return reduce(evolve, rows[ended:], _fold(memory, rows[:ended]))


def build_turn(memory: Memory, rows: Sequence[StoredEvent]) -> Turn | None:
    """Return the turn that `replay` puts into the window for these rows; None if they make no turn.

    The last row is a turn_end. The turn depends on the settings in memory, and not on the turns before it.
    """
    folded, end = _fold(memory, rows[:-1]), rows[-1]
    return _build_ended(folded, end.id, end.event) if folded.open and isinstance(end.event, TurnEnded) else None


def _fold(memory: Memory, rows: Iterable[StoredEvent]) -> Memory:
    """Return memory after these events. No older turn makes room for the open one yet."""
    builder: TurnBuilder | None = None
    status, accepted = None, frozenset[type]()
    for stored in rows:
        event = stored.event
        if memory.removed_ids and type(event) not in CHOICES and memory.has_removed(stored.id, stored.id):
            if not isinstance(event, UserMessage):
                continue
            event = UserMessage(REMOVED_TEXT)
        elif type(event) is TurnsRecalled and memory.quotes_forgotten(stored):
            builder = builder or _builder(memory)
            builder.leave_out_recalled()
            continue
        if type(event) in TURN_EVENTS:
            builder = builder or _builder(memory)
            if status is not builder.status:
                status, accepted = builder.status, ACCEPTED_EVENTS[builder.status]
            if type(event) in accepted and builder.admits(event):
                if status is IDLE and type(event) is UserMessage and _is_special(event):
                    memory = _begin_special(memory, stored, event)
                    builder = _builder(memory)
                elif type(event) is MailTaken and not _is_own_mail(memory, stored):
                    event = replace(event, reply_to="", attended=False)
                builder.add(stored.id, event)
            continue
        memory, builder = _with_builder(memory, builder), None
        if is_accepted(memory, event):
            memory = _apply(memory, stored)
    return _with_builder(memory, builder)


def _is_special(event: UserMessage) -> bool:
    """Return True if the message begins a planning talk, a turn without a reply, or the turn of another agent."""
    return bool(event.planning or event.alone or event.sender)


def _builder(memory: Memory) -> TurnBuilder:
    def readable() -> bool:  # asked for the few results that are cut or masked
        return any(tool.name == READ_RESULT for tool in offered_tools(memory))

    measure = memory.run.encoder(memory.model).message
    max_bytes = memory.turn_room if memory.budget else None
    return TurnBuilder(memory.open, memory.run.rules.result_limits, readable, measure, max_bytes)


def _with_builder(memory: Memory, builder: TurnBuilder | None) -> Memory:
    turn = builder.turn() if builder else memory.open
    return memory if turn is memory.open else replace(memory, open=turn)


def _apply(memory: Memory, stored: StoredEvent) -> Memory:
    match stored.event:
        case TurnEnded():
            return _add_ended(memory, _build_ended(memory, stored.id, stored.event))
        case Cleared():
            return _with_clear(memory, stored, stored.event)
        case Marked(label):
            return replace(memory, marks=(*memory.marks, Mark(stored.id, label)))
        case Rewound(to):
            kept = tuple(mark for mark in memory.marks if mark.id <= to)
            left = tuple(summary for summary in memory.summaries if summary.id <= to)
            memory = replace(_exclude(memory, stored), marks=kept, summaries=left)
            return _with_envelope(replace(memory, changes=_changes(memory, stored, "rewind", "rewind"), stale=True))
        case Filtered(mode=mode, ranges=ranges, ids=ids):
            changes = _changes(memory, stored, "filter", mode, empty=not ranges and not ids)
            return replace(_exclude(memory, stored), changes=changes, stale=True)
        case Summarized():
            return _with_summary(memory, stored, stored.event)
        case Undone(what=what, command=command):
            changes = _changes(memory, stored, "redo" if what == "undo" else "undo", command)
            return replace(_exclude(memory, stored), changes=changes, stale=True)
        case SettingsChanged():
            return replace(_with_choices(memory, stored, stored.event), stale=True)
        case Forked():
            return replace(memory, marks=())  # marks are their agent's own
        case _:
            return memory


def _changes(
    memory: Memory, stored: StoredEvent, kind: str, command: str, empty: bool = False
) -> tuple[UndoableChange, ...]:
    if stored.agent != memory.agent:
        return memory.changes
    return (*memory.changes, UndoableChange(stored.id, kind, command, empty))


def _exclude(memory: Memory, stored: StoredEvent) -> Memory:
    """Return memory without the events that a rewind or a filter excludes."""
    excluded = excluded_by(stored.id, stored.event)
    forgotten = excluded.intervals if isinstance(stored.event, Filtered) else ()
    return replace(
        memory,
        excluded_intervals=(*memory.excluded_intervals, *excluded.intervals),
        forgotten_intervals=(*memory.forgotten_intervals, *forgotten),
        removed_ids=tuple(sorted({*memory.removed_ids, *excluded.ids})),
    )


def _with_summary(memory: Memory, stored: StoredEvent, event: Summarized) -> Memory:
    """Return memory in which a summary replaces what it covers. The summary of a cleared epoch replaces nothing."""
    summary, changes = summary_of(stored.id, event), _changes(memory, stored, "summary", "condense")
    if not summary.intervals:
        return replace(memory, stale=True)
    return _with_envelope(replace(memory, summaries=(*memory.summaries, summary), changes=changes, stale=True))


def _begin_special(memory: Memory, stored: StoredEvent, event: UserMessage) -> Memory:
    """Return memory with a special turn opened, still without its message. A turn that another program says an agent
    began is reported to nobody.

    A planning talk has other tools, so the envelope is measured anew for as long as the talk lasts.
    """
    id, criteria, sender = stored.id, event.text if event.planning else "", event.sender
    attended = event.attended or not sender
    if not _is_own_mail(memory, stored):
        sender, attended = "", False
    opened = OpenTurn(
        id, id, planning=event.planning, criteria=criteria, alone=event.alone, sender=sender, attended=attended
    )
    memory = replace(memory, open=opened)
    return _with_envelope(memory) if event.planning else memory


def _is_own_mail(memory: Memory, stored: StoredEvent) -> bool:
    """Return True if the agent answers for this row of a turn. Turns of its ancestors have ended, and are answered."""
    return stored.agent == memory.agent and grants.is_confirmed(memory.run.seal, stored)


def _with_clear(memory: Memory, stored: StoredEvent, event: Cleared) -> Memory:
    own, overridden = event.own, event.overridden
    if not grants.is_confirmed(memory.run.seal, stored):
        own = {**memory.own, **grants.stricter_choices(memory.run, memory.own, event.own, event.seal)}
        overridden = ()
    changes, run = _changes(memory, stored, "clear", "clear")[-1:], memory.run.choose(overridden, stored.id)
    fresh = Memory(run, memory.agent, {}, 0, cleared=stored.id, changes=changes)
    return _with_settings(replace(fresh, unconfirmed=grants.unconfirmed_choices(event.own, own)), own, run.resolve(own))


def _with_choices(memory: Memory, stored: StoredEvent, event: SettingsChanged) -> Memory:
    """Return memory after changed settings, the agent's own choices among them."""
    values = event.values
    mine = {key: value for key, value in values.items() if event.origins.get(key) == AGENT_ORIGIN}
    if not grants.is_confirmed(memory.run.seal, stored):
        own = {**memory.own, **grants.stricter_choices(memory.run, memory.own, mine, event.seal)}
        unconfirmed = grants.unconfirmed_choices({**memory.unconfirmed, **mine}, own)
        return _with_settings(replace(memory, unconfirmed=unconfirmed), own, memory.recorded)
    replaced = (values.keys() - mine.keys()) if "profile" in mine else set[str]()
    kept = {key: value for key, value in memory.own.items() if key not in replaced}
    own = grants.without_none({**kept, **mine})
    run = memory.run.choose({*mine, *replaced}, stored.id)
    taken_back = {key: run.resolve(own).get(key) for key, value in mine.items() if value is None}
    others = {key: value for key, value in memory.unconfirmed.items() if key not in mine}
    memory = replace(memory, run=run, unconfirmed=others)
    return _with_settings(memory, own, {**memory.recorded, **values, **taken_back})


def _with_settings(memory: Memory, own: Choices, recorded: Choices) -> Memory:
    """Return memory under these settings, its envelope measured anew. Loading measures turns anew."""
    settings = grants.settings_in_force(memory.run, own, recorded)
    run = memory.run.with_profile(str(settings.get("profile") or ""))
    settled = replace(memory, run=run, own=own, settings=settings, recorded=recorded)
    return _with_envelope(replace(settled, limits=settled.run.limits(settled.model)))


def _with_envelope(memory: Memory) -> Memory:
    """Return memory with its envelope measured anew, and the bytes that an open turn may take beside it."""
    measured = replace(memory, envelope=envelope(memory))
    # Iterations that an open turn drops must depend on the turn alone, and not on the turns before it: so this counts
    # the longest notice.
    room = _bytes(measured, measured.room) - measured.envelope - notice_size(measured, ANY_NUMBER)
    return replace(measured, turn_room=room)


ANY_NUMBER = 10**12
"""A number of messages above any that a notice will name."""


def _make_room(memory: Memory) -> Memory:
    """Remove older turns at once when the open turn and they exceed the room.

    An open turn may exceed the budget by its own size, but never the room.
    """
    if not memory.budget or memory.open is None:
        return memory
    allowed = _bytes(memory, memory.room) - memory.envelope - memory.open.size
    return replace(memory, window=_fit(memory, memory.window, allowed, min_turns=0))


def _build_ended(memory: Memory, end: int, event: TurnEnded) -> Turn:
    assert memory.open
    messages = close_turn(memory.open.messages, memory.open.started, event.ending)
    is_measured = messages == memory.open.messages
    size = plain = memory.open.size if is_measured else measure(memory, messages)
    if not (memory.open.lacks_recalled or memory.has_removed(memory.open.first, end)):
        size = counted_size(memory, event) or size
    # Count the messages of the log: the number dropped depends on the model, and a stored count must not.
    count = len(messages) + 2 * memory.open.iterations
    after = event.before + Totals(1, count, event.size)
    turn, before, previous = memory.open, event.before, event.before_previous
    return Turn(turn.first, end, messages, size, before, previous, after, turn.recalled, turn.lacks_recalled, plain)


def _add_ended(memory: Memory, turn: Turn) -> Memory:
    planned, memory = bool(memory.open and memory.open.planning), replace(memory, open=None)
    return prepend_turns(_with_envelope(memory) if planned else memory, (turn,))


def prepend_turns(memory: Memory, turns: Iterable[Turn]) -> Memory:
    """Return memory with these turns added, one after the other, behind those that have ended. No turn is open then."""
    window, slides, ceiling = memory.full_window, bool(memory.budget), _bytes(memory, memory.ceiling)
    allowed, step = history_bytes(memory), int(memory.run.rules.prune_fraction * ceiling)
    fits = allowed - notice_size(memory, ANY_NUMBER)
    for turn in turns:
        window = window.push(turn)
        if not slides:
            window = overflowing_window(window, allowed)
        elif step or window.size > fits:
            window = _fit(memory, window, allowed, min_turns=1, step=step)
    return replace(memory, open=None, window=window, full_window=window)


def history_bytes(memory: Memory) -> int:
    """Return the bytes that ended turns may take, the notice included."""
    allowed = _bytes(memory, memory.ceiling) - memory.envelope
    cap = memory.run.rules.max_history
    return min(allowed, _bytes(memory, cap)) if cap and memory.budget else allowed


def _fit(memory: Memory, window: Window, allowed: int, min_turns: int, step: int = 0) -> Window:
    keep_first = memory.run.rules.keep_first_turn
    return fit_window(window, allowed, lambda older: notice_size(memory, older), min_turns, step, keep_first)


def _bytes(memory: Memory, ceiling: int) -> int:
    return tokens.max_bytes(memory.provider, memory.model, ceiling)


def counted_size(memory: Memory, event: TurnEnded) -> int:
    """Return the size of a turn in bytes by the tokens stored with its end; 0 if plain bytes hold."""
    counter = memory.run.counter_of(memory.model)
    holds = counter and event.counted == counter and event.tokens > 0
    return event.tokens * tokens.BYTES_PER_TOKEN if holds else 0


def end_turn(memory: Memory, last: tuple[Event, ...], ending: Ending, reason: str = "", counted: int = 0) -> TurnEnded:
    """Return the event by which `evolve` closes the open turn, with `last` as its last events.

    `counted` is the provider's count of the turn in tokens, 0 if the provider was not asked.
    """
    assert memory.open
    builder = _builder(memory)
    for event in last:
        builder.add(memory.open.last, event)
    turn = builder.turn() or memory.open
    messages = close_turn(turn.messages, turn.started, ending)
    size, place = measure(memory, messages), memory.full_window
    if memory.run.counter == "calibrated":
        from ikigai.core.state.token_calibration import calibrated_tokens  # few count so

        usage = next((event for event in reversed(last) if isinstance(event, UsageReported)), None)
        counted = calibrated_tokens(memory, size, usage)
    if memory.run.counter == "bytes" or counted <= 0:
        return TurnEnded(ending, reason, memory.open.first, size, place.total, place.before_newest)
    by = memory.run.counter_of(memory.model)
    return TurnEnded(ending, reason, memory.open.first, size, place.total, place.before_newest, counted, by)
