"""Measure the next request after a filter, because older turns may return into the freed room."""

from ikigai.core.events.events import Event, Filtered
from ikigai.core.state.loading import Reading, load_memory
from ikigai.core.state.memory import Memory, replace


def add_sizes(memory: Memory, events: tuple[Event, ...]) -> Reading[tuple[Event, ...]]:
    """Return the events decided for this memory, with the size `after` set in a filter among them.

    `decide` does not read the log, so it sets `after` to the size before.
    """
    measured = list[Event]()
    for event in events:
        if isinstance(event, Filtered):
            remaining = yield from load_memory(memory.run, memory.agent, event)
            event = replace(event, after=remaining.used)
        measured.append(event)
    return tuple(measured)
