"""The one fold: what each stored event makes of memory.

`evolve` is the only place where a stored event changes memory. Live use folds the rows that the append returned;
replay folds the rows that loading read; both arrive at the same value.

    status              means                                    accepts, besides what is always accepted
    idle                no open turn                             user, clear, mark, rewind, filter, summary, undo
    waiting for model   the open turn wants a reply              user (steering), assistant, tool_call, mail_taken,
                                                                 turn_end
    running tools       calls of the open turn lack results      the same but user, and tool_started, filter_plan,
                                                                 tool_result

A row that its state does not accept is a damaged log: it changes nothing, and is shown like any other. So is a second
call under one id, and a start or a result of what is not pending.

Rows that a filter took away are passed over, but for the place of a user's message. What is not in force never gets
here: `loading` leaves it out.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from ikigai.core import tokens
from ikigai.core.events import (
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
    Summarised,
    ToolStarted,
    Totals,
    TurnEnded,
    Undone,
    UsageReported,
    UserMessage,
)
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.request.build import closed
from ikigai.core.state.memory import Act, Mark, Memory, Summary, envelope, measured, notice_size, offered, replace
from ikigai.core.state.open_turn import IDLE, READ_RESULT, Growing, OpenTurn, Status
from ikigai.core.state.run_config import Run
from ikigai.core.state.window import Turn, Window, fit, overflow

ACCEPTS: dict[Status, frozenset[type]] = {
    Status.IDLE: frozenset({UserMessage, Cleared, Marked, Rewound, Filtered, Summarised, Undone}),
    Status.WAITING: frozenset({UserMessage, AssistantMessage, ToolCall, MailTaken, TurnEnded}),
    Status.RUNNING_TOOLS: frozenset(
        {AssistantMessage, ToolCall, ToolStarted, FilterPlanned, MailTaken, ToolResult, TurnEnded}
    ),
}


RESTRICTED = frozenset[type]().union(*ACCEPTS.values())


GROWTH = frozenset[type]({UserMessage, AssistantMessage, ToolCall, ToolStarted, FilterPlanned, MailTaken, ToolResult})
"""What an open turn is made of."""


REMOVED = "[removed]"
"""What stands for a user's message that a filter took away, so that user and model go on taking turns."""


def blank(run: Run, agent: str) -> Memory:
    """The memory of an agent before its first event."""
    return _settled(Memory(run, agent, {}, 0), {}, run.resolve({}))


def accepts(memory: Memory, event: Event) -> bool:
    """Whether a sound log may go on with this event: the table above."""
    if type(event) not in RESTRICTED:
        return True
    return type(event) in ACCEPTS[memory.status] and (type(event) not in GROWTH or _growing(memory).admits(event))


def evolve(memory: Memory, stored: StoredEvent) -> Memory:
    """The memory after one more stored event."""
    folded = _fold(memory, (stored,))
    return folded if folded.open is memory.open else _make_room(folded)


def replay(memory: Memory, rows: Iterable[StoredEvent]) -> Memory:
    """The memory after these stored events: what `evolve` comes to with one after the other.

    Turns that end among them are folded at once: an open turn makes room in `window`, and its end goes by `full`.
    """
    rows = tuple(rows)
    ends = (n for n in range(len(rows), 0, -1) if isinstance(rows[n - 1].event, TurnEnded))
    ended = next((n for n in ends if not memory.thinned(rows[n - 1].id, rows[n - 1].id)), 0)
    return reduce(evolve, rows[ended:], _fold(memory, rows[:ended]))


def ended_turn(memory: Memory, rows: Sequence[StoredEvent]) -> Turn | None:
    """The turn that these rows come to, of which the last is a turn_end: what `replay` puts into the window for them.

    It depends on what memory has settled, and not on the turns before it. None where the rows make none.
    """
    folded, end = _fold(memory, rows[:-1]), rows[-1]
    return _ended(folded, end.id, end.event) if folded.open and isinstance(end.event, TurnEnded) else None


def _fold(memory: Memory, rows: Iterable[StoredEvent]) -> Memory:
    """The memory after these events, but for the room that an open turn takes."""
    growing: Growing | None = None
    status, accepted = None, frozenset[type]()
    for stored in rows:
        event = stored.event
        if memory.removed and memory.thinned(stored.id, stored.id):
            if not isinstance(event, UserMessage):
                continue
            event = UserMessage(REMOVED)
        if type(event) in GROWTH:
            growing = growing or _growing(memory)
            if status is not growing.status:
                status, accepted = growing.status, ACCEPTS[growing.status]
            if type(event) in accepted and growing.admits(event):
                if status is IDLE and type(event) is UserMessage and _special(event):
                    memory = _begun(memory, stored.id, event)
                    growing = _growing(memory)
                growing.add(stored.id, event)
            continue
        memory, growing = _grown(memory, growing), None
        if accepts(memory, event):
            memory = _apply(memory, stored)
    return _grown(memory, growing)


def _special(event: UserMessage) -> bool:
    """Whether it begins a turn of a kind of its own."""
    return bool(event.planning or event.alone or event.sender)


def _growing(memory: Memory) -> Growing:
    readable = any(tool.name == READ_RESULT for tool in offered(memory))
    measure = memory.run.encoder(memory.model).message
    most = memory.turn_room if memory.budget else None
    return Growing(memory.open, memory.run.rules.caps, readable, measure, most)


def _grown(memory: Memory, growing: Growing | None) -> Memory:
    turn = growing.turn() if growing else memory.open
    return memory if turn is memory.open else replace(memory, open=turn)


def _apply(memory: Memory, stored: StoredEvent) -> Memory:
    match stored.event:
        case TurnEnded():
            return _close(memory, _ended(memory, stored.id, stored.event))
        case Cleared(own):
            fresh = Memory(memory.run, memory.agent, {}, 0, cleared=stored.id, acts=_acts(memory, stored, "clear")[-1:])
            return _settled(fresh, own, memory.run.resolve(own))
        case Marked(label):
            return replace(memory, marks=(*memory.marks, Mark(stored.id, label)))
        case Rewound(to):
            kept = tuple(mark for mark in memory.marks if mark.id <= to)
            gone, acts = (*memory.gone, (to, stored.id)), _acts(memory, stored, "rewind")
            left = tuple(summary for summary in memory.summaries if summary.id <= to)
            return _framed(replace(memory, marks=kept, gone=gone, summaries=left, acts=acts, stale=True))
        case Filtered():
            return _without(memory, stored, stored.event)
        case Summarised():
            return _condensed(memory, stored, stored.event)
        case Undone():
            return replace(memory, acts=_acts(memory, stored, "undo"), stale=True)
        case SettingsChanged(values, origins):
            mine = {key: value for key, value in values.items() if origins.get(key) == "agent"}
            own: Choices = {key: value for key, value in {**memory.own, **mine}.items() if value is not None}
            taken_back = {key: memory.run.resolve(own).get(key) for key, value in mine.items() if value is None}
            return replace(_settled(memory, own, {**memory.settings, **values, **taken_back}), stale=True)
        case Forked():
            return replace(memory, marks=())  # marks are their agent's own
        case _:
            return memory


def _acts(memory: Memory, stored: StoredEvent, kind: str, empty: bool = False) -> tuple[Act, ...]:
    return (*memory.acts, Act(stored.id, kind, empty)) if stored.agent == memory.agent else memory.acts


def _without(memory: Memory, stored: StoredEvent, filtered: Filtered) -> Memory:
    """What a filter names leaves memory, and so does the talk that planned it, which ends right before it."""
    gone = [(first - 1, end + 1) for first, end in filtered.ranges]
    if filtered.planning:
        gone.append((filtered.planning - 1, stored.id))
    removed = tuple(sorted({*memory.removed, *filtered.ids}))
    acts = _acts(memory, stored, "filter", empty=not filtered.ranges and not filtered.ids)
    return replace(memory, gone=(*memory.gone, *gone), removed=removed, acts=acts, stale=True)


def _condensed(memory: Memory, stored: StoredEvent, event: Summarised) -> Memory:
    """A summary stands for what it covers; what tells of a cleared epoch changes nothing."""
    if event.closed:
        return replace(memory, stale=True)
    summary, acts = Summary(stored.id, event.upto, event.text, event.turns), _acts(memory, stored, "summary")
    return _framed(replace(memory, summaries=(*memory.summaries, summary), acts=acts, stale=True))


def _begun(memory: Memory, id: int, event: UserMessage) -> Memory:
    """A turn of a kind of its own, before its message; what frames a planning talk is measured while that lasts."""
    criteria = event.text if event.planning else ""
    attended = event.attended or not event.sender
    opened = OpenTurn(
        id,
        id,
        planning=event.planning,
        criteria=criteria,
        alone=event.alone,
        sender=event.sender,
        attended=attended,
    )
    begun = replace(memory, open=opened)
    return _framed(begun) if event.planning else begun


def _settled(memory: Memory, own: Choices, settings: Choices) -> Memory:
    """Memory under these settings, its envelope measured anew; turns are measured anew by loading."""
    run = memory.run.under(str(settings.get("profile") or ""))
    settled = replace(memory, run=run, own=own, settings=settings)
    return _framed(replace(settled, limits=settled.run.limits(settled.model)))


def _framed(memory: Memory) -> Memory:
    """Memory with its envelope measured anew, and what an open turn may take beside it."""
    framed = replace(memory, envelope=envelope(memory))
    # What is dropped of an open turn depends on the turn alone, so that it comes to the same whatever stands before it:
    # the longest notice is reckoned with.
    room = _bytes(framed, framed.room) - framed.envelope - notice_size(framed, MANY)
    return replace(framed, turn_room=room)


MANY = 10**12
"""More messages than any notice will name."""


def _make_room(memory: Memory) -> Memory:
    """While a turn is open it may exceed the budget by its own size, but never the room: older turns leave at once."""
    if not memory.budget or memory.open is None:
        return memory
    allowed = _bytes(memory, memory.room) - memory.envelope - memory.open.size
    return replace(memory, window=_fit(memory, memory.window, allowed, least=0))


def _ended(memory: Memory, end: int, event: TurnEnded) -> Turn:
    assert memory.open
    messages = closed(memory.open.messages, memory.open.started, event.ending)
    whole = messages == memory.open.messages  # then it is measured already
    size = memory.open.size if whole else measured(memory, messages)
    if not memory.thinned(memory.open.first, end):
        size = counted_size(memory, event) or size
    # As many messages as the log has: what was dropped depends on the model, and a stored count must not.
    count = len(messages) + 2 * memory.open.iterations
    after = event.before + Totals(1, count, event.size)
    return Turn(memory.open.first, end, messages, size, event.before, event.before_previous, after)


def _close(memory: Memory, turn: Turn) -> Memory:
    planned, memory = bool(memory.open and memory.open.planning), replace(memory, open=None)
    return with_turns(_framed(memory) if planned else memory, (turn,))


def with_turns(memory: Memory, turns: Iterable[Turn]) -> Memory:
    """The memory with these turns behind those that have ended, one after the other; none is open then."""
    window, slides, ceiling = memory.full, bool(memory.budget), _bytes(memory, memory.ceiling)
    allowed, step = history_room(memory), int(memory.run.rules.prune_fraction * ceiling)
    fits = allowed - notice_size(memory, MANY)  # whatever the notice says
    for turn in turns:
        window = window.push(turn)
        if not slides:
            window = overflow(window, allowed)
        elif step or window.size > fits:
            window = _fit(memory, window, allowed, least=1, step=step)
    return replace(memory, open=None, window=window, full=window)


def history_room(memory: Memory) -> int:
    """Bytes that turns which have ended may take, the notice included."""
    allowed = _bytes(memory, memory.ceiling) - memory.envelope
    cap = memory.run.rules.max_history
    return min(allowed, _bytes(memory, cap)) if cap and memory.budget else allowed


def _fit(memory: Memory, window: Window, allowed: int, least: int, step: int = 0) -> Window:
    keep_first = memory.run.rules.keep_first_turn
    return fit(window, allowed, lambda older: notice_size(memory, older), least, step, keep_first)


def _bytes(memory: Memory, ceiling: int) -> int:
    return tokens.most_bytes(memory.provider, memory.model, ceiling)


def counted_size(memory: Memory, event: TurnEnded) -> int:
    """The size of a turn by the tokens stored with its end, 0 where plain bytes hold."""
    counter = memory.run.counted(memory.model)
    holds = counter and event.counted == counter and event.tokens > 0
    return event.tokens * tokens.BYTES_PER_TOKEN if holds else 0


def calibrated(memory: Memory, size: int, usage: UsageReported | None) -> int:
    """Tokens of an ending turn of `size` bytes, at the rate that the provider's own figure for its last request shows.

    Without a figure the rate of the newest turn holds; 0, plain bytes, where that has none either. Both are rates of
    plain bytes: one of sizes that were calibrated themselves would undo the calibration.
    """
    if usage and usage.usage.input > 0 and usage.size > 0:
        rate = usage.usage.input / usage.size
    else:
        newest = memory.full.turns[-1] if memory.full.turns else None
        plain = measured(memory, newest.messages) if newest else 0
        if newest is None or not plain or newest.size == plain:
            return 0
        rate = newest.size / tokens.BYTES_PER_TOKEN / plain
    return max(1, round(size * min(max(rate, LEAST_RATE), MOST_RATE)))


LEAST_RATE, MOST_RATE = 0.02, 2.0
"""Tokens per byte that a calibration can come to: long runs of spaces, and random bytes as base64."""


def ended(memory: Memory, said: tuple[Event, ...], ending: Ending, reason: str = "", counted: int = 0) -> TurnEnded:
    """The end of the open turn, were `said` its last events: the fact that `evolve` closes it by.

    `counted` is what the provider counted, in tokens, if it was asked.
    """
    assert memory.open
    growing = _growing(memory)
    for fact in said:
        growing.add(memory.open.last, fact)
    turn = growing.turn() or memory.open
    messages = closed(turn.messages, turn.started, ending)
    size, place = measured(memory, messages), memory.full
    if memory.run.counter == "calibrated":
        usage = next((fact for fact in reversed(said) if isinstance(fact, UsageReported)), None)
        counted = calibrated(memory, size, usage)
    if memory.run.counter == "bytes" or counted <= 0:
        return TurnEnded(ending, reason, memory.open.first, size, place.total, place.before_newest)
    by = memory.run.counted(memory.model)
    return TurnEnded(ending, reason, memory.open.first, size, place.total, place.before_newest, counted, by)
