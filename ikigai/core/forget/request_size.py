"""What the next request takes once a filter is stored, for older turns may come back into the room that it makes."""

from ikigai.core.events import Event, Filtered
from ikigai.core.state.loading import Reading, loading
from ikigai.core.state.memory import Memory, replace


def sized(memory: Memory, facts: tuple[Event, ...]) -> Reading[tuple[Event, ...]]:
    """Return the facts that are decided for this memory, a filter among them with the size `after` it.

    Deciding does not know that size, for it does not read the log: there it is that before.
    """
    measured = list[Event]()
    for fact in facts:
        if isinstance(fact, Filtered):
            remaining = yield from loading(memory.run, memory.agent, fact)
            fact = replace(fact, after=remaining.used)
        measured.append(fact)
    return tuple(measured)
