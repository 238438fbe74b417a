"""Finding names by a part of them or by letters in their order: the best of a few, or of a hundred thousand in slices.

    names       the texts among a few that `typed` may mean
    scattered   how long a stretch of a text the letters of `typed` take, in their order
    Names       many paths, kept so that looking through them is fast
    Search      the best of those for what was typed, slice by slice

Case and accents do not matter. Nothing here looks at a clock: whoever steps through a Search decides when it is long
enough.
"""

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

SLICE = 2_000
"""Paths looked through in one step: about a millisecond."""
ENOUGH = 1_000
"""Paths that fit from which no others are looked for that fit less well."""
ACCENTS = "[\u0300-\u036f]+"
"""What they are made of where they stand apart from their letters."""
_BEGINS, _IN_NAME, _IN_NAME_APART, _IN_PATH, _APART = range(5)
"""How a path fits, best first: its last part begins with what was typed, holds it, has its letters; or all of it."""


def names(typed: str, known: Iterable[str]) -> list[str]:
    """Those that begin with `typed` as it is written, then those that hold it; if there are none, with letters between.

    Within each the order of `known` is kept; each text comes once.
    """
    all = list(dict.fromkeys(known))
    bare = plain(typed)
    first = [text for text in all if text.startswith(typed)]
    within = [text for text in all if bare in plain(text)]
    if first or within:
        return list(dict.fromkeys(first + within))
    spans = [(span, text) for text in all if (span := scattered(bare, plain(text)))]
    return [text for _, text in sorted(spans, key=lambda found: found[0])]


def plain(text: str) -> str:
    """The text as it is compared: in small letters, and those without accents."""
    low = text.lower()
    return low if low.isascii() else re.sub(ACCENTS, "", unicodedata.normalize("NFD", low))


def scattered(typed: str, text: str) -> int:
    """The characters from the first to the last letter of `typed` in `text`, in their order; 0 where they are not.

    Of several places the one that ends first, taken as short as it can be.
    """
    at = -1
    for letter in typed:
        at = text.find(letter, at + 1)
        if at < 0:
            return 0
    return at + 1 - _start(typed, text, at)


def _start(typed: str, text: str, last: int, least: int = 0) -> int:
    """Where the letters of `typed` begin that end at `last`, as late as can be."""
    at = last + 1
    for letter in reversed(typed):
        at = text.rfind(letter, least, at)
    return at


class _Slice:
    """Some paths, and what is looked at: all of it plain, a line break and a slash before each."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        lines = ["\n/" + plain(path).replace("\n", "\0") for path in paths]
        self.text = "".join(lines) + "\n"
        self.starts = array("L")
        at = 0
        for line in lines:
            self.starts.append(at)
            at += len(line)
        self.starts.append(at)

    def line(self, at: int) -> tuple[int, int, int]:
        """The number of the path at a place of the text, where its line begins, and where it ends."""
        number = bisect_right(self.starts, at) - 1
        return number, self.starts[number], self.starts[number + 1]


class Names:
    """Paths in slices; more can be added at any time, also while a Search looks through them."""

    def __init__(self) -> None:
        self.slices: list[_Slice] = []
        self.count = 0

    def add(self, paths: Iterable[str]) -> None:
        paths = iter(paths)
        while taken := list(islice(paths, SLICE)):
            self.slices.append(_Slice(taken))
            self.count += len(taken)


class Search:
    """What `typed` may mean of `names`; every step of the iteration looks through one slice.

    Best first: what was typed begins the last part of the path, stands in it, its letters do, it stands anywhere in the
    path, its letters do. Among equals, those with the very accents, those of `recent` in its order, then the tightest,
    then the shortest path.
    """

    def __init__(self, names: Names, typed: str, recent: Mapping[str, int]) -> None:
        self._names, self._typed, self._recent = names, plain(typed).replace("\n", "\0"), recent
        self._accented = "" if typed.isascii() else typed.casefold()
        self._ranks: dict[str, tuple[int, bool, int, int, int, str]] = {}
        self._steps = self._looked()

    def __iter__(self) -> Iterator[None]:
        return self._steps

    def best(self, most: int) -> list[str]:
        """The best of what was found until now."""
        return sorted(self._ranks, key=self._ranks.__getitem__)[:most]

    def _looked(self) -> Iterator[None]:
        ways = (self._begun, self._held, self._apart) if self._typed else (self._all,)
        for way in ways:
            done = 0
            while done < len(self._names.slices):
                way(self._names.slices[done])
                done += 1
                yield
                if len(self._ranks) >= ENOUGH:
                    return

    def _rank(self, path: str, how: int, span: int) -> None:
        other = self._accented not in path.casefold()  # with other accents, or none
        rank = (how, other, self._recent.get(path, len(self._recent)), span, len(path), path)
        if path not in self._ranks or rank < self._ranks[path]:
            self._ranks[path] = rank

    def _all(self, slice: _Slice) -> None:
        for path in slice.paths:
            self._rank(path, path.count("/"), 0)

    def _begun(self, slice: _Slice) -> None:
        """Where a part of the path begins with what was typed."""
        self._places(slice, "/" + self._typed, _BEGINS, _IN_PATH)

    def _held(self, slice: _Slice) -> None:
        self._places(slice, self._typed, _IN_NAME, _IN_PATH)

    def _places(self, slice: _Slice, wanted: str, in_name: int, in_path: int) -> None:
        text, size = slice.text, len(wanted)
        at = text.find(wanted)
        while at >= 0:
            number, start, end = slice.line(at)
            last = text.rfind(wanted, start, end)
            self._rank(slice.paths[number], in_path if text.find("/", last + size, end) >= 0 else in_name, size)
            at = text.find(wanted, end)

    def _apart(self, slice: _Slice) -> None:
        """Where all letters of what was typed stand in their order."""
        text, typed = slice.text, self._typed
        for found in _lines_with(typed).finditer(text):
            number, start, end = slice.line(found.start())
            path = slice.paths[number]
            if path in self._ranks:
                continue
            name = text.rfind("/", start, end)
            within = scattered(typed, text[name + 1 : end])
            last = found.end() - 1
            span = within or last + 1 - _start(typed, text, last, start)
            self._rank(path, _IN_NAME_APART if within else _APART, span)


def _lines_with(letters: str) -> re.Pattern[str]:
    """A line in which these letters come in their order, up to the last of them; it never looks at a place twice."""
    return re.compile("\n" + "".join(f"[^\n{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters))
