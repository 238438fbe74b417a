"""Parse a query into terms; each has its keys in an index, and its pattern in a text.

    word        at the beginning of a word              "two words"   these words in a row, whole
    *word*      anywhere in a word                      word*         as word
    a.b()       exactly, from the beginning of a word   =>            exactly; no index helps

A hit holds every term of the query, in the same piece of its text; `lexer` defines the folding.
"""

import re
from enum import StrEnum

from ikigai.core.errors import Rejected
from ikigai.core.events.record import Record
from ikigai.core.search.lexer import (
    MAX_KEY_CHARACTERS,
    UNSPACED_SCRIPTS,
    WORD_CHARACTERS,
    fold,
    is_unspaced,
    pair_keys,
    split_tokens,
)

MAX_QUERY_CHARACTERS = 1_000
"""The most characters of a query."""
MAX_QUERY_TERMS = 32
MAX_QUESTION_CHARACTERS = 4_000
"""The characters of a question that recall looks at, the first ones."""

_QUOTES = str.maketrans("“”„«»", '"""""')
_AROUND = "()[]{}<>'`,;:!?."
"""Punctuation around words in sentences, which a query does not mean."""

_ENDS = rf"(?:(?![{WORD_CHARACTERS}])|(?=[{UNSPACED_SCRIPTS}]))"
_BETWEEN = rf"[^{WORD_CHARACTERS}{UNSPACED_SCRIPTS}]"


class MatchMode(StrEnum):
    """The way in which a key has to match one of the index."""

    WHOLE = "whole"
    START = "start"
    PART = "part"


class IndexKey(Record, frozen=True):
    text: str
    how: MatchMode


class Term(Record, frozen=True):
    """One part of a query that every hit holds, folded. `words` are the words of `text`; a phrase leaves open the
    characters between them.

    `begins` and `ends` say that it does so where a word does.
    """

    text: str
    words: tuple[str, ...]
    phrase: bool = False
    begins: bool = True
    ends: bool = False

    @property
    def keys(self) -> tuple[IndexKey, ...]:
        """The keys that are in the index wherever the term is in the text; none if no index helps."""
        found: list[IndexKey] = []
        for at, word in enumerate(self.words):
            first, last = at == 0, at == len(self.words) - 1
            if is_unspaced(word):
                found += [IndexKey(word[n : n + 2], MatchMode.WHOLE) for n in range(len(word) - 1)] or [
                    IndexKey(word, MatchMode.START)
                ]
            elif first and not self.begins and len(word) <= MAX_KEY_CHARACTERS:
                found.append(IndexKey(word, MatchMode.PART))
            elif len(word) > MAX_KEY_CHARACTERS:
                found += [IndexKey(word[:MAX_KEY_CHARACTERS], MatchMode.WHOLE)] if self.begins or not first else []
            else:
                found.append(IndexKey(word, MatchMode.START if last and self._open else MatchMode.WHOLE))
        whole = self.words[not self.begins : len(self.words) - self._open]
        found += [IndexKey(pair, MatchMode.WHOLE) for pair in pair_keys(whole)]
        return tuple(dict.fromkeys(found))

    @property
    def _open(self) -> bool:
        """True if the last word may go on."""
        return not self.ends and self.text.endswith(self.words[-1:] or ("",))

    @property
    def proven(self) -> bool:
        """True if the keys alone prove that the term is there."""
        if len(self.words) != 1 or self.words[0] != self.text:
            return False
        if is_unspaced(self.text):
            return len(self.text) <= 2
        return self.begins and len(self.text) <= MAX_KEY_CHARACTERS

    @property
    def pattern(self) -> str:
        """The regular expression for the places of the term in a folded text."""
        first = re.escape(self.words[0] if self.phrase else self.text)
        found = first
        if self.begins and self.words and self.text.startswith(self.words[0]) and not is_unspaced(self.words[0]):
            # Behind the letters: a pattern that begins with them is found much faster.
            found += rf"(?:(?<![{WORD_CHARACTERS}]{first})|(?<=[{UNSPACED_SCRIPTS}]{first}))"
        if self.phrase:
            for before, word in zip(self.words, self.words[1:], strict=False):
                some = "*" if is_unspaced(before) or is_unspaced(word) else "+"
                found += f"{_BETWEEN}{some}{re.escape(word)}"
        if self.ends and self.words and not is_unspaced(self.words[-1]):
            found += _ENDS
        return found


def parse(query: str) -> tuple[Term, ...]:
    """Return the terms of a query as typed. A quote that is not closed goes on to the end.

    Raise Rejected when there is nothing to search for, or far too much.
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        raise Rejected(f"A query has {MAX_QUERY_CHARACTERS:,} characters at most.", "Search for a few words of it.")
    found: list[Term] = []
    for at, part in enumerate(query.translate(_QUOTES).split('"')):
        made = [_phrase(part)] if at % 2 else [_term(chunk) for chunk in part.split()]
        found += filter(None, made)
    terms = tuple(dict.fromkeys(found)) or tuple(filter(None, [_literal(query.strip())]))
    if not terms:
        raise Rejected("Add the words to search for.", 'Write words, "a phrase", the start of a word* or a *part*.')
    if len(terms) > MAX_QUERY_TERMS:
        raise Rejected(f"A query has {MAX_QUERY_TERMS} words at most.", "Search for those that matter.")
    return terms


def _term(chunk: str) -> Term | None:
    begins, bare = not chunk.startswith("*"), chunk.strip("*")
    ends = not begins and not chunk.endswith("*")
    text = fold(bare).strip(_AROUND).strip()
    words = tuple(split_tokens(text))
    if words:
        return Term(text, words, begins=begins, ends=ends)
    return _literal(chunk) if bare.strip(_AROUND) else None


def _phrase(part: str) -> Term | None:
    words = tuple(split_tokens(fold(part)))
    if not words:
        return _literal(part.strip())
    text = words[0] if len(words) == 1 else " ".join(words)
    return Term(text, words, phrase=True, ends=not part.rstrip().endswith("*"))


def _literal(text: str) -> Term | None:
    """Return the term of a text without words: found just so."""
    folded = fold(text).strip()
    return Term(folded, (), begins=False) if folded else None


def widen_terms(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms so that they also match within words; phrases stay whole."""
    return tuple(
        Term(term.text, term.words, begins=False, ends=term.ends) if term.words and not term.phrase else term
        for term in terms
    )
