"""What the index of words holds of a text: folded words, pairs of characters where there are no spaces, pieces.

Everything is folded on both sides: case, accents and compatibility forms (é = e, ß = ss, ﬁ = fi) make no difference.
Writing without spaces (Chinese, Japanese, Thai …; also Korean, and emoji) is held as pairs of characters, so that any
piece of it is found.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ikigai.core.search.stop_words import COMMON

LONGEST_KEY = 64
"""Characters of a key; what is longer between two spaces is in the index as several."""
JOIN = "+"
PIECE, OVERLAP = 16_000, 200
"""Characters of a piece, and how many of them the next one begins with: with both no piece is above 64 KB."""

# Scripts that put no spaces between words, Hangul with its particles, and symbols with a meaning of their own.
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2190-\u2bff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001f000-\U0001faff"
    "\U00020000-\U0003fffd"
)
WORD = r"\w\u0900-\u0dff"  # vowel signs of Indic scripts are no \w, and stand within words
_ASCII_WORDS = re.compile("[a-z0-9]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")


class _Patterns(NamedTuple):
    words: re.Pattern[str]
    run: re.Pattern[str]
    token: re.Pattern[str]
    unspaced: re.Pattern[str]
    marks: re.Pattern[str]


@cache  # compiled when the first text is looked at: that takes milliseconds, and the start has none
def _patterns() -> _Patterns:
    return _Patterns(
        re.compile(f"[{WORD}]+"),
        re.compile(f"[{WORD}{UNSPACED}]+"),
        re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+"),
        re.compile(f"[{UNSPACED}]"),
        re.compile(
            "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\ufe00-\ufe0f]"
        ),
    )


_OTHER_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "_": " "}


class _Folds(dict[int, str]):
    """What each character is folded to; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        bare = _patterns().marks.sub("", unicodedata.normalize("NFKD", chr(code)))
        folded = unicodedata.normalize("NFC", bare).casefold()
        found = self[code] = "".join(_OTHER_LETTERS.get(each, each) for each in folded)
        return found


_FOLDS = _Folds()


def places_changed(text: str) -> list[tuple[int, int]]:
    """Where folding a text in normal form makes it longer or shorter: the place, and by how many characters."""
    found: list[tuple[int, int]] = []
    for run in () if text.isascii() else _FOREIGN.finditer(text):
        found += [(run.start() + n, len(_FOLDS[ord(each)]) - 1) for n, each in enumerate(run[0])]
    return [(at, more) for at, more in found if more]


def fold(text: str) -> str:
    """The text as it is compared; underscores, which join words, become spaces."""
    folded = text.lower().replace("_", " ")
    if folded.isascii():
        return folded
    return _FOREIGN.sub(_folded, unicodedata.normalize("NFC", folded))


def _folded(found: re.Match[str]) -> str:
    run = found[0]
    return _FOLDS[ord(run)] if len(run) == 1 else run.translate(_FOLDS)


def is_unspaced(token: str) -> bool:
    """Whether a token is writing without spaces."""
    return bool(_patterns().unspaced.match(token))


def tokens(folded: str) -> list[str]:
    """The words of a folded text in order; a run of writing without spaces is one."""
    if folded.isascii():
        return _ASCII_WORDS.findall(folded)
    patterns = _patterns()
    if not patterns.unspaced.search(folded):
        return patterns.words.findall(folded)
    return [token for run in patterns.run.findall(folded) for token in patterns.token.findall(run)]


def keys(folded: str) -> set[str]:
    """What an index holds of a folded text."""
    words = tokens(folded)
    found = set(words)
    unspaced = [] if folded.isascii() else [token for token in found if is_unspaced(token)]
    found.difference_update(unspaced)
    for token in unspaced:
        found.update(token[n : n + 2] for n in range(len(token)))  # the last is a single one
    for token in [token for token in found if len(token) > LONGEST_KEY]:
        found.remove(token)
        found.update(token[n : n + LONGEST_KEY] for n in range(0, len(token), LONGEST_KEY))
    found.update(pairs(words))
    return found


@cache
def _common() -> frozenset[str]:
    return frozenset(map(fold, COMMON))


def pairs(words: Sequence[str]) -> list[str]:
    """Keys for two common words in a row."""
    every = _common()
    common = [word in every for word in words]
    return [f"{words[n]}{JOIN}{words[n + 1]}" for n in range(len(words) - 1) if common[n] and common[n + 1]]


def searchable(kind: str, content: str) -> str:
    """The content of an event as people mean it, every character in its place: JSON's escapes are no letters."""
    return re.sub(r'\\[bfnrt"\\/]', "  ", content) if kind == "tool_call" else content


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """A long text in pieces with their places, cut between words where that can be."""
    start = 0
    while len(text) - start > PIECE + OVERLAP:
        end = _space(text, start + PIECE - 1_000, start + PIECE)
        yield start, text[start : end + OVERLAP]
        start = end
    if start < len(text):
        yield start, text[start:]


def _space(text: str, first: int, last: int) -> int:
    """Behind the last space in between, or `last`."""
    found = max(text.rfind(" ", first, last), text.rfind("\n", first, last))
    return found + 1 if found >= 0 else last
