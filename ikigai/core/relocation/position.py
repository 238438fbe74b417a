"""Decide where events belong that a log may lack: which of them are missing, and if they follow on it.

One rule holds for events that could not be saved and for events that a promoted server does not have.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ikigai.core.events.record import Record
from ikigai.core.relocation.unsaved import Unsaved


class StoredPlace(NamedTuple):
    """The place of a stored event: its id, its seq, and the id and name of its agent."""

    id: int
    seq: int
    agent: str
    name: str


class UnsavedPosition(Record, frozen=True):
    """The place of unsaved events: the last `missing` of them are not in the log yet; `holder` is the name of the agent
    that has the others.

    They belong after the event `at`: 0 is the beginning, None says that it is not in this database. `follows` says that
    no other event comes after it in their agent.
    """

    missing: int
    holder: str
    at: int | None
    follows: bool


def locate(unsaved: Unsaved, stored: Mapping[str, StoredPlace], newest: int) -> UnsavedPosition:
    """Return where the events belong. `stored` has the place of each event that the database has, by `event_id`;
    `newest` is the highest seq of their agent.
    """
    known = [id for id in unsaved.ids if id in stored]
    missing = len(unsaved.ids) - len(known)
    common = known[-1] if known else unsaved.behind
    if common is None:
        return UnsavedPosition(missing, "", 0, newest == 0)
    if common not in stored:
        return UnsavedPosition(missing, "", None, False)
    id, seq, agent, name = stored[common]
    return UnsavedPosition(missing, name, id, agent == unsaved.agent and seq == newest)


def reusable_ids(wanted: Sequence[int], after: int, taken: Collection[int], highest: int) -> list[int]:
    """Return the leading ids among `wanted` that events behind the event `after` can have again.

    An id is free if no event has it (`taken`) and the server gives it to none any more: it has counted to `highest`.
    Behind the first id that is not free none is kept, because ids ascend within an agent.
    """
    kept = list[int]()
    for id in wanted:
        if not after < id <= highest or id in taken:
            break
        kept.append(id)
        after = id
    return kept
