"""Show a search hit: the positions of the terms in its text, its score, and a line around them."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import accumulate, islice
from math import log
from typing import TypeAlias

import msgspec

from ikigai.core.events.record import Record
from ikigai.core.search.lexer import UNSPACED_SCRIPTS, WORD_CHARACTERS, fold, fold_offsets, is_unspaced
from ikigai.core.search.query import Term
from ikigai.core.text.sanitize import clean

CharacterSpan: TypeAlias = tuple[int, int]
"""The first character, and the one behind the last."""

MAX_TERM_PLACES = 500
"""The most places of each term that are looked at."""
LEADING_CHARACTERS = 40
"""Characters in front of the first place in a snippet."""


class MarkedText(Record, frozen=True):
    """A text on one line, safe for a terminal, and the places of the terms in it."""

    text: str
    places: tuple[CharacterSpan, ...] = ()


class SearchHit(Record, frozen=True):
    """An event that a search found. `agent` is a name, `agent_id` its id; `at` is seconds since 1970.

    `snippet` is the text around the terms, or all of a short text.
    """

    id: int
    agent: str
    agent_id: str
    at: float
    kind: str
    snippet: MarkedText


class TermFinder:
    """A finder of terms in many texts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._words = [word for term in terms for word in term.words or (term.text,)]
        self._terms = terms

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(term.pattern) for term in self._terms]

    @cached_property
    def _finders(self) -> list[Callable[[str], list[CharacterSpan]]]:
        return [_finder(term) for term in self._terms]

    @cached_property
    def _whole(self) -> list[re.Pattern[str]]:
        return [re.compile(msgspec.structs.replace(term, begins=True, ends=True).pattern) for term in self._terms]

    def finds(self, text: str) -> bool:
        """Return True if the text holds every term."""
        folded = fold(text)
        return all(word in folded for word in self._words) and all(each.search(folded) for each in self._patterns)

    def score(self, text: str) -> float:
        """Return the score of the text: higher for whole words, for many, for terms close by, in a short text."""
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

    def snippet(self, text: str, width: int) -> MarkedText:
        """Return about `width` characters of the text, where most of the terms stand together."""
        text = unicodedata.normalize("NFC", text)
        every = self._find(text)
        start, end = _stretch(text, every, width)
        within = sorted({place for places in every for place in places if start <= place[0] and place[1] <= end})
        return _marked(text, start, end, _joined(within))

    def excerpt(self, text: str, width: int) -> str:
        """Return the text of `snippet`. In a text of `width` characters nothing is looked for."""
        text = unicodedata.normalize("NFC", text)
        start, end = _stretch(text, self._find(text) if len(text) > width else (), width)
        return _marked(text, start, end, ()).text

    def _find(self, text: str) -> list[list[CharacterSpan]]:
        """Return the places of each term in a text in normal form."""
        folded, unfolded = fold(text), _unfolded(text)
        return [[(unfolded(a), unfolded(b - 1) + 1) for a, b in find(folded)] for find in self._finders]


def _finder(term: Term) -> Callable[[str], list[CharacterSpan]]:
    """Return a function from a folded text to the places of the term.

    A term without borders is found as it is. The borders of a single word are looked at by themselves: a pattern with
    them takes a millisecond to compile.
    """
    if not (term.begins or term.ends or term.phrase):
        return lambda folded: _literal_places(term.text, folded)
    if not term.begins or term.phrase or term.words != (term.text,) or is_unspaced(term.text):
        pattern = re.compile(term.pattern)
        return lambda folded: _places(pattern, folded)

    def find(folded: str) -> list[CharacterSpan]:
        within = _within_words()
        return _literal_places(
            term.text, folded, lambda a, b: not (within(folded, a - 1) or (term.ends and within(folded, b)))
        )

    return find


@cache
def _within_words() -> Callable[[str, int], bool]:
    """Return a function that says if the character at a place belongs to a word beside it."""
    pattern = re.compile(f"(?![{UNSPACED_SCRIPTS}])[{WORD_CHARACTERS}]")
    return lambda text, at: at >= 0 and pattern.match(text, at) is not None


def _places(pattern: re.Pattern[str], folded: str) -> list[CharacterSpan]:
    found = (match.span() for match in pattern.finditer(folded) if match.end() > match.start())
    return list(islice(found, MAX_TERM_PLACES))


def _literal_places(
    word: str, folded: str, accept: Callable[[int, int], bool] = lambda start, end: True
) -> list[CharacterSpan]:
    found: list[CharacterSpan] = []
    at = folded.find(word) if word else -1
    while at >= 0 and len(found) < MAX_TERM_PLACES:
        if accept(at, at + len(word)):
            found.append((at, at + len(word)))
        at = folded.find(word, at + len(word))
    return found


def _unfolded(text: str) -> Callable[[int], int]:
    """Return a function from a place in the folded text to that in the text, which is in normal form."""
    changed = fold_offsets(text)
    if not changed:
        return lambda at: at
    # The places behind each change in the folded text, and the offset from there on.
    moved = list(accumulate(more for _, more in changed))
    behind = [at + 1 + more for (at, _), more in zip(changed, moved, strict=True)]

    def unfolded(at: int) -> int:
        n = bisect_right(behind, at)
        plain = at - (moved[n - 1] if n else 0)
        return min(plain, changed[n][0]) if n < len(changed) else min(plain, len(text) - 1)

    return unfolded


def _best(every: Sequence[Sequence[CharacterSpan]], width: int) -> int:
    """Return the first place of the stretch of text that holds most of the terms, of several the first one."""
    places = sorted((place[0], place[1], n) for n, places in enumerate(every) for place in places)
    best, start = 0, places[0][0] if places else 0
    last = 0
    for first, (at, _, _) in enumerate(places):
        last = max(last, first)
        while last < len(places) and places[last][1] <= at + width - LEADING_CHARACTERS:
            last += 1
        held = len({n for _, _, n in places[first : min(last, first + 64)]})
        if held > best:
            best, start = held, at
    return start


def _stretch(text: str, every: Sequence[Sequence[CharacterSpan]], width: int) -> CharacterSpan:
    """Return the stretch of about `width` characters to show, by the places of each term."""
    start = 0 if len(text) <= width else max(0, _best(every, width) - LEADING_CHARACTERS)
    return _widen(text, start, min(len(text), start + width))


def _widen(text: str, start: int, end: int) -> CharacterSpan:
    """Widen to whole words at both ends, if they are not too long."""
    for _ in range(20):
        if start > 0 and not text[start - 1].isspace():
            start -= 1
        if end < len(text) and not text[end].isspace():
            end += 1
    return start, end


def _joined(places: Sequence[CharacterSpan]) -> list[CharacterSpan]:
    """Join ascending places, so that none overlap."""
    found: list[CharacterSpan] = []
    for first, last in places:
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _marked(text: str, start: int, end: int, places: Sequence[CharacterSpan]) -> MarkedText:
    """Return this stretch of the text on one line. The text in a place and the text beside it are each made safe."""
    made = "… " if start > 0 else ""
    marked: list[CharacterSpan] = []
    at = start
    for first, last in (*places, (end, end)):
        made = _with(made, text[at:first])
        begin = len(made)
        made = _with(made, text[first:last])
        if len(made) > begin:
            marked.append((begin, len(made)))
        at = last
    return MarkedText(made.rstrip() + (" …" if end < len(text) else ""), tuple(marked))


def _with(made: str, more: str) -> str:
    """Append `more` to `made`, every run of white space as one space."""
    more = re.sub(r"\s+", " ", clean(more))
    return made + (more.lstrip() if not made or made.endswith(" ") else more)
