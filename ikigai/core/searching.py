"""Searching without a database: a query becomes terms, a text becomes keys of an index, a hit becomes a snippet.

    word        at the beginning of a word              "two words"   these words in a row, whole
    *word*      anywhere in a word                      word*         the same as word
    a.b()       just so, from the beginning of a word   =>            just so; no index helps

Everything is folded on both sides: case, accents and compatibility forms (é = e, ß = ss, ﬁ = fi) make no difference.
Writing without spaces (Chinese, Japanese, Thai …; also Korean, and emoji) is found by any piece of it, and goes into
the index as pairs of characters. A hit holds every term of the query, in the same piece of its text.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum

from ikigai.core.common_words import COMMON
from ikigai.core.errors import Refused
from ikigai.core.record import Record

KINDS = ("user", "assistant", "tool_call", "tool_result", "mark", "command", "summary")
"""Kinds of events whose content is something said."""

LONGEST_QUERY = 1_000
"""Characters."""
MOST_TERMS = 32
LONGEST_KEY = 64
"""Characters of a key; what is longer between two spaces is in the index as several."""
JOIN = "+"
PIECE, OVERLAP = 16_000, 200
"""Characters of a piece, and how many of them the next one begins with: with both no piece is above 64 KB."""

# Scripts that put no spaces between words, Hangul with its particles, and symbols with a meaning of their own.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2190-\u2bff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001f000-\U0001faff"
    "\U00020000-\U0003fffd"
)
_WORD = r"\w\u0900-\u0dff"  # vowel signs of Indic scripts are no \w, and stand within words
_SPACED_RUN = re.compile("[a-z0-9]+")
_WORDS = re.compile(f"[{_WORD}]+")
_RUN = re.compile(f"[{_WORD}{_UNSPACED}]+")
_TOKEN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ENDS = rf"(?:(?![{_WORD}])|(?=[{_UNSPACED}]))"
_BETWEEN = rf"[^{_WORD}{_UNSPACED}]"

_QUOTES = str.maketrans("“”„«»", '"""""')
_AROUND = "()[]{}<>'`,;:!?."
"""What stands around words in sentences and is not meant."""

_OTHER_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "_": " "}
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\ufe00-\ufe0f]"
)


class _Folds(dict[int, str]):
    """What each character is folded to; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        bare = _MARKS.sub("", unicodedata.normalize("NFKD", chr(code)))
        folded = unicodedata.normalize("NFC", bare).casefold()
        found = self[code] = "".join(_OTHER_LETTERS.get(each, each) for each in folded)
        return found


_FOLDS = _Folds()
_FOREIGN = re.compile("[^\x00-\x7f]+")


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


_COMMON = frozenset(map(fold, COMMON))


def tokens(folded: str) -> list[str]:
    """The words of a folded text in order; a run of writing without spaces is one."""
    if folded.isascii():
        return _SPACED_RUN.findall(folded)
    if not _IS_UNSPACED.search(folded):
        return _WORDS.findall(folded)
    return [token for run in _RUN.findall(folded) for token in _TOKEN.findall(run)]


def keys(folded: str) -> set[str]:
    """What an index holds of a folded text."""
    words = tokens(folded)
    found = set(words)
    unspaced = [] if folded.isascii() else [token for token in found if _IS_UNSPACED.match(token)]
    found.difference_update(unspaced)
    for token in unspaced:
        found.update(token[n : n + 2] for n in range(len(token)))  # the last is a single one
    for token in [token for token in found if len(token) > LONGEST_KEY]:
        found.remove(token)
        found.update(token[n : n + LONGEST_KEY] for n in range(0, len(token), LONGEST_KEY))
    found.update(pairs(words))
    return found


def pairs(words: Sequence[str]) -> list[str]:
    """Keys for two common words in a row."""
    common = [word in _COMMON for word in words]
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


class How(StrEnum):
    """How a key has to be met by one of the index."""

    WHOLE = "whole"
    START = "start"
    PART = "part"


class Key(Record, frozen=True):
    text: str
    how: How


class Term(Record, frozen=True):
    """One thing that every hit holds, folded. `words` are those of `text`; a phrase leaves open what is between them.

    `begins` and `ends` say that it does so where a word does.
    """

    text: str
    words: tuple[str, ...]
    phrase: bool = False
    begins: bool = True
    ends: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        """Keys that are in the index wherever the term is in the text; none if no index helps."""
        found: list[Key] = []
        for at, word in enumerate(self.words):
            first, last = at == 0, at == len(self.words) - 1
            if _IS_UNSPACED.match(word):
                found += [Key(word[n : n + 2], How.WHOLE) for n in range(len(word) - 1)] or [Key(word, How.START)]
            elif first and not self.begins and len(word) <= LONGEST_KEY:
                found.append(Key(word, How.PART))
            elif len(word) > LONGEST_KEY:
                found += [Key(word[:LONGEST_KEY], How.WHOLE)] if self.begins or not first else []
            else:
                found.append(Key(word, How.START if last and self._open else How.WHOLE))
        whole = self.words[not self.begins : len(self.words) - self._open]
        found += [Key(pair, How.WHOLE) for pair in pairs(whole)]
        return tuple(dict.fromkeys(found))

    @property
    def _open(self) -> bool:
        """Whether the last word may go on."""
        return not self.ends and self.text.endswith(self.words[-1:] or ("",))

    @property
    def proven(self) -> bool:
        """Whether the keys alone say that the term is there."""
        if len(self.words) != 1 or self.words[0] != self.text:
            return False
        if _IS_UNSPACED.match(self.text):
            return len(self.text) <= 2
        return self.begins and len(self.text) <= LONGEST_KEY

    @property
    def pattern(self) -> str:
        """A regular expression for the places of the term in a folded text."""
        first = re.escape(self.words[0] if self.phrase else self.text)
        found = first
        if self.begins and self.words and self.text.startswith(self.words[0]) and _is_spaced(self.words[0]):
            # Behind the letters: a pattern that begins with them is found much faster.
            found += rf"(?:(?<![{_WORD}]{first})|(?<=[{_UNSPACED}]{first}))"
        if self.phrase:
            for before, word in zip(self.words, self.words[1:], strict=False):
                some = "*" if _IS_UNSPACED.match(before) or _IS_UNSPACED.match(word) else "+"
                found += f"{_BETWEEN}{some}{re.escape(word)}"
        if self.ends and self.words and _is_spaced(self.words[-1]):
            found += _ENDS
        return found


def _is_spaced(word: str) -> bool:
    return not _IS_UNSPACED.match(word)


def parse(query: str) -> tuple[Term, ...]:
    """The terms of a query as typed. A quote that is not closed goes on to the end.

    Raises Refused when there is nothing to search for, or far too much.
    """
    if len(query) > LONGEST_QUERY:
        raise Refused(f"A query has {LONGEST_QUERY:,} characters at most.", "Search for a few words of it.")
    found: list[Term] = []
    for at, part in enumerate(query.translate(_QUOTES).split('"')):
        made = [_phrase(part)] if at % 2 else [_term(chunk) for chunk in part.split()]
        found += filter(None, made)
    terms = tuple(dict.fromkeys(found)) or tuple(filter(None, [_literal(query.strip())]))
    if not terms:
        raise Refused("There is nothing to search for.", 'Write words, "a phrase", the start of a word* or a *part*.')
    if len(terms) > MOST_TERMS:
        raise Refused(f"A query has {MOST_TERMS} words at most.", "Search for those that matter.")
    return terms


def _term(chunk: str) -> Term | None:
    begins, bare = not chunk.startswith("*"), chunk.strip("*")
    ends = not begins and not chunk.endswith("*")
    text = fold(bare).strip(_AROUND).strip()
    words = tuple(tokens(text))
    if words:
        return Term(text, words, begins=begins, ends=ends)
    return _literal(chunk) if bare.strip(_AROUND) else None


def _phrase(part: str) -> Term | None:
    words = tuple(tokens(fold(part)))
    if not words:
        return _literal(part.strip())
    text = words[0] if len(words) == 1 else " ".join(words)
    return Term(text, words, phrase=True, ends=not part.rstrip().endswith("*"))


def _literal(text: str) -> Term | None:
    """What has no words: found just so."""
    folded = fold(text).strip()
    return Term(folded, (), begins=False) if folded else None


def widened(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same terms, found within words, too; phrases stay whole."""
    return tuple(
        Term(term.text, term.words, begins=False, ends=term.ends) if term.words and not term.phrase else term
        for term in terms
    )


MOST_ASKED = 24


def asked(question: str) -> tuple[Term, ...]:
    """The words of a question, each a term of its own, the longest first: those say most. Empty if it has none."""
    words = list(dict.fromkeys(tokens(fold(question))))
    found: list[str] = []
    for word in words:
        unspaced = _IS_UNSPACED.match(word) and len(word) > 2
        found += [word[n : n + 2] for n in range(len(word) - 1)] if unspaced else [word[:LONGEST_KEY]]
    chosen = sorted(dict.fromkeys(found), key=len, reverse=True)[:MOST_ASKED]
    return tuple(Term(word, (word,), ends=_is_spaced(word) and len(word) < 4) for word in chosen)
