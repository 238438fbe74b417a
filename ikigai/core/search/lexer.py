"""Compute the index keys of a text: folded words, pairs of characters in scripts without spaces, pieces.

Everything is folded on both sides: case, accents and compatibility forms (é = e, ß = ss, ﬁ = fi) make no difference.
Writing without spaces (Chinese, Japanese, Thai …; also Korean, and emoji) is held as pairs of characters, so that any
piece of it is found.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ikigai.core.search.stop_words import STOP_WORDS

MAX_KEY_CHARACTERS = 64
"""Most characters of a key; a longer word is in the index as several keys."""
PAIR_JOINER = "+"
PIECE_CHARACTERS, OVERLAP_CHARACTERS = 16_000, 200
"""Characters of a piece, and how many of them the next one begins with: with both no piece is above 64 KB."""

MAX_REPLACED_LETTERS = 64
"""Different letters that are replaced one after the other: with more, one look at each character is faster."""

# Scripts that put no spaces between words, Hangul with its particles, and symbols with a meaning of their own.
UNSPACED_SCRIPTS = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2190-\u2bff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001f000-\U0001faff"
    "\U00020000-\U0003fffd"
)
WORD_CHARACTERS = r"\w\u0900-\u0dff"  # vowel signs of Indic scripts are no \w, and stand within words
_ASCII_WORDS = re.compile("[a-z0-9]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")


class _Patterns(NamedTuple):
    words: re.Pattern[str]
    run: re.Pattern[str]
    token: re.Pattern[str]
    unspaced: re.Pattern[str]
    marks: re.Pattern[str]


@cache  # compiled with the first text: that takes milliseconds, and the start has none
def _patterns() -> _Patterns:
    return _Patterns(
        re.compile(f"[{WORD_CHARACTERS}]+"),
        re.compile(f"[{WORD_CHARACTERS}{UNSPACED_SCRIPTS}]+"),
        re.compile(f"[{UNSPACED_SCRIPTS}]+|[^{UNSPACED_SCRIPTS}]+"),
        re.compile(f"[{UNSPACED_SCRIPTS}]"),
        re.compile(
            "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\ufe00-\ufe0f]"
        ),
    )


_OTHER_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "_": " "}


class _Folds(dict[int, str]):
    """The folded form of each character; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        bare = remove_marks(unicodedata.normalize("NFKD", chr(code)))
        folded = unicodedata.normalize("NFC", bare).casefold()
        found = self[code] = "".join(_OTHER_LETTERS.get(each, each) for each in folded)
        return found


_FOLDS = _Folds()


def remove_marks(text: str) -> str:
    """Return the text without accents, points and vowel signs that are characters of their own."""
    return text if text.isascii() else _patterns().marks.sub("", text)


def fold_offsets(text: str) -> list[tuple[int, int]]:
    """Return the places where folding a text in normal form changes its length, each with the number of characters."""
    if all(len(_FOLDS[ord(each)]) == 1 for each in _foreign(text)):
        return []
    found: list[tuple[int, int]] = []
    for run in _FOREIGN.finditer(text):
        found += [(run.start() + n, len(_FOLDS[ord(each)]) - 1) for n, each in enumerate(run[0])]
    return [(at, more) for at, more in found if more]


def fold(text: str) -> str:
    """Return the text as it is compared; underscores, which join words, become spaces."""
    folded = text.lower().replace("_", " ")
    if folded.isascii():
        return folded
    folded = unicodedata.normalize("NFC", folded)
    # A folded letter is folded to itself, so that their order is no matter. Most of Chinese is folded already.
    changed = {ord(each): _FOLDS[ord(each)] for each in _foreign(folded) if _FOLDS[ord(each)] != each}
    if len(changed) > MAX_REPLACED_LETTERS:
        return folded.translate(changed)
    for code, found in changed.items():
        folded = folded.replace(chr(code), found)
    return folded


def _foreign(text: str) -> list[str]:
    """Return the different characters of a text that are not ASCII."""
    return [] if text.isascii() else [each for each in set(text) if each > "\x7f"]


def is_unspaced(token: str) -> bool:
    """Return True if a token is writing without spaces."""
    return bool(_patterns().unspaced.match(token))


def split_tokens(folded: str) -> list[str]:
    """Return the words of a folded text in order; a run of writing without spaces is one."""
    if folded.isascii():
        return _ASCII_WORDS.findall(folded)
    patterns = _patterns()
    if not patterns.unspaced.search(folded):
        return patterns.words.findall(folded)
    return [token for run in patterns.run.findall(folded) for token in patterns.token.findall(run)]


def index_keys(folded: str) -> set[str]:
    """Return the index keys of a folded text."""
    words = split_tokens(folded)
    found = set(words)
    unspaced = [] if folded.isascii() else [token for token in found if is_unspaced(token)]
    found.difference_update(unspaced)
    for token in unspaced:
        found.update(token[n : n + 2] for n in range(len(token)))  # the last is a single one
    for token in [token for token in found if len(token) > MAX_KEY_CHARACTERS]:
        found.remove(token)
        found.update(token[n : n + MAX_KEY_CHARACTERS] for n in range(0, len(token), MAX_KEY_CHARACTERS))
    found.update(pair_keys(words))
    return found


@cache
def _common() -> frozenset[str]:
    return frozenset(map(fold, STOP_WORDS))


def pair_keys(words: Sequence[str]) -> list[str]:
    """Return the keys for two common words in a row."""
    every = _common()
    common = [word in every for word in words]
    return [f"{words[n]}{PAIR_JOINER}{words[n + 1]}" for n in range(len(words) - 1) if common[n] and common[n + 1]]


def searchable_text(kind: str, content: str) -> str:
    """Return the content of an event in the form that is searched, every character in its place: JSON's escapes are no
    letters.
    """
    return re.sub(r'\\[bfnrt"\\/]', "  ", content) if kind == "tool_call" else content


def split_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Split a long text into pieces with their places, cut between words where possible."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS + OVERLAP_CHARACTERS:
        end = _space(text, start + PIECE_CHARACTERS - 1_000, start + PIECE_CHARACTERS)
        yield start, text[start : end + OVERLAP_CHARACTERS]
        start = end
    if start < len(text):
        yield start, text[start:]


def _space(text: str, first: int, last: int) -> int:
    """Return the place behind the last space in between, or `last`."""
    found = max(text.rfind(" ", first, last), text.rfind("\n", first, last))
    return found + 1 if found >= 0 else last
