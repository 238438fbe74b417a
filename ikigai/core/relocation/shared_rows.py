"""Find the rows that histories of one import have in common, because one agent is a fork of another.

A history has the ancestors' rows before its agent's. Where an earlier history of the import had them, they are stored
already, and the agent becomes a fork.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from ikigai.core.relocation.renumber import IdMap, RawRow


class ForkPoint(NamedTuple):
    """The agent, by its id in the new log, and the last event that a fork shares with it, by its new id."""

    agent: str
    event: int


class ConflictingRow(Exception):
    """A row differs from the row of another history, between two that are equal."""


class SharedRows:
    """The rows that an import has stored, by the name of the agent that they came from; 16 bytes for each."""

    def __init__(self) -> None:
        self._hashes: dict[str, array[int]] = {}
        self._new: dict[str, array[int]] = {}
        self._owners: dict[str, tuple[array[int], list[str]]] = {}
        self._ends = set[int]()  # the last row of each agent in a history: others may fork there
        self._last: RawRow | None = None

    def split(self, rows: Iterator[RawRow]) -> tuple[IdMap, ForkPoint | None, Iterator[RawRow]]:
        """Return the ids of the rows that are stored already, where the others fork from them, and the others.

        Raise ConflictingRow.
        """
        numbers, fork, found, place = IdMap(), None, None, 0
        self._last, last = None, None
        for raw in rows:
            place = place + 1 if last and last.agent == raw.agent else 0
            before, found = found, self._find(raw, place)
            if last and before and (raw.agent != last.agent or last.id in self._ends):
                fork = before
            if not found:
                if before != fork:
                    raise ConflictingRow
                return numbers, fork, chain((raw,), rows)
            numbers.add(raw.id, found.event)
            last = raw
        return numbers, found, iter(())

    def _find(self, raw: RawRow, place: int) -> ForkPoint | None:
        """Return where the row is stored, if it is the one at this place, counted from 0, of its agent."""
        hashes = self._hashes.get(raw.agent, ())
        if place >= len(hashes) or hashes[place] != _hash(raw):
            return None
        starts, owners = self._owners[raw.agent]
        return ForkPoint(owners[bisect_right(starts, place) - 1], self._new[raw.agent][place])

    def add(self, raw: RawRow, agent: str, id: int) -> None:
        """Remember that a row of the present history was stored for `agent` under this id."""
        if self._last and self._last.agent != raw.agent:
            self._ends.add(self._last.id)
        self._last = raw
        hashes = self._hashes.setdefault(raw.agent, array("q"))
        starts, owners = self._owners.setdefault(raw.agent, (array("q"), []))
        if not owners or owners[-1] != agent:
            starts.append(len(hashes))
            owners.append(agent)
        hashes.append(_hash(raw))
        self._new.setdefault(raw.agent, array("q")).append(id)

    def end(self) -> None:
        """Take note that the present history has no more rows."""
        if self._last:
            self._ends.add(self._last.id)


def _hash(raw: RawRow) -> int:
    return hash((raw.id, raw.at, raw.kind, raw.content, raw.data))
