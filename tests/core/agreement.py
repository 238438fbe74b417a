"""Assert invariants of every memory, and its agreement with a naive reading of the log."""

from itertools import count, pairwise

from ikigai.core.events.events import Totals, TurnEnded, UsageReported
from ikigai.core.events.messages import Block, Message, Role, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.state.memory import (
    AgentStatus,
    Memory,
    next_request,
    notice_size,
    plain_size,
    replace,
    summary_messages,
)
from ikigai.core.state.window import fit_window
from ikigai.core.text import tokens
from ikigai.core.views.context_rule import context_rule
from tests.core.encoders import encoder
from tests.core.oracle import Oracle


def agrees(memory: Memory, told: Oracle) -> None:
    """Assert all properties of memory, and its agreement with the naive reading of the log."""
    assert (memory.settings, memory.own, memory.cleared) == (told.settings, told.own, told.cleared)
    assert [(mark.id, mark.label) for mark in memory.marks] == told.marks
    assert [act.id for act in memory.changes] == told.acts
    window = memory.window
    assert [(turn.id, turn.end) for turn in window.turns] == [(turn.id, turn.end) for turn in told.kept]
    assert (window.older.turns, window.older.messages) == told.left_out(told.first)
    apart = [told.turns[0].id] if told.apart(told.first) else []
    assert ([window.first.id] if window.first else []) == apart
    for place, turn in enumerate(window.turns, start=told.first):
        assert counted(turn.before)[0] == told.before(place)
        if not told.as_stored:
            assert counted(turn.before_previous)[0] == told.before(place - 1)
    assert counted(window.total)[0] == told.before(len(told.turns))
    if told.turns or not told.as_stored:
        assert counted(window.before_newest)[0] == told.before(len(told.turns) - 1)
    assert memory.cutoff == told.cutoff
    assert [summary.id for summary in memory.summaries] == [id for id, _ in told.summaries]
    assert (memory.open.first if memory.open else None) == (told.open.id if told.open else None)
    sent = next_request(memory)
    assert with_numbered_calls(sent) == with_numbered_calls(told.request())
    assert memory.size == told.size()
    if memory.status is not AgentStatus.RUNNING_TOOLS:
        assert plain_size(memory) == told.plain()
    if memory.status is not AgentStatus.RUNNING_TOOLS and sent.messages and not any(map(told.counts, told.turns)):
        assert memory.size == encoder(memory.model).weight(sent), "byte for byte"
    is_sound(sent)
    is_within_bounds(memory)
    slides_no_further(memory)
    agrees_with_rule(memory)


def with_numbered_calls(request: Request) -> Request:
    """Return the request with the ids of its calls replaced by their places: an id that an earlier call has changes."""
    places: dict[str, str] = {}
    counter = count()

    def numbered(block: Block) -> Block:
        match block:
            case ToolCall():
                places[block.id] = f"call {next(counter)}"
                return replace(block, id=places[block.id])
            case ToolResult():
                return replace(block, call_id=places[block.call_id])
            case _:
                return block

    messages = tuple(Message(each.role, tuple(map(numbered, each.blocks))) for each in request.messages)
    return replace(request, messages=messages)


def counts_as_told(memory: Memory, ended: TurnEnded, usage: UsageReported | None, counted: int) -> None:
    """Assert that a turn's end holds its plain bytes, and the tokens that the counter of this run has for it.

    `memory` is the one that decided it, `usage` is of the last request, `counted` is the provider's count, if asked.
    """
    counter, model = memory.run.counter, memory.model
    size = encoder(model).message
    expected = {"bytes": 0, "provider": counted, "calibrated": 0}[counter]
    if counter == "calibrated" and usage and usage.usage.input and usage.size:
        expected = round(ended.size * min(2.0, max(0.02, usage.usage.input / usage.size))) or 1
    elif counter == "calibrated" and memory.full_window.turns:
        newest = memory.full_window.turns[-1]
        plain = sum(map(size, newest.messages))
        if newest.size != plain:
            expected = round(ended.size * min(2.0, max(0.02, newest.size / 4 / plain))) or 1
    assert (ended.tokens, ended.counted) == (expected, f"{counter} {model}" if expected else "")


def counted(*totals: Totals) -> tuple[tuple[int, int], ...]:
    """Return turns and messages without the bytes, which are as encoded when the turn ended."""
    return tuple((total.turns, total.messages) for total in totals)


def is_sound(sent: Request) -> None:
    """Assert that every call has one result directly behind it, and that roles take turns."""
    waiting: list[str] = []
    for message in sent.messages:
        answered = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        assert answered == waiting and (message.role is Role.TOOL) is bool(answered)
        waiting = [call.id for call in message.calls]
        assert len(set(waiting)) == len(waiting) and message.blocks
    assert not waiting
    calls = [call.id for message in sent.messages for call in message.calls]
    assert len(set(calls)) == len(calls), "an id is there once in a request"
    roles = [message.role for message in sent.messages]
    pairs = list(pairwise(roles))
    assert (Role.ASSISTANT, Role.ASSISTANT) not in pairs and (Role.TOOL, Role.USER) not in pairs
    assert pairs.count((Role.USER, Role.USER)) <= 1, "only the notice stands before another user's message"
    assert not roles or roles[0] is Role.USER


def is_within_bounds(memory: Memory) -> None:
    if not memory.budget:
        return
    if memory.open is None:
        assert memory.used <= memory.ceiling or len(memory.window.turns) <= 1
        cap, history = memory.run.rules.max_history, memory.size - memory.envelope
        assert not cap or history <= 4 * cap or len(memory.window.turns) <= 1
    else:
        assert memory.used <= memory.room or not memory.window.turns


def slides_no_further(memory: Memory) -> None:
    """Assert that `used_at_least` is the request without the turns that can slide out, but for the notice."""
    least, keep_first = int(memory.open is None), memory.run.rules.keep_first_turn
    shrunk = fit_window(memory.window, 0, lambda _: 0, least, keep_first=keep_first) if memory.budget else memory.window
    alone = replace(memory, window=shrunk)
    notices = [notice_size(each, each.window.older.messages) for each in (memory, alone)]
    expected = tokens.count_tokens(memory.provider, memory.model, alone.size - notices[1] + notices[0])
    assert memory.used_at_least == expected <= memory.used


def agrees_with_rule(memory: Memory) -> None:
    """Assert that the context rule stands right behind summary and notice, before the next message of the request."""
    drawn, sent = context_rule(memory), next_request(memory).messages
    told = summary_messages(memory)
    assert sent[: len(told)] == told and bool(told) is bool(memory.summaries)
    sent = sent[len(told) :]
    notices = [place for place, message in enumerate(sent) if message.text.startswith("[conversation truncated")]
    assert bool(notices) is (memory.window.older.turns > 0)
    apart = memory.window.first.messages if memory.window.first else ()
    assert sent[: len(apart)] == apart and notices in ([], [len(apart)])
    assert (drawn is not None and not drawn.cleared) is bool(notices or (told and sent))
    if told and not sent:
        assert drawn and (drawn.cleared, drawn.before) == (True, memory.summaries[-1].id)
    if drawn and not drawn.cleared:
        turns = [(turn.id, turn.messages[0]) for turn in (*filter(None, (memory.window.first,)), *memory.window.turns)]
        if memory.open:
            turns.append((memory.open.first, memory.open.messages[0]))
        assert (drawn.before, sent[notices[0] + 1 if notices else 0]) in turns
        assert drawn.words == " ".join(dict(turns)[drawn.before].text.split())[:80]
        removed = drawn.before in memory.removed_ids  # the rule stands all the same before where it was
        assert memory.has_in_context(drawn.before) or removed
        first = memory.window.first if notices else None
        assert not memory.has_in_context(drawn.before - 1) or (first and first.id <= drawn.before - 1 <= first.end)
