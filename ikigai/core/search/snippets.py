"""What a search shows of a hit: where the terms stand in its text, how well they fit, and a line around them."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import log
from typing import TypeAlias

import msgspec

from ikigai.core.record import Record
from ikigai.core.sanitize import clean
from ikigai.core.search.lexer import fold, places_changed
from ikigai.core.search.query import Term

Place: TypeAlias = tuple[int, int]
"""First character, and the one behind the last."""

MOST_PLACES = 500
"""Of each term that are looked at."""
BEFORE = 40
"""Characters in front of the first place in a snippet."""


class Marked(Record, frozen=True):
    """A text on one line, safe for a terminal, and the places in it that were searched for."""

    text: str
    places: tuple[Place, ...] = ()


class Hit(Record, frozen=True):
    """An event that was searched for. `agent` is a name, `agent_id` its id; `at` is seconds since 1970.

    `snippet` is what stands around the terms, or all of a short text.
    """

    id: int
    agent: str
    agent_id: str
    at: float
    kind: str
    snippet: Marked


class Finder:
    """Finds terms in many texts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._words = [word for term in terms for word in term.words or (term.text,)]
        self._patterns = [re.compile(term.pattern) for term in terms]
        self._whole = [re.compile(msgspec.structs.replace(term, begins=True, ends=True).pattern) for term in terms]

    def finds(self, text: str) -> bool:
        """Whether the text holds every term."""
        folded = fold(text)
        return all(word in folded for word in self._words) and all(each.search(folded) for each in self._patterns)

    def score(self, text: str) -> float:
        """How much the text is about the terms: more for whole words, for many, for terms close by, in a short text."""
        folded = fold(text)
        found = 0.0
        firsts: list[int] = []
        for pattern, whole in zip(self._patterns, self._whole, strict=True):
            places = _places(pattern, folded)
            if places:
                firsts.append(places[0][0])
                found += len(places) / (len(places) + 1.5) + bool(whole.search(folded))
        close = len(firsts) > 1 and max(firsts) - min(firsts) < 100
        return found * (1.3 if close else 1.0) / (1 + 0.2 * log(1 + len(folded) / 500))

    def snippet(self, text: str, width: int) -> Marked:
        """About `width` characters of the text, where most of the terms stand together."""
        text = unicodedata.normalize("NFC", text)
        folded = fold(text)
        unfolded = _unfolded(text)
        every = [[(unfolded(a), unfolded(b - 1) + 1) for a, b in _places(each, folded)] for each in self._patterns]
        start = _best(every, width)
        start = 0 if len(text) <= width else max(0, start - BEFORE)
        end = min(len(text), start + width)
        start, end = _widen(text, start, end)
        within = sorted({place for places in every for place in places if start <= place[0] and place[1] <= end})
        return _marked(text, start, end, _joined(within))


def _places(pattern: re.Pattern[str], folded: str) -> list[Place]:
    found: list[Place] = []
    for match in pattern.finditer(folded):
        if match.end() > match.start():
            found.append(match.span())
        if len(found) == MOST_PLACES:
            break
    return found


def _unfolded(text: str) -> Callable[[int], int]:
    """From a place in the folded text to that in the text, which is in normal form."""
    changed = places_changed(text)
    if not changed:
        return lambda at: at
    # What stands behind each change in the folded text, and how far that has been moved.
    moved = list(accumulate(more for _, more in changed))
    behind = [at + 1 + more for (at, _), more in zip(changed, moved, strict=True)]

    def unfolded(at: int) -> int:
        n = bisect_right(behind, at)
        plain = at - (moved[n - 1] if n else 0)
        return min(plain, changed[n][0]) if n < len(changed) else min(plain, len(text) - 1)

    return unfolded


def _best(every: Sequence[Sequence[Place]], width: int) -> int:
    """The first place of the stretch of text that holds most of the terms, of several the first one."""
    places = sorted((place[0], place[1], n) for n, places in enumerate(every) for place in places)
    best, start = 0, places[0][0] if places else 0
    last = 0
    for first, (at, _, _) in enumerate(places):
        last = max(last, first)
        while last < len(places) and places[last][1] <= at + width - BEFORE:
            last += 1
        held = len({n for _, _, n in places[first : min(last, first + 64)]})
        if held > best:
            best, start = held, at
    return start


def _widen(text: str, start: int, end: int) -> Place:
    """Whole words at both ends, if they are not too long."""
    for _ in range(20):
        if start > 0 and not text[start - 1].isspace():
            start -= 1
        if end < len(text) and not text[end].isspace():
            end += 1
    return start, end


def _joined(places: Sequence[Place]) -> list[Place]:
    """Ascending places without overlaps."""
    found: list[Place] = []
    for first, last in places:
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _marked(text: str, start: int, end: int, places: Sequence[Place]) -> Marked:
    """This stretch of the text on one line. What stands in a place and beside it is made safe by itself."""
    made = "… " if start > 0 else ""
    marked: list[Place] = []
    at = start
    for first, last in (*places, (end, end)):
        made = _with(made, text[at:first])
        begin = len(made)
        made = _with(made, text[first:last])
        if len(made) > begin:
            marked.append((begin, len(made)))
        at = last
    return Marked(made.rstrip() + (" …" if end < len(text) else ""), tuple(marked))


def _with(made: str, more: str) -> str:
    """`more` behind what is made, every run of white space one space."""
    more = re.sub(r"\s+", " ", clean(more))
    return made + (more.lstrip() if not made or made.endswith(" ") else more)
