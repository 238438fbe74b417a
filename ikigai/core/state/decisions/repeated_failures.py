"""Count equal tool calls that fail in a row: the model is told of it, and in the end its turn ends."""

import msgspec

from ikigai.core.events.events import Event
from ikigai.core.events.messages import Role, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.reply import is_cut_off
from ikigai.core.state.memory import Memory, replace

TOLD_FAILURES = 3
"""Equal failures in a row from which on model and user are told."""
MAX_EQUAL_FAILURES = 8
"""Equal failures in a row after which the same call ends the turn. A call that succeeds, and a message of the user,
begin a new row: so a poll that succeeds, and a test between two edits, may go on for ever.
"""


class _Failure(Record, frozen=True):
    """A failed call, and how often it has failed in a row by now."""

    call: ToolCall
    times: int


def with_notes(memory: Memory, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return the events with a note to the model in each result of a call that has failed too often."""
    noted = list(events)
    for number, event in enumerate(events):
        failure = _failure(memory, events, event)
        if failure and failure.times >= TOLD_FAILURES and isinstance(event, ToolResult):
            note = (
                f"[This call has failed {failure.times} times in a row with the same arguments. Change them, or do "
                f"something else: after {MAX_EQUAL_FAILURES} failures the turn ends.]"
            )
            noted[number] = replace(event, content=f"{note}\n{event.content}")
    return tuple(noted)


def failure_notices(memory: Memory, events: tuple[Event, ...]) -> tuple[str, ...]:
    """Return sentences for the user about the calls of which the model is told for the first time by these events."""
    failures = (_failure(memory, events, event) for event in events)
    return tuple(
        f"{failure.call.name} has failed {failure.times} times in a row with the same arguments. The model was told; "
        f"after {MAX_EQUAL_FAILURES} failures the turn ends."
        for failure in failures
        if failure and failure.times == TOLD_FAILURES
    )


def repeated_failure_reason(memory: Memory, calls: tuple[ToolCall, ...]) -> str:
    """Return why a turn ends whose model makes a failing call once more; "" if it goes on."""
    for call in calls:
        if (times := _failed_times(memory, call)) >= MAX_EQUAL_FAILURES:
            return (
                f"{memory.model} makes the same call of {call.name} again, which has failed {times} times in a row. "
                "Say what it should do instead, or choose another model with /model."
            )
    return ""


def _failure(memory: Memory, events: tuple[Event, ...], event: Event) -> _Failure | None:
    """Return the failure that an event among those to be stored reports; None for other events."""
    if not isinstance(event, ToolResult) or event.hosted or not event.is_error or is_cut_off(event):
        return None
    made = [call for _, call in memory.open.calls] if memory.open else []
    made += [each for each in events if isinstance(each, ToolCall)]
    call = next((each for each in made if each.id == event.call_id), None)
    return _Failure(call, _failed_times(memory, call) + 1) if call else None


def _failed_times(memory: Memory, call: ToolCall) -> int:
    """Return how often in a row calls equal to this one have failed in the open turn."""
    turn = memory.open
    if turn is None:
        return 0
    failed = set[str]()
    for message in reversed(turn.messages):
        if message.role is Role.USER:
            break
        results = [block for block in reversed(message.blocks) if isinstance(block, ToolResult) and not block.hosted]
        succeeded = next((number for number, block in enumerate(results) if not block.is_error), None)
        failed.update(block.call_id for block in results[:succeeded])
        if succeeded is not None:
            break
    return sum(each.id in failed and _are_equal(each, call) for _, each in turn.calls)


def _are_equal(one: ToolCall, other: ToolCall) -> bool:
    """Return True for calls with equal arguments, in whatever order and with whatever spaces they are written."""
    if one.name != other.name or one.malformed != other.malformed:
        return False
    if one.arguments == other.arguments:
        return True
    try:
        return bool(msgspec.json.decode(one.arguments) == msgspec.json.decode(other.arguments))
    except (ValueError, RecursionError):  # they may have been read on an emptier stack
        return False
