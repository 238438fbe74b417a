"""Find names by a part of them or by letters in their order, among a few or among 100,000 in slices.

    match_names   the texts among a few that `typed` may mean
    match_span    the length of the stretch of a text that has the letters of `typed`, in their order
    PathIndex     many paths, kept so that looking through them is fast
    FuzzySearch   the best of those for `typed`, slice by slice

Case and accents do not matter. Nothing here looks at a clock: the caller that steps through a FuzzySearch decides when
to stop.
"""

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

PATHS_PER_STEP = 2_000
"""Paths looked through in one step: about a millisecond."""
ENOUGH_MATCHES = 1_000
"""The number of matches of one rank at which paths of lower ranks are no longer looked for."""
COMBINING_ACCENTS = "[\u0300-\u036f]+"
"""Combining characters, the accents of decomposed letters."""
_BEGINS, _IN_NAME, _IN_NAME_APART, _IN_PATH, _APART = range(5)
"""The ranks of a path, best first: its last part begins with `typed`, holds it, has its letters; or the whole path
holds it, has its letters.
"""


def match_names(typed: str, known: Iterable[str]) -> list[str]:
    """Return the names that begin with `typed` as it is written, then those that hold it, else those that hold it with
    letters between.

    Within each the order of `known` is kept; each text comes once.
    """
    all = list(dict.fromkeys(known))
    bare = fold_text(typed)
    first = [text for text in all if text.startswith(typed)]
    within = [text for text in all if bare in fold_text(text)]
    if first or within:
        return list(dict.fromkeys(first + within))
    spans = [(span, text) for text in all if (span := match_span(bare, fold_text(text)))]
    return [text for _, text in sorted(spans, key=lambda found: found[0])]


def fold_text(text: str) -> str:
    """Return the text as it is compared: in small letters without accents."""
    low = text.lower()
    return low if low.isascii() else re.sub(COMBINING_ACCENTS, "", unicodedata.normalize("NFD", low))


def match_span(typed: str, text: str) -> int:
    """Return the characters from the first to the last letter of `typed` in `text`, in their order; 0 where they are
    not.

    Of several places it is the one that ends first, taken as short as it can be.
    """
    at = -1
    for letter in typed:
        at = text.find(letter, at + 1)
        if at < 0:
            return 0
    return at + 1 - _start(typed, text, at)


def _start(typed: str, text: str, last: int, least: int = 0) -> int:
    """Return the latest start of the letters of `typed` that end at `last`."""
    at = last + 1
    for letter in reversed(typed):
        at = text.rfind(letter, least, at)
    return at


class _Slice:
    """Some paths, and their searched text: all of it plain, a line break and a slash before each."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        lines = ["\n/" + fold_text(path).replace("\n", "\0") for path in paths]
        self.text = "".join(lines) + "\n"
        self.starts = array("L")
        at = 0
        for line in lines:
            self.starts.append(at)
            at += len(line)
        self.starts.append(at)

    def line(self, at: int) -> tuple[int, int, int]:
        """Return the number of the path at a place of the text, and the start and the end of its line."""
        number = bisect_right(self.starts, at) - 1
        return number, self.starts[number], self.starts[number + 1]


class PathIndex:
    """Paths in slices; more can be added at any time, also while a FuzzySearch looks through them."""

    def __init__(self) -> None:
        self.slices: list[_Slice] = []
        self.count = 0

    def add(self, paths: Iterable[str]) -> None:
        paths = iter(paths)
        while taken := list(islice(paths, PATHS_PER_STEP)):
            self.slices.append(_Slice(taken))
            self.count += len(taken)


class FuzzySearch:
    """The search for `typed` in `names`; every step of the iteration looks through one slice.

    Best first: `typed` begins the last part of the path, stands in it, its letters do, it stands anywhere in the path,
    its letters do. Among equals the order is: paths with the same accents, paths in `recent` in its order, the tightest
    match, the shortest path.
    """

    def __init__(self, names: PathIndex, typed: str, recent: Mapping[str, int]) -> None:
        self._names, self._typed, self._recent = names, fold_text(typed).replace("\n", "\0"), recent
        self._accented = "" if typed.isascii() else typed.casefold()
        self._ranks: dict[str, tuple[int, bool, int, int, int, str]] = {}
        self._steps = self._searched()

    def __iter__(self) -> Iterator[None]:
        return self._steps

    def best(self, limit: int) -> list[str]:
        """Return the best `limit` matches until now."""
        return sorted(self._ranks, key=self._ranks.__getitem__)[:limit]

    def _searched(self) -> Iterator[None]:
        ways = (self._prefix_matches, self._substring_matches, self._scattered_matches) if self._typed else (self._all,)
        for way in ways:
            done = 0
            while done < len(self._names.slices):
                way(self._names.slices[done])
                done += 1
                yield
                if len(self._ranks) >= ENOUGH_MATCHES:
                    return

    def _rank(self, path: str, how: int, span: int) -> None:
        other = self._accented not in path.casefold()  # with other accents, or none
        rank = (how, other, self._recent.get(path, len(self._recent)), span, len(path), path)
        if path not in self._ranks or rank < self._ranks[path]:
            self._ranks[path] = rank

    def _all(self, slice: _Slice) -> None:
        for path in slice.paths:
            self._rank(path, path.count("/"), 0)

    def _prefix_matches(self, slice: _Slice) -> None:
        """Add the paths of which a part begins with `typed`."""
        self._places(slice, "/" + self._typed, _BEGINS, _IN_PATH)

    def _substring_matches(self, slice: _Slice) -> None:
        self._places(slice, self._typed, _IN_NAME, _IN_PATH)

    def _places(self, slice: _Slice, part: str, in_name: int, in_path: int) -> None:
        text, size = slice.text, len(part)
        at = text.find(part)
        while at >= 0:
            number, start, end = slice.line(at)
            last = text.rfind(part, start, end)
            self._rank(slice.paths[number], in_path if text.find("/", last + size, end - 1) >= 0 else in_name, size)
            at = text.find(part, end)

    def _scattered_matches(self, slice: _Slice) -> None:
        """Add the paths that have all letters of `typed` in their order."""
        text, typed = slice.text, self._typed
        for found in _lines_with(typed).finditer(text):
            number, start, end = slice.line(found.start())
            path = slice.paths[number]
            if path in self._ranks:
                continue
            name = text.rfind("/", start, end - 1)  # the last character is a folder's own slash
            within = match_span(typed, text[name + 1 : end])
            last = found.end() - 1
            span = within or last + 1 - _start(typed, text, last, start)
            self._rank(path, _IN_NAME_APART if within else _APART, span)


def _lines_with(letters: str) -> re.Pattern[str]:
    """Return the pattern of a line with these letters in their order, up to the last of them; it never looks at a place
    twice.
    """
    return re.compile("\n" + "".join(f"[^\n{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters))
